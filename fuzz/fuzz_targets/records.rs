//! Record marking: whatever is received in whatever pieces, the assembler neither panics nor keeps
//! more than its limit, and the pieces make no difference.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use weft_xdr::record::{Assembler, Next};

const LIMIT: usize = 512;

/// The records in these bytes, received in pieces of this size, and whether the stream broke.
fn records(data: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut assembler, mut buf) = (Assembler::new(LIMIT), BytesMut::new());
    let mut found = Vec::new();
    for part in data.chunks(piece) {
        buf.extend_from_slice(part);
        loop {
            match assembler.next(&mut buf) {
                Ok(Next::Record(record)) => {
                    assert!(record.len() <= LIMIT);
                    found.push(record.to_vec());
                }
                Ok(Next::Need(bytes)) => {
                    assert!(bytes > 0 && bytes <= LIMIT + 4);
                    break;
                }
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

fuzz_target!(|data: &[u8]| {
    let whole = records(data, data.len().max(1));
    assert_eq!(records(data, 1), whole);
    assert_eq!(records(data, 7), whole);
});
