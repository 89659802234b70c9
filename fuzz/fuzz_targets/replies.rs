//! COMPOUND replies as our client reads them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fuzz::stable;
use weft_nfs::{CompoundReply, OpReply};

fuzz_target!(|data: &[u8]| {
    stable::<CompoundReply>(data);
    stable::<OpReply>(data);
});
