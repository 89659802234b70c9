//! Arguments of operations, as tests write them.

use bytes::Bytes;
use weft_nfs::{
    AttrNo, Attrs, Bitmap, ClientId, Component, FileHandle, IoMode, LayoutType, LockType, OpArgs,
    Opaque, Seqid, SequenceId, SessionId, SlotId, StableHow, StateOwner, Stateid, Verifier,
    attr::SetTime, ops::*, share,
};
use weft_xdr::Payload;

pub fn sequence(sessionid: SessionId, slot: u32, seq: u32, cachethis: bool) -> OpArgs {
    OpArgs::Sequence(SequenceArgs {
        sessionid,
        sequenceid: SequenceId(seq),
        slotid: SlotId(slot),
        highest_slotid: SlotId(slot),
        cachethis,
    })
}

pub fn putfh(fh: &FileHandle) -> OpArgs {
    OpArgs::Putfh(PutfhArgs { object: fh.clone() })
}

pub fn lookup(name: &str) -> OpArgs {
    OpArgs::Lookup(LookupArgs { name: name.into() })
}

pub fn name(bytes: &[u8]) -> Component {
    Component(Bytes::copy_from_slice(bytes))
}

pub fn mode(mode: u32) -> Attrs {
    Attrs { mode: Some(mode), ..Attrs::default() }
}

pub fn size(size: u64) -> Attrs {
    Attrs { size: Some(size), ..Attrs::default() }
}

pub fn create(kind: CreateType, name: &str, attrs: Attrs) -> OpArgs {
    OpArgs::Create(CreateArgs { objtype: kind, name: name.into(), attrs: Box::new(attrs) })
}

pub fn mkdir(name: &str) -> OpArgs {
    create(CreateType::Directory, name, mode(0o755))
}

pub fn symlink(name: &str, target: &str) -> OpArgs {
    create(CreateType::Link(Bytes::copy_from_slice(target.as_bytes())), name, Attrs::default())
}

pub fn remove(name: &str) -> OpArgs {
    OpArgs::Remove(RemoveArgs { target: name.into() })
}

pub fn rename(from: &str, to: &str) -> OpArgs {
    OpArgs::Rename(RenameArgs { oldname: from.into(), newname: to.into() })
}

pub fn link(name: &str) -> OpArgs {
    OpArgs::Link(LinkArgs { newname: name.into() })
}

pub fn getattr(attrs: &[AttrNo]) -> OpArgs {
    OpArgs::Getattr(GetattrArgs { request: Bitmap::of(attrs) })
}

pub fn setattr(stateid: Stateid, attrs: Attrs) -> OpArgs {
    OpArgs::Setattr(SetattrArgs { stateid, attrs: Box::new(attrs) })
}

pub fn mtime(t: SetTime) -> Attrs {
    Attrs { time_modify_set: Some(t), ..Attrs::default() }
}

pub fn access(bits: u32) -> OpArgs {
    OpArgs::Access(AccessArgs { access: bits })
}

pub fn state_owner(owner: &str) -> StateOwner {
    let owner = Opaque(Bytes::copy_from_slice(owner.as_bytes()));
    StateOwner { clientid: ClientId(0), owner }
}

/// An OPEN to be changed by the test: reads and writes, denies nothing, creates nothing.
pub fn open(owner: &str, claim: OpenClaim) -> OpenArgs {
    OpenArgs {
        seqid: Seqid(0),
        share_access: share::ACCESS_BOTH,
        share_deny: share::DENY_NONE,
        owner: state_owner(owner),
        openhow: None,
        claim,
    }
}

pub fn open_name(owner: &str, name: &str) -> OpenArgs {
    open(owner, OpenClaim::Null(name.into()))
}

/// OPEN of a file that is made if need be.
pub fn open_create(owner: &str, name: &str) -> OpenArgs {
    OpenArgs {
        openhow: Some(CreateHow::Unchecked(Box::new(mode(0o644)))),
        ..open_name(owner, name)
    }
}

pub fn close(stateid: Stateid) -> OpArgs {
    OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid: stateid })
}

pub fn downgrade(stateid: Stateid, access: u32, deny: u32) -> OpArgs {
    OpArgs::OpenDowngrade(OpenDowngradeArgs {
        open_stateid: stateid,
        seqid: Seqid(0),
        share_access: access,
        share_deny: deny,
    })
}

pub fn read(stateid: Stateid, offset: u64, count: u32) -> OpArgs {
    OpArgs::Read(ReadArgs { stateid, offset, count })
}

pub fn write(stateid: Stateid, offset: u64, data: &[u8]) -> OpArgs {
    OpArgs::Write(WriteArgs {
        stateid,
        offset,
        stable: StableHow::FILE_SYNC,
        data: Payload::Bytes(Bytes::copy_from_slice(data)),
    })
}

pub fn lock_new(open: Stateid, owner: &str, kind: LockType, offset: u64, length: u64) -> LockArgs {
    let locker = Locker::New { open_stateid: open, lock_owner: state_owner(owner) };
    LockArgs { locktype: kind, reclaim: false, offset, length, locker }
}

pub fn lock_more(lock: Stateid, kind: LockType, offset: u64, length: u64) -> LockArgs {
    let locker = Locker::Existing { lock_stateid: lock };
    LockArgs { locktype: kind, reclaim: false, offset, length, locker }
}

pub fn lockt(owner: &str, kind: LockType, offset: u64, length: u64) -> OpArgs {
    OpArgs::Lockt(LocktArgs { locktype: kind, offset, length, owner: state_owner(owner) })
}

pub fn locku(lock: Stateid, offset: u64, length: u64) -> OpArgs {
    OpArgs::Locku(LockuArgs {
        locktype: LockType::Write,
        seqid: Seqid(0),
        lock_stateid: lock,
        offset,
        length,
    })
}

pub fn readdir(cookie: u64, maxcount: u32, attrs: &[AttrNo]) -> ReaddirArgs {
    ReaddirArgs {
        cookie,
        cookieverf: Verifier::default(),
        dircount: maxcount,
        maxcount,
        attr_request: Bitmap::of(attrs),
    }
}

/// A LAYOUTGET to be changed by the test: the whole file.
pub fn layoutget(stateid: Stateid, iomode: IoMode) -> LayoutgetArgs {
    LayoutgetArgs {
        signal_layout_avail: false,
        layout_type: LayoutType::NFSV4_1_FILES,
        iomode,
        offset: 0,
        length: u64::MAX,
        minlength: 4096,
        stateid,
        maxcount: 4096,
    }
}

/// A LAYOUTRETURN of a whole file, to be changed by the test.
pub fn layoutreturn(stateid: Stateid, iomode: IoMode) -> LayoutreturnArgs {
    LayoutreturnArgs {
        reclaim: false,
        layout_type: LayoutType::NFSV4_1_FILES,
        iomode,
        layoutreturn: LayoutReturn::File {
            offset: 0,
            length: u64::MAX,
            stateid,
            body: Body::default(),
        },
    }
}

/// A LAYOUTCOMMIT to be changed by the test.
pub fn layoutcommit(stateid: Stateid, last_write: Option<u64>) -> LayoutcommitArgs {
    LayoutcommitArgs {
        offset: 0,
        length: u64::MAX,
        reclaim: false,
        stateid,
        last_write_offset: last_write,
        time_modify: None,
        layout_type: LayoutType::NFSV4_1_FILES,
        update_body: Body::default(),
    }
}

pub fn reclaim_complete() -> OpArgs {
    OpArgs::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })
}

pub fn getxattr(key: &str) -> OpArgs {
    OpArgs::Getxattr(GetxattrArgs { name: key.into() })
}

pub fn setxattr(option: SetxattrOption, key: &str, value: &[u8]) -> OpArgs {
    let value = XattrValue(Bytes::copy_from_slice(value));
    OpArgs::Setxattr(SetxattrArgs { option, key: key.into(), value })
}

pub fn listxattrs(cookie: u64, maxcount: u32) -> OpArgs {
    OpArgs::Listxattrs(ListxattrsArgs { cookie, maxcount })
}

pub fn removexattr(key: &str) -> OpArgs {
    OpArgs::Removexattr(RemovexattrArgs { name: key.into() })
}
