//! Bytes worked out by hand from the XDR of RFC 8881 (RFC 5662), so that a mistake made twice,
//! in writing and in reading, is seen.

use bytes::Bytes;
use weft_nfs::{
    AttrNo, Attrs, Bitmap, ClientId, FileType, IoMode, LayoutType, OpArgs, OpNum, OpOk, OpReply,
    Opaque, Seqid, SequenceId, Stateid, Verifier, ops::*,
};
use weft_xdr::{rpc::AuthSys, to_bytes};

/// Bytes from hexadecimal digits; blanks and line ends do not count.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|d| u8::try_from(d).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn args(op: &OpArgs) -> Vec<u8> {
    to_bytes(op).to_vec()
}

/// RFC 8881 §18.35.1: a client without state protection or implementation id.
#[test]
fn exchange_id() {
    let op = OpArgs::ExchangeId(ExchangeIdArgs {
        clientowner: ClientOwner {
            verifier: Verifier([0x11; 8]),
            ownerid: Opaque(Bytes::from_static(b"abcde")),
        },
        flags: 0x0002_0101,
        state_protect: StateProtectArgs::None,
        client_impl_id: ImplIds(None),
    });
    let expected = "
        0000002a
        1111111111111111
        00000005 6162636465 000000
        00020101
        00000000
        00000000";
    assert_eq!(args(&op), hex(expected));
}

/// RFC 8881 §18.36.1: both channels, AUTH_SYS callbacks.
#[test]
fn create_session() {
    let channel = |slots, ird| ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 0x0010_0000,
        maxresponsesize: 0x0010_1000,
        maxresponsesize_cached: 0x1000,
        maxoperations: 8,
        maxrequests: slots,
        rdma_ird: RdmaIrd(ird),
    };
    let machine = Bytes::from_static(b"host");
    let sys = AuthSys { stamp: 9, machine, uid: 1000, gid: 100, gids: vec![4] };
    let op = OpArgs::CreateSession(CreateSessionArgs {
        clientid: ClientId(0x0102_0304_0506_0708),
        sequence: SequenceId(7),
        flags: 2,
        fore_chan_attrs: channel(0x40, None),
        back_chan_attrs: channel(1, Some(3)),
        cb_program: 0x4000_0000,
        sec_parms: CallbackSecs(vec![CallbackSec::Sys(sys)]),
    });
    let expected = "
        0000002b
        0102030405060708
        00000007
        00000002
        00000000 00100000 00101000 00001000 00000008 00000040 00000000
        00000000 00100000 00101000 00001000 00000008 00000001 00000001 00000003
        40000000
        00000001
        00000001 00000009 00000004 686f7374 000003e8 00000064 00000001 00000004";
    assert_eq!(args(&op), hex(expected));
}

/// RFC 8881 §18.43.2: one segment, the whole file for reading and writing.
#[test]
fn layoutget_reply() {
    let segment = LayoutSegment {
        offset: 0,
        length: u64::MAX,
        iomode: IoMode::RW,
        layout_type: LayoutType::NFSV4_1_FILES,
        body: Body(Bytes::from_static(&[0xab, 0xcd, 0xef])),
    };
    let ok = LayoutgetOk {
        return_on_close: true,
        stateid: Stateid { seqid: Seqid(5), other: [0x22; 12] },
        layout: vec![segment],
    };
    let reply = OpReply { op: OpNum::LAYOUTGET, result: Ok(OpOk::Layoutget(ok)) };
    let expected = "
        00000032 00000000
        00000001
        00000005 222222222222222222222222
        00000001
        0000000000000000 ffffffffffffffff 00000002
        00000001 00000003 abcdef 00";
    assert_eq!(to_bytes(&reply).to_vec(), hex(expected));
}

/// RFC 8881 §18.7: attributes 1, 4 and 33 (bit 1 of the second word), in ascending order.
#[test]
fn getattr() {
    let request = Bitmap::of(&[AttrNo::MODE, AttrNo::TYPE, AttrNo::SIZE]);
    let op = OpArgs::Getattr(GetattrArgs { request });
    assert_eq!(args(&op), hex("00000009 00000002 00000012 00000002"));
    let attrs = Attrs {
        file_type: Some(FileType::REG),
        size: Some(0x1234),
        mode: Some(0o644),
        ..Attrs::default()
    };
    let ok = OpOk::Getattr(GetattrOk { attrs: Box::new(attrs) });
    let reply = OpReply { op: OpNum::GETATTR, result: Ok(ok) };
    let expected = "
        00000009 00000000
        00000002 00000012 00000002
        00000010 00000001 0000000000001234 000001a4";
    assert_eq!(to_bytes(&reply).to_vec(), hex(expected));
}

/// RFC 8881 §18.46: SEQUENCE, and the boolean at its end.
#[test]
fn sequence() {
    let op = OpArgs::Sequence(SequenceArgs {
        sessionid: weft_nfs::SessionId([0x33; 16]),
        sequenceid: SequenceId(1),
        slotid: weft_nfs::SlotId(2),
        highest_slotid: weft_nfs::SlotId(3),
        cachethis: true,
    });
    let expected = "
        00000035
        33333333333333333333333333333333
        00000001 00000002 00000003 00000001";
    assert_eq!(args(&op), hex(expected));
}

/// RFC 8881 §18.16: the unions of OPEN: a guarded creation by name.
#[test]
fn open() {
    let attrs = Attrs { size: Some(0), ..Attrs::default() };
    let owner = Opaque(Bytes::from_static(b"own"));
    let op = OpArgs::Open(OpenArgs {
        seqid: Seqid(0),
        share_access: 2,
        share_deny: 1,
        owner: weft_nfs::StateOwner { clientid: ClientId(1), owner },
        openhow: Some(CreateHow::Guarded(Box::new(attrs))),
        claim: OpenClaim::Null("f".into()),
    });
    let expected = "
        00000012 00000000 00000002 00000001
        0000000000000001 00000003 6f776e 00
        00000001 00000001 00000001 00000010 00000008 0000000000000000
        00000000 00000001 66 000000";
    assert_eq!(args(&op), hex(expected));
}

/// RFC 8276 §8.4.2.1: a new attribute with a value that needs padding.
#[test]
fn setxattr() {
    let op = OpArgs::Setxattr(SetxattrArgs {
        option: SetxattrOption::CREATE,
        key: "key".into(),
        value: XattrValue(Bytes::from_static(b"value")),
    });
    let expected = "
        00000049
        00000001
        00000003 6b6579 00
        00000005 76616c7565 000000";
    assert_eq!(args(&op), hex(expected));
}

/// RFC 8276 §8.4.3.2: two names and no more.
#[test]
fn listxattrs() {
    let names = vec!["a".into(), "bcde".into()];
    let list = ListxattrsOk { cookie: 0x0102, names, eof: true };
    let expected = "
        0000000000000102
        00000002
        00000001 61 000000
        00000004 62636465
        00000001";
    assert_eq!(to_bytes(&list), hex(expected));
}
