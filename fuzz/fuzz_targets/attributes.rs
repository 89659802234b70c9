//! Attribute lists.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fuzz::stable;
use weft_nfs::{Acl, Attrs, Bitmap};

fuzz_target!(|data: &[u8]| {
    stable::<Attrs>(data);
    stable::<Acl>(data);
    stable::<Bitmap>(data);
});
