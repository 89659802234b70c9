//! Replies whose payload goes straight to a place in a file.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use weft_io::{Destination, Gate, Placement};
use weft_xdr::{
    Decode, Reader,
    rpc::{Message, Reply},
};

/// Reads results up to the payload, past its length, which it returns; `None` if they are not
/// what was expected, or shorter than that.
pub type FindPayload = fn(&mut Reader) -> Option<usize>;

/// Where the payload of a reply may land.
#[derive(Debug, Clone)]
pub struct Landing {
    /// The file it goes to.
    pub destination: Arc<Destination>,
    /// The offset in it.
    pub offset: u64,
    /// Largest payload taken, in bytes.
    pub len_max: usize,
    /// Finds the payload, which must be the last of the results.
    pub find: FindPayload,
}

/// Bytes of a payload that is in its place, or why it is not.
pub type Placed = Result<usize, Arc<io::Error>>;

/// A successful reply.
#[derive(Debug)]
pub struct Answer {
    /// Stands at the results.
    pub results: Reader,
    /// How the payload landed, if it did not come with the results: there it is empty then.
    pub placed: Option<Placed>,
}

/// Where the payload of a reply goes that begins like this and has that length.
pub(super) fn placement(
    head: &[u8],
    record_bytes: usize,
    landing: impl FnOnce(u32) -> Option<(Landing, Arc<Gate>)>,
) -> Option<Placement> {
    let mut r = Reader::new(Bytes::copy_from_slice(head));
    let Ok(Message::Reply(xid, Reply::Success)) = Message::decode(&mut r) else { return None };
    let (landing, gate) = landing(xid)?;
    let len = (landing.find)(&mut r).filter(|len| *len <= landing.len_max)?;
    let at = r.position();
    // RFC 4506 §4.10: padding, and nothing else.
    let end = len.checked_next_multiple_of(4)?.checked_add(at)?;
    let Landing { destination, offset, .. } = landing;
    (end == record_bytes).then_some(Placement { destination, offset, at, len, gate })
}

/// A record whose payload at `at` was taken out, as a message with an empty one.
pub(super) fn without_payload(mut rest: BytesMut, at: usize) -> Bytes {
    rest.truncate(at);
    if let Some(length) = at.checked_sub(4).and_then(|from| rest.get_mut(from..)) {
        length.fill(0);
    }
    rest.freeze()
}
