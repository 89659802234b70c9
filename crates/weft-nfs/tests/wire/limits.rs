//! Lengths and counts at and beyond their limits, and values outside their types.

use bytes::Bytes;
use weft_nfs::{
    AceType, Acl, Acl41, Attrs, Bitmap, Component, CompoundReply, FileHandle, FileType, IoMode,
    LayoutType, LockType, NfsStat, OPAQUE_BYTES_MAX, Opaque, StableHow,
    attr::{LayoutTypes, MdsThreshold, SetTime, ThresholdItem},
    callback::{CbReply, LayoutRecall, NoReferringCalls},
    ops::*,
};
use weft_xdr::{Decode, DecodeErrorKind, Encode, from_bytes, to_bytes};

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

fn refusal<T: Decode>(wire: Bytes) -> Option<DecodeErrorKind> {
    from_bytes::<T>(wire).err().map(|e| e.kind)
}

/// A count or length one above the limit is refused for that; the limit itself is not (there is
/// only nothing behind it).
fn count_limit<T: Decode>(before: &[u32], limit: u32) {
    let with = |count| words(&[before, &[count]].concat());
    let what = std::any::type_name::<T>();
    assert_eq!(refusal::<T>(with(limit + 1)), Some(DecodeErrorKind::Limit), "{what}");
    assert_eq!(refusal::<T>(with(u32::MAX)), Some(DecodeErrorKind::Limit), "{what}");
    assert_eq!(refusal::<T>(with(limit)), Some(DecodeErrorKind::End), "{what}");
}

/// Every counted thing has its limit, and keeps it before anything is allocated.
#[test]
fn counts_have_limits() {
    count_limit::<Opaque>(&[], 1024);
    count_limit::<FileHandle>(&[], 128);
    count_limit::<Component>(&[], 4 << 20);
    count_limit::<Bitmap>(&[], 64);
    count_limit::<Attrs>(&[0], 64 << 10);
    count_limit::<LayoutTypes>(&[], 16);
    count_limit::<Acl>(&[], 4096);
    count_limit::<Acl41>(&[0], 4096);
    count_limit::<MdsThreshold>(&[], 16);
    count_limit::<ThresholdItem>(&[1, 1, 1], 64);
    count_limit::<Flavors>(&[], 32);
    count_limit::<CallbackSecs>(&[], 16);
    count_limit::<ImplIds>(&[], 1);
    count_limit::<RdmaIrd>(&[], 1);
    count_limit::<TestStateidArgs>(&[], 1024);
    count_limit::<TestStateidOk>(&[], 1024);
    count_limit::<Body>(&[], 1 << 20);
    count_limit::<LayoutgetOk>(&[1, 1, 1, 1, 1], 64);
    count_limit::<ReadOk>(&[1], 4 << 20);
    count_limit::<WriteArgs>(&[0; 7], 4 << 20);
    count_limit::<ReadlinkOk>(&[], 4 << 20);
    count_limit::<XattrValue>(&[], 1 << 20);
    count_limit::<ListxattrsOk>(&[0, 0], 1 << 14);
    count_limit::<CreateType>(&[FileType::LNK.0], 4 << 20);
    count_limit::<CompoundReply>(&[0, 0], 64);
    count_limit::<CbReply>(&[0, 0], 8);
    count_limit::<NoReferringCalls>(&[], 64);
    count_limit::<NoReferringCalls>(&[1, 0, 0, 0, 0], 64);
    count_limit::<StateProtectArgs>(&[2, 0, 0], 64);
    count_limit::<CallbackSec>(&[6, 1], 1024);
    count_limit::<LayouterrorArgs>(&[0; 8], 64);
    count_limit::<LayoutstatsArgs>(&[0; 21], 1 << 20);
    count_limit::<CopyArgs>(&[0; 16], 16);
}

/// A value exactly at its limit goes through.
#[test]
fn at_the_limit() {
    let longest = Opaque(Bytes::from(vec![b'x'; OPAQUE_BYTES_MAX]));
    assert_eq!(from_bytes::<Opaque>(to_bytes(&longest)), Ok(longest));
    let handle = FileHandle(Bytes::from(vec![7; 128]));
    assert_eq!(from_bytes::<FileHandle>(to_bytes(&handle)), Ok(handle));
}

/// A directory listing of more entries than any reply can hold.
#[test]
fn endless_listing() {
    let entry = words(&[1, 0, 9, 0, 0, 0]);
    let listing = |n: usize| -> Bytes {
        let head = words(&[0, 0]);
        let entries = std::iter::repeat_n(&entry[..], n).flatten();
        head.iter().chain(entries).chain(&words(&[0, 1])[..]).copied().collect()
    };
    assert_eq!(from_bytes::<ReaddirOk>(listing(1 << 16)).unwrap().entries.len(), 1 << 16);
    assert_eq!(refusal::<ReaddirOk>(listing((1 << 16) + 1)), Some(DecodeErrorKind::Limit));
}

/// Bits beyond any attribute there is: zeros are fine, ones are not.
#[test]
fn wide_bitmaps() {
    let mut wide = vec![12, 1];
    wide.resize(13, 0);
    assert_eq!(from_bytes::<Bitmap>(words(&wide)), Ok(Bitmap::from_words(&[1])));
    wide[12] = 1;
    assert_eq!(refusal::<Bitmap>(words(&wide)), Some(DecodeErrorKind::Limit));
}

/// Attribute lists that are longer or shorter than their mask says.
#[test]
fn attribute_lists_fit_their_mask() {
    let size_only = Bitmap::from_words(&[1 << 4]);
    let list = |bytes: &[u32]| {
        let mut w = to_bytes(&size_only).to_vec();
        w.extend_from_slice(&words(&[u32::try_from(bytes.len() * 4).unwrap()]));
        w.extend_from_slice(&words(bytes));
        Bytes::from(w)
    };
    assert_eq!(from_bytes::<Attrs>(list(&[0, 5])).unwrap().size, Some(5));
    assert_eq!(refusal::<Attrs>(list(&[0])), Some(DecodeErrorKind::End));
    assert_eq!(refusal::<Attrs>(list(&[0, 5, 0])), Some(DecodeErrorKind::Trailing));
}

/// Numbers with names survive when they have none; the caller decides what they are worth.
#[test]
fn open_enums_survive() {
    fn survives<T: Decode + Encode>() {
        for n in [0, 77, u32::MAX] {
            let wire = words(&[n]);
            assert_eq!(to_bytes(&from_bytes::<T>(wire.clone()).unwrap()), wire);
        }
    }
    survives::<NfsStat>();
    survives::<FileType>();
    survives::<IoMode>();
    survives::<LayoutType>();
    survives::<StableHow>();
    survives::<DataContent>();
    survives::<AceType>();
    survives::<SetxattrOption>();
}

/// Union arms that do not exist are refused: what follows could not be read.
#[test]
fn closed_unions_are_refused() {
    fn refused<T: Decode>(bad: &[u32]) {
        for n in bad.iter().chain(&[u32::MAX]) {
            let wire = words(&[&[*n][..], &[0; 40]].concat());
            let what = std::any::type_name::<T>();
            assert_eq!(refusal::<T>(wire), Some(DecodeErrorKind::Value), "{what} {n}");
        }
    }
    refused::<LockType>(&[0, 5]);
    refused::<SetTime>(&[2]);
    refused::<CreateHow>(&[4]);
    refused::<OpenClaim>(&[7]);
    refused::<OpenDelegation>(&[2, 4]);
    refused::<LayoutReturn>(&[0, 4]);
    refused::<LayoutRecall>(&[0, 4]);
    refused::<StateProtectArgs>(&[3]);
    refused::<StateProtectOk>(&[2]);
    refused::<CallbackSec>(&[2, 5]);
    refused::<Locker>(&[2]);
    refused::<Netloc>(&[0, 4]);
    refused::<ReclaimCompleteArgs>(&[2]);
    refused::<Option<u32>>(&[2]);
}
