//! Layouts and device addresses as our client reads them, and the stripes it computes from them.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_fuzz::stable;
use weft_layout::{FilesDeviceAddr, FilesLayout, FlexDeviceAddr, FlexLayout, FlexReturn};
use weft_xdr::{Decode, Reader};

fuzz_target!(|data: &[u8]| {
    stable::<FilesLayout>(data);
    stable::<FilesDeviceAddr>(data);
    stable::<FlexLayout>(data);
    stable::<FlexDeviceAddr>(data);
    stable::<FlexReturn>(data);
    let mut r = Reader::new(Bytes::copy_from_slice(data));
    if let Ok(flex) = FlexLayout::decode(&mut r) {
        let _ = flex.distribution();
    }
    let mut r = Reader::new(Bytes::copy_from_slice(data));
    let (Ok(device), Ok(layout)) = (FilesDeviceAddr::decode(&mut r), FilesLayout::decode(&mut r))
    else {
        return;
    };
    if layout.distribution(&device).is_ok() {
        let _ = layout.filehandle(&device, 0);
    }
});
