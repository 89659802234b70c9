//! The secure channel of the control program: a stranger's greeting and his answer to one lead to
//! nothing, and what he puts into a conversation is not opened. The first byte chooses which.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_control::channel::{Caller, Greeting, greeted};
use weft_server::identity::ClusterSecrets;

const NUMBER: u32 = 7;

fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    let secrets = ClusterSecrets::from_text("0123456789abcdef0123456789abcdef").unwrap();
    let caller = Caller { server: [1; 16], volume: [2; 16] };
    let keys = secrets.accepted_control_keys();
    let (greeting, record) = Greeting::new(&secrets.control_key(), NUMBER, caller).unwrap();
    match which % 3 {
        0 => assert!(greeted(&keys, NUMBER, [3; 16], data).outcome.is_err()),
        1 => assert!(greeting.answered(data).is_err()),
        _ => {
            let (mut server, _) = greeted(&keys, NUMBER, [3; 16], &record).outcome.unwrap();
            assert!(server.open.open(Bytes::copy_from_slice(data)).is_err());
        }
    }
});
