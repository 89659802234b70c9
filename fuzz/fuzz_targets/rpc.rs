//! RPC messages and AUTH_SYS credentials.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_fuzz::stable;
use weft_xdr::{
    Decode, Reader, from_bytes,
    rpc::{AuthSys, Message},
};

fuzz_target!(|data: &[u8]| {
    stable::<AuthSys>(data);
    let mut r = Reader::new(Bytes::copy_from_slice(data));
    if let Ok(Message::Call(_, header)) = Message::decode(&mut r) {
        let _ = from_bytes::<AuthSys>(header.credential.body);
    }
});
