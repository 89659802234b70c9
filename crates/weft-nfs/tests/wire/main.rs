//! The wire form of every type: there and back, cut off, too long, over its limits, damaged.

mod golden;
mod limits;
mod samples;

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use weft_nfs::{AttrNo, Attrs, Bitmap, OpArgs, OpNum};
use weft_xdr::{Decode, DecodeErrorKind, Reader, from_bytes, to_bytes};

use samples::{all, every_attr};

/// Every sample is read back as it was written, and nothing of it is lost.
#[test]
fn round_trips() {
    for s in all() {
        assert_eq!(s.again(s.wire.clone()), Ok(s.wire.clone()), "{}", s.name);
    }
}

/// Every sample cut off anywhere is an error, and so is one with something behind it.
#[test]
fn truncated_and_trailing() {
    for s in all() {
        for cut in 0..s.wire.len() {
            assert!(s.again(s.wire.slice(..cut)).is_err(), "{} cut at {cut}", s.name);
        }
        let longer = [&s.wire[..], &[0; 4]].concat();
        let error = s.again(longer.into()).expect_err(&s.name);
        assert_eq!(error.kind, DecodeErrorKind::Trailing, "{}", s.name);
    }
}

/// No operation whose arguments or results are known is without a sample, of success and of
/// failure.
#[test]
fn samples_cover_every_operation() {
    let zeros = Bytes::from_static(&[0; 4096]);
    let known = |op: &&OpNum| {
        let wire = [&op.0.to_be_bytes()[..], &zeros].concat();
        !matches!(OpArgs::decode(&mut Reader::new(wire.into())), Ok(OpArgs::Unread(_)))
    };
    let known: BTreeSet<_> = OpNum::ALL.iter().filter(known).copied().collect();
    assert!(known.len() > 40);
    let of_args: BTreeSet<_> = samples::op_args().iter().map(OpArgs::op).collect();
    let of_ok: BTreeSet<_> = samples::op_ok().iter().map(weft_nfs::OpOk::op).collect();
    assert_eq!(of_args, known);
    assert_eq!(of_ok, known);
}

/// The sample of attributes has all that are known.
#[test]
fn samples_cover_every_attribute() {
    assert_eq!(every_attr().mask(), Attrs::KNOWN);
}

fn some_attrs() -> impl Strategy<Value = Bitmap> {
    proptest::collection::vec(any::<u32>(), 3).prop_map(|words| Bitmap::from_words(&words))
}

proptest! {
    /// Any choice of attributes comes back as it is, under the mask it was asked for.
    #[test]
    fn any_choice_of_attributes(wanted in some_attrs()) {
        let attrs = every_attr().only(&wanted);
        prop_assert_eq!(attrs.mask(), wanted.and(&Attrs::KNOWN));
        let back: Attrs = from_bytes(to_bytes(&attrs)).unwrap();
        prop_assert_eq!(back, attrs);
    }

    /// Bitmaps come back as they are, whatever is in them.
    #[test]
    fn any_bitmap(words in proptest::collection::vec(any::<u32>(), 0..8)) {
        let set = Bitmap::from_words(&words);
        let back: Bitmap = from_bytes(to_bytes(&set)).unwrap();
        prop_assert_eq!(back, set);
        prop_assert_eq!(back.iter().filter(|a| set.contains(*a)).count(), back.iter().count());
    }

    /// Damaged samples are refused, or read as something that is stable from then on; nothing
    /// panics.
    #[test]
    fn damaged(damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4)) {
        for s in all() {
            let mut wire = s.wire.to_vec();
            for (at, value) in &damage {
                let at = usize::from(*at) % wire.len().max(1);
                wire.iter_mut().skip(at).take(1).for_each(|b| *b = *value);
            }
            if let Ok(read) = s.again(wire.into()) {
                prop_assert_eq!(s.again(read.clone()), Ok(read), "{}", s.name);
            }
        }
    }

    /// Random words are no reason to panic either.
    #[test]
    fn random_words(words in proptest::collection::vec(0u32..12, 0..40)) {
        let wire: Bytes = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        for s in all() {
            if let Ok(read) = s.again(wire.clone()) {
                prop_assert_eq!(s.again(read.clone()), Ok(read), "{}", s.name);
            }
        }
    }
}

/// Attributes that are not known here: the rest of the list is not read, and what could not be
/// read is named.
#[test]
fn unknown_attributes_are_named() {
    let mut mask = Bitmap::of(&[AttrNo::SIZE, AttrNo(60), AttrNo::MODE_UMASK]);
    let mut wire = to_bytes(&mask).to_vec();
    wire.extend([0, 0, 0, 12]);
    wire.extend(7u64.to_be_bytes());
    wire.extend([9; 4]);
    let attrs: Attrs = from_bytes(wire.into()).unwrap();
    assert_eq!(attrs.size, Some(7));
    mask.remove(AttrNo::SIZE);
    assert_eq!(attrs.undecoded, mask);
}
