//! Operations as the server reads them, one after another, with the head of a COMPOUND and without.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_nfs::{CompoundArgsHeader, OpArgs};
use weft_xdr::{Decode, Reader, from_bytes, to_bytes};

fn operations(r: &mut Reader) {
    while let Ok(op) = OpArgs::decode(r) {
        let bytes = to_bytes(&op);
        let again: OpArgs = from_bytes(bytes.clone()).expect("what we write can be read");
        assert_eq!(to_bytes(&again), bytes);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut r = Reader::new(Bytes::copy_from_slice(data));
    operations(&mut r.clone());
    if CompoundArgsHeader::decode(&mut r).is_ok() {
        operations(&mut r);
    }
});
