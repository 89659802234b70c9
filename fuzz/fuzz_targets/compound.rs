//! Operations as the server reads them, one after another, with the head of a COMPOUND and without.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_nfs::{CompoundArgsHeader, OpArgs, decode_op, encode_op_args};
use weft_xdr::{Decode, Reader, Writer};

fn written(op: &OpArgs) -> Bytes {
    let mut w = Writer::new();
    encode_op_args(op, &mut w);
    w.into_bytes()
}

fn operations(r: &mut Reader) {
    while let Ok(op) = decode_op(r) {
        let bytes = written(&op);
        let again = decode_op(&mut Reader::new(bytes.clone())).expect("what we write can be read");
        assert_eq!(written(&again), bytes);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut r = Reader::new(Bytes::copy_from_slice(data));
    operations(&mut r.clone());
    if CompoundArgsHeader::decode(&mut r).is_ok() {
        operations(&mut r);
    }
});
