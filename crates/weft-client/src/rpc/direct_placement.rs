//! Replies whose payload goes straight to a place in a file.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use weft_io::{CancelGuard, Destination, Target};
use weft_xdr::{
    Decode, Reader,
    rpc::{Message, Reply},
};

/// Reads results up to the payload, past its length, which it returns; `None` if they are not
/// what was expected, or shorter than that.
pub type FindPayload = fn(&mut Reader) -> Option<usize>;

/// Where the payload of a reply may go without passing our memory: direct data placement, as
/// RFC 8166 calls it.
#[derive(Debug, Clone)]
pub struct DirectPlacement {
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
    /// How the payload was placed, if it did not come with the results: there it is empty then.
    pub placed: Option<Placed>,
}

/// Where the payload of a reply goes that begins like this and has that length.
pub(super) fn target(
    head: &[u8],
    record_bytes: usize,
    placement: impl FnOnce(u32) -> Option<(DirectPlacement, Arc<CancelGuard>)>,
) -> Option<Target> {
    let mut r = Reader::new(Bytes::copy_from_slice(head));
    let Ok(Message::Reply(xid, Reply::Success)) = Message::decode(&mut r) else { return None };
    let (placement, guard) = placement(xid)?;
    let len = (placement.find)(&mut r).filter(|len| *len <= placement.len_max)?;
    let at = r.position();
    // RFC 4506 §4.10: padding, and nothing else.
    let end = len.checked_next_multiple_of(4)?.checked_add(at)?;
    let DirectPlacement { destination, offset, .. } = placement;
    (end == record_bytes).then_some(Target { destination, offset, at, len, guard })
}

/// A record whose payload at `at` was taken out, as a message with an empty one.
pub(super) fn without_payload(mut rest: BytesMut, at: usize) -> Bytes {
    rest.truncate(at);
    if let Some(length) = at.checked_sub(4).and_then(|from| rest.get_mut(from..)) {
        length.fill(0);
    }
    rest.freeze()
}
