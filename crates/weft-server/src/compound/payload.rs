//! Where the data of a WRITE begin in a COMPOUND of which only the head has come.

use weft_nfs::{CompoundArgsHeader, OpArgs, OpNum, Stateid};
use weft_xdr::{Decode, DecodeError, Reader};

/// Skips what comes before the data of a WRITE; false if the request is none that begins with
/// SEQUENCE, PUTFH and WRITE (RFC 8881 §18.46, §18.19, §18.32), as those of Linux and of our client
/// do.
pub(super) fn skip_to(head: &mut Reader) -> bool {
    skip(head).unwrap_or(false)
}

fn skip(head: &mut Reader) -> Result<bool, DecodeError> {
    CompoundArgsHeader::decode(head)?;
    for before in [OpNum::SEQUENCE, OpNum::PUTFH] {
        if OpNum::decode(head)? != before {
            return Ok(false);
        }
        OpArgs::decode_body(before, head)?;
    }
    if OpNum::decode(head)? != OpNum::WRITE {
        return Ok(false);
    }
    Stateid::decode(head)?;
    let (_offset, _stable, _len) = (head.u64()?, head.u32()?, head.u32()?);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::{collection::vec, prelude::*};
    use weft_nfs::{
        FileHandle, Opaque, SequenceId, SessionId, SlotId, StableHow,
        ops::{PutfhArgs, SequenceArgs, WriteArgs},
    };
    use weft_xdr::{Encode, Payload, Writer};

    use super::*;

    fn request(tag: &[u8], ops: &[OpArgs]) -> Bytes {
        let mut w = Writer::new();
        let tag = Opaque(Bytes::copy_from_slice(tag));
        CompoundArgsHeader { tag, minorversion: 1, count: ops.len() as u32 }.encode(&mut w);
        ops.iter().for_each(|op| op.encode(&mut w));
        w.into_bytes()
    }

    fn ops(handle: &[u8]) -> [OpArgs; 3] {
        let sessionid = SessionId([1; 16]);
        [
            OpArgs::Sequence(SequenceArgs {
                sessionid,
                sequenceid: SequenceId(1),
                slotid: SlotId(0),
                highest_slotid: SlotId(0),
                cachethis: false,
            }),
            OpArgs::Putfh(PutfhArgs { object: FileHandle(Bytes::copy_from_slice(handle)) }),
            OpArgs::Write(WriteArgs {
                stateid: Stateid::ANONYMOUS,
                offset: 5,
                stable: StableHow::UNSTABLE,
                data: Payload::Bytes(Bytes::from_static(b"data of a write")),
            }),
        ]
    }

    proptest! {
        /// The data begin where it says, whatever the lengths before.
        #[test]
        fn the_data_are_found(tag in "[a-z]{0,40}", handle in vec(0u8..9, 0..128)) {
            let whole = request(tag.as_bytes(), &ops(&handle));
            let mut head = Reader::new(whole.clone());
            prop_assert!(skip_to(&mut head));
            prop_assert_eq!(&whole[head.position()..][..15], b"data of a write");
        }

        /// Bytes that mean nothing, or end too early, are no such request, and do no harm.
        #[test]
        fn other_bytes_are_none(bytes in vec(any::<u8>(), 0..200), cut in 0usize..150) {
            let _ = skip_to(&mut Reader::new(bytes.into()));
            let whole = request(b"", &ops(&[1; 32]));
            let data_at = whole.len() - 16;
            prop_assert!(!skip_to(&mut Reader::new(whole.slice(..cut.min(data_at - 1)))));
        }
    }

    /// A request in another order has no place for its data.
    #[test]
    fn other_requests_are_none() {
        let [sequence, putfh, write] = ops(b"handle");
        for ops in [&[putfh.clone(), sequence.clone(), write.clone()][..], &[sequence, putfh]] {
            assert!(!skip_to(&mut Reader::new(request(b"", ops))));
        }
    }
}
