//! Callbacks: the calls as our client reads them, the answers as the server does.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fuzz::stable;
use weft_nfs::callback::{CbCompoundHeader, CbOp, CbReply};

fuzz_target!(|data: &[u8]| {
    stable::<CbCompoundHeader>(data);
    stable::<CbOp>(data);
    stable::<CbReply>(data);
});
