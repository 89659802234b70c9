//! One value or more of every type that goes over the wire.

use bytes::Bytes;
use weft_nfs::{attr::*, callback::*, ops::*, *};
use weft_xdr::{Decode, DecodeError, Encode, Payload, from_bytes, rpc::AuthSys, to_bytes};

/// A value on the wire, and the way to read and write it again.
pub struct Sample {
    pub name: String,
    pub wire: Bytes,
    again: fn(Bytes) -> Result<Bytes, DecodeError>,
}

impl Sample {
    fn of<T: Encode + Decode + std::fmt::Debug>(value: &T) -> Sample {
        let value_text: String = format!("{value:?}").chars().take(100).collect();
        let name = format!("{} {value_text}", std::any::type_name::<T>());
        let again = |wire| from_bytes::<T>(wire).map(|v| to_bytes(&v));
        Sample { name, wire: to_bytes(value), again }
    }

    /// Reads these bytes as a value of the sample's type and writes it.
    pub fn again(&self, wire: Bytes) -> Result<Bytes, DecodeError> {
        (self.again)(wire)
    }
}

/// Everything.
pub fn all() -> Vec<Sample> {
    let mut out: Vec<_> = op_args().iter().map(Sample::of).collect();
    out.extend(replies().iter().map(Sample::of));
    out.extend(callbacks());
    out.extend(basics());
    out
}

fn b(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn opaque(text: &'static str) -> Opaque {
    Opaque(b(text))
}

fn stateid(n: u8) -> Stateid {
    Stateid { seqid: Seqid(n.into()), other: [n; 12] }
}

fn owner() -> StateOwner {
    StateOwner { clientid: ClientId(0x0102_0304_0506_0708), owner: opaque("owner") }
}

fn change() -> ChangeInfo {
    ChangeInfo { atomic: true, before: 1, after: u64::MAX }
}

fn time() -> NfsTime {
    NfsTime { seconds: -5, nseconds: 999_999_999 }
}

fn ace() -> Ace {
    Ace { acetype: AceType::DENY, flag: 2, access_mask: 3, who: opaque("OWNER@") }
}

/// Every attribute that is known.
pub fn every_attr() -> Attrs {
    let item = ThresholdItem { layout_type: 1, read_size: Some(65_536), write_size: Some(1 << 40) };
    Attrs {
        supported_attrs: Some(Attrs::KNOWN),
        file_type: Some(FileType::DIR),
        fh_expire_type: Some(0),
        change: Some(u64::MAX),
        size: Some(1 << 40),
        link_support: Some(true),
        symlink_support: Some(false),
        named_attr: Some(false),
        fsid: Some(Fsid { major: 1, minor: 2 }),
        unique_handles: Some(true),
        lease_time: Some(90),
        rdattr_error: Some(NfsStat::ACCESS),
        acl: Some(Acl(vec![ace(), ace()])),
        aclsupport: Some(3),
        archive: Some(true),
        cansettime: Some(true),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        filehandle: Some(FileHandle(b("handle"))),
        fileid: Some(3),
        files_avail: Some(4),
        files_free: Some(5),
        files_total: Some(6),
        homogeneous: Some(true),
        maxfilesize: Some(7),
        maxlink: Some(8),
        maxname: Some(255),
        maxread: Some(9),
        maxwrite: Some(10),
        mode: Some(0o755),
        no_trunc: Some(true),
        numlinks: Some(2),
        owner: Some(opaque("0")),
        owner_group: Some(opaque("100")),
        rawdev: Some(SpecData { major: 8, minor: 1 }),
        space_avail: Some(11),
        space_free: Some(12),
        space_total: Some(13),
        space_used: Some(14),
        time_access: Some(time()),
        time_access_set: Some(SetTime::ToServer),
        time_create: Some(time()),
        time_delta: Some(time()),
        time_metadata: Some(time()),
        time_modify: Some(time()),
        time_modify_set: Some(SetTime::ToClient(time())),
        mounted_on_fileid: Some(15),
        dacl: Some(Acl41 { flag: 2, aces: Acl(vec![ace()]) }),
        fs_layout_types: Some(LayoutTypes(vec![1, 4])),
        layout_types: Some(LayoutTypes(Vec::new())),
        layout_blksize: Some(16),
        layout_alignment: Some(17),
        mdsthreshold: Some(MdsThreshold(vec![item])),
        mode_set_masked: Some(ModeMasked { value: 1, mask: 7 }),
        suppattr_exclcreat: Some(Bitmap::of(&[AttrNo::MODE])),
        fs_charset_cap: Some(18),
        clone_blksize: Some(19),
        space_freed: Some(20),
        change_attr_type: Some(4),
        mode_umask: Some(ModeUmask { mode: 0o666, umask: 0o22 }),
        xattr_support: Some(true),
        open_arguments: Some(Box::new(OpenArguments {
            share_access: Bitmap::from_words(&[0xe]),
            share_deny: Bitmap::from_words(&[0xf]),
            share_access_want: Bitmap::from_words(&[0x20_0038]),
            open_claim: Bitmap::EMPTY,
            create_mode: Bitmap::from_words(&[1]),
        })),
        undecoded: Bitmap::EMPTY,
    }
}

fn channel() -> ChannelAttrs {
    ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 1 << 20,
        maxresponsesize: 1 << 20,
        maxresponsesize_cached: 4096,
        maxoperations: 16,
        maxrequests: 64,
        rdma_ird: RdmaIrd(None),
    }
}

fn impl_id() -> ImplIds {
    ImplIds(Some(ImplId { domain: opaque("example.org"), name: opaque("x"), date: time() }))
}

fn callback_secs() -> CallbackSecs {
    let sys = AuthSys { stamp: 1, machine: b("m"), uid: 2, gid: 3, gids: vec![4, 5] };
    CallbackSecs(vec![CallbackSec::None, CallbackSec::Sys(sys), CallbackSec::Gss])
}

fn protected_ops() -> StateProtectOps {
    StateProtectOps { must_enforce: Bitmap::from_words(&[5, 6]), must_allow: Bitmap::EMPTY }
}

fn open(openhow: Option<CreateHow>, claim: OpenClaim) -> OpArgs {
    let (seqid, share_access, share_deny) = (Seqid(1), 3, 1);
    OpArgs::Open(OpenArgs { seqid, share_access, share_deny, owner: owner(), openhow, claim })
}

fn opens() -> Vec<OpArgs> {
    let v = Verifier([1; 8]);
    let hows = [
        CreateHow::Unchecked(Box::new(every_attr())),
        CreateHow::Guarded(Box::default()),
        CreateHow::Exclusive(v),
        CreateHow::Exclusive41(v, Box::new(Attrs { mode: Some(0), ..Attrs::default() })),
    ];
    let claims = [
        OpenClaim::Previous(1),
        OpenClaim::DelegateCur(stateid(1), "name".into()),
        OpenClaim::DelegatePrev("name".into()),
        OpenClaim::Fh,
        OpenClaim::DelegCurFh(stateid(2)),
        OpenClaim::DelegPrevFh,
    ];
    let created = hows.into_iter().map(|h| open(Some(h), OpenClaim::Null("name".into())));
    created.chain(claims.into_iter().map(|c| open(None, c))).collect()
}

fn creates() -> Vec<OpArgs> {
    let dev = SpecData { major: 1, minor: 3 };
    let kinds = [
        CreateType::Link(b("target")),
        CreateType::Block(dev),
        CreateType::Char(dev),
        CreateType::Socket,
        CreateType::Fifo,
        CreateType::Directory,
        CreateType::Other(FileType::REG),
        CreateType::Other(FileType(77)),
    ];
    let create = |objtype| CreateArgs { objtype, name: "n".into(), attrs: Box::new(every_attr()) };
    kinds.into_iter().map(|k| OpArgs::Create(create(k))).collect()
}

fn locks() -> Vec<OpArgs> {
    let kinds = [LockType::Read, LockType::Write, LockType::ReadBlocking, LockType::WriteBlocking];
    let lock = |locktype, locker| {
        OpArgs::Lock(LockArgs { locktype, reclaim: true, offset: 1, length: 2, locker })
    };
    let new = Locker::New { open_stateid: stateid(1), lock_owner: owner() };
    let existing = Locker::Existing { lock_stateid: stateid(2) };
    kinds.into_iter().flat_map(|k| [lock(k, new.clone()), lock(k, existing.clone())]).collect()
}

fn exchange_ids() -> Vec<OpArgs> {
    let protects = [
        StateProtectArgs::None,
        StateProtectArgs::MachCred(protected_ops()),
        StateProtectArgs::Ssv,
    ];
    let clientowner = ClientOwner { verifier: Verifier([2; 8]), ownerid: opaque("client") };
    let args = |state_protect| ExchangeIdArgs {
        clientowner: clientowner.clone(),
        flags: 1,
        state_protect,
        client_impl_id: impl_id(),
    };
    protects.into_iter().map(|p| OpArgs::ExchangeId(args(p))).collect()
}

fn layout_returns() -> Vec<OpArgs> {
    let file =
        LayoutReturn::File { offset: 1, length: 2, stateid: stateid(3), body: Body(b("body")) };
    let args = |layoutreturn| LayoutreturnArgs {
        reclaim: false,
        layout_type: LayoutType::FLEX_FILES,
        iomode: IoMode::ANY,
        layoutreturn,
    };
    let all = [file, LayoutReturn::Fsid, LayoutReturn::All];
    all.into_iter().map(|r| OpArgs::Layoutreturn(args(r))).collect()
}

/// Arguments of every operation.
pub fn op_args() -> Vec<OpArgs> {
    let mut out = vec![
        OpArgs::Putrootfh,
        OpArgs::Putpubfh,
        OpArgs::Getfh,
        OpArgs::Savefh,
        OpArgs::Restorefh,
        OpArgs::Lookupp,
        OpArgs::Readlink,
    ];
    out.extend(file_args());
    out.extend(xattr_args());
    out.extend(session_args());
    out.extend(layout_args());
    out.extend(data_42_args());
    out.extend([opens(), creates(), locks(), exchange_ids(), layout_returns()].concat());
    out
}

fn file_args() -> Vec<OpArgs> {
    let (offset, count) = (u64::MAX, 5);
    let data = |data: Bytes| WriteArgs {
        stateid: stateid(5),
        offset,
        stable: StableHow::FILE_SYNC,
        data: Payload::Bytes(data),
    };
    let readdir = ReaddirArgs {
        cookie: 1,
        cookieverf: Verifier([3; 8]),
        dircount: 2,
        maxcount: 3,
        attr_request: Attrs::KNOWN,
    };
    let (share_access, share_deny) = (1, 2);
    let downgrade =
        OpenDowngradeArgs { open_stateid: stateid(1), seqid: Seqid(9), share_access, share_deny };
    let locku = LockuArgs {
        locktype: LockType::Read,
        seqid: Seqid(1),
        lock_stateid: stateid(1),
        offset,
        length: 3,
    };
    let lockt = LocktArgs { locktype: LockType::Write, offset, length: 4, owner: owner() };
    vec![
        OpArgs::Access(AccessArgs { access: 0x3f }),
        OpArgs::Close(CloseArgs { seqid: Seqid(1), open_stateid: stateid(1) }),
        OpArgs::Commit(CommitArgs { offset, count }),
        OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: stateid(4) }),
        OpArgs::Getattr(GetattrArgs { request: Attrs::KNOWN }),
        OpArgs::GetDirDelegation(GetDirDelegationArgs {
            signal_deleg_avail: true,
            notification_types: Bitmap::of(&[AttrNo(2)]),
            child_attr_delay: NfsTime { seconds: 1, nseconds: 2 },
            dir_attr_delay: NfsTime { seconds: -3, nseconds: 4 },
            child_attributes: Bitmap::of(&[AttrNo::SIZE]),
            dir_attributes: Attrs::KNOWN,
        }),
        OpArgs::Link(LinkArgs { newname: "new".into() }),
        OpArgs::Lockt(lockt),
        OpArgs::Locku(locku),
        OpArgs::Lookup(LookupArgs { name: "näme".into() }),
        OpArgs::Nverify(VerifyArgs { attrs: Box::new(every_attr()) }),
        OpArgs::Verify(VerifyArgs { attrs: Box::default() }),
        OpArgs::OpenDowngrade(downgrade),
        OpArgs::Putfh(PutfhArgs { object: FileHandle(b("fh")) }),
        OpArgs::Read(ReadArgs { stateid: Stateid::READ_BYPASS, offset, count }),
        OpArgs::Readdir(readdir),
        OpArgs::Remove(RemoveArgs { target: "x".into() }),
        OpArgs::Rename(RenameArgs { oldname: "a".into(), newname: "bcdef".into() }),
        OpArgs::Secinfo(SecinfoArgs { name: "x".into() }),
        OpArgs::SecinfoNoName(SecinfoNoNameArgs { style: 1 }),
        OpArgs::Setattr(SetattrArgs { stateid: stateid(1), attrs: Box::new(every_attr()) }),
        OpArgs::Write(data(b("short"))),
        OpArgs::Write(data(Bytes::from(vec![7; 5001]))),
    ]
}

fn xattr_args() -> Vec<OpArgs> {
    let name = || Component(b("key"));
    let set = |option| {
        OpArgs::Setxattr(SetxattrArgs { option, key: name(), value: XattrValue(b("value")) })
    };
    vec![
        OpArgs::Getxattr(GetxattrArgs { name: name() }),
        set(SetxattrOption::EITHER),
        set(SetxattrOption::CREATE),
        set(SetxattrOption::REPLACE),
        set(SetxattrOption(3)),
        OpArgs::Listxattrs(ListxattrsArgs { cookie: u64::MAX, maxcount: 4096 }),
        OpArgs::Removexattr(RemovexattrArgs { name: name() }),
    ]
}

fn session_args() -> Vec<OpArgs> {
    let sessionid = SessionId([6; 16]);
    vec![
        OpArgs::BackchannelCtl(BackchannelCtlArgs { cb_program: 1, sec_parms: callback_secs() }),
        OpArgs::BindConnToSession(BindConnToSessionArgs {
            sessionid,
            dir: 3,
            use_conn_in_rdma_mode: true,
        }),
        OpArgs::CreateSession(CreateSessionArgs {
            clientid: ClientId(1),
            sequence: SequenceId(2),
            flags: 3,
            fore_chan_attrs: channel(),
            back_chan_attrs: ChannelAttrs { rdma_ird: RdmaIrd(Some(5)), ..channel() },
            cb_program: 4,
            sec_parms: callback_secs(),
        }),
        OpArgs::DestroySession(DestroySessionArgs { sessionid }),
        OpArgs::DestroyClientid(DestroyClientidArgs { clientid: ClientId(u64::MAX) }),
        OpArgs::FreeStateid(FreeStateidArgs { stateid: stateid(1) }),
        OpArgs::ReclaimComplete(ReclaimCompleteArgs { one_fs: true }),
        OpArgs::Sequence(SequenceArgs {
            sessionid,
            sequenceid: SequenceId(1),
            slotid: SlotId(2),
            highest_slotid: SlotId(3),
            cachethis: true,
        }),
        OpArgs::TestStateid(TestStateidArgs { stateids: vec![stateid(1), stateid(2)] }),
    ]
}

fn layout_args() -> Vec<OpArgs> {
    let layout_type = LayoutType::NFSV4_1_FILES;
    let commit = |last, time| {
        OpArgs::Layoutcommit(LayoutcommitArgs {
            offset: 1,
            length: 2,
            reclaim: true,
            stateid: stateid(3),
            last_write_offset: last,
            time_modify: time,
            layout_type,
            update_body: Body(b("b")),
        })
    };
    vec![
        commit(None, None),
        commit(Some(9), Some(time())),
        OpArgs::Getdeviceinfo(GetdeviceinfoArgs {
            device_id: DeviceId([7; 16]),
            layout_type,
            maxcount: 4096,
            notify_types: Bitmap::from_words(&[6]),
        }),
        OpArgs::Layoutget(LayoutgetArgs {
            signal_layout_avail: true,
            layout_type,
            iomode: IoMode::RW,
            offset: 1,
            length: u64::MAX,
            minlength: 2,
            stateid: stateid(8),
            maxcount: 4096,
        }),
    ]
}

fn copies() -> Vec<OpArgs> {
    let addr = NetAddr { netid: opaque("tcp"), uaddr: opaque("192.0.2.7.8.1") };
    let elsewhere =
        [Netloc::Name(opaque("name")), Netloc::Url(opaque("nfs://x/y")), Netloc::Addr(addr)];
    let copy = |consecutive, source_server| {
        OpArgs::Copy(CopyArgs {
            src_stateid: stateid(1),
            dst_stateid: stateid(2),
            src_offset: 3,
            dst_offset: u64::MAX,
            count: 5,
            consecutive,
            synchronous: !consecutive,
            source_server,
        })
    };
    vec![copy(true, Netlocs::default()), copy(false, Netlocs(elsewhere.to_vec()))]
}

fn data_42_args() -> Vec<OpArgs> {
    let (stateid, offset, length) = (stateid(4), 1 << 40, u64::MAX);
    let device_id = DeviceId([9; 16]);
    let error = DeviceError { device_id, status: NfsStat::NXIO, op: OpNum::WRITE };
    let mut out = copies();
    out.extend([
        OpArgs::Allocate(AllocateArgs { stateid, offset, length }),
        OpArgs::Deallocate(DeallocateArgs { stateid, offset, length }),
        OpArgs::Seek(SeekArgs { stateid, offset, what: DataContent::HOLE }),
        OpArgs::Seek(SeekArgs { stateid, offset, what: DataContent(7) }),
        OpArgs::IoAdvise(IoAdviseArgs {
            stateid,
            offset,
            count: 0,
            hints: Bitmap::from_words(&[0x7ff]),
        }),
        OpArgs::Layouterror(LayouterrorArgs {
            offset,
            length,
            stateid,
            errors: DeviceErrors(vec![error.clone(), error]),
        }),
        OpArgs::Layoutstats(LayoutstatsArgs {
            offset,
            length,
            stateid,
            read: IoInfo { count: 1, bytes: 2 },
            write: IoInfo { count: 3, bytes: 4 },
            device_id,
            layout_type: LayoutType::FLEX_FILES,
            update_body: Body(b("body")),
        }),
        OpArgs::OffloadCancel(OffloadCancelArgs { stateid }),
        OpArgs::OffloadStatus(OffloadStatusArgs { stateid }),
        OpArgs::Clone(CloneArgs {
            src_stateid: stateid,
            dst_stateid: stateid,
            src_offset: 1,
            dst_offset: 2,
            count: 3,
        }),
    ]);
    out
}

/// Results of every operation.
pub fn op_ok() -> Vec<OpOk> {
    let mut out = vec![
        OpOk::Delegreturn,
        OpOk::GetDirDelegation(GetDirDelegationOk::Granted(DirDelegation {
            cookieverf: Verifier([1; 8]),
            stateid: stateid(5),
            notification: Bitmap::EMPTY,
            child_attributes: Bitmap::of(&[AttrNo::SIZE]),
            dir_attributes: Attrs::KNOWN,
        })),
        OpOk::GetDirDelegation(GetDirDelegationOk::Unavailable { will_signal: true }),
        OpOk::Lockt,
        OpOk::Lookup,
        OpOk::Lookupp,
        OpOk::Nverify,
        OpOk::Putfh,
        OpOk::Putpubfh,
        OpOk::Putrootfh,
        OpOk::Restorefh,
        OpOk::Savefh,
        OpOk::Verify,
        OpOk::BackchannelCtl,
        OpOk::DestroySession,
        OpOk::DestroyClientid,
        OpOk::FreeStateid,
        OpOk::ReclaimComplete,
        OpOk::Allocate,
        OpOk::Deallocate,
        OpOk::Layouterror,
        OpOk::Layoutstats,
        OpOk::OffloadCancel,
        OpOk::Clone,
    ];
    out.extend(file_ok());
    out.extend(xattr_ok());
    out.extend(open_ok());
    out.extend(session_ok());
    out.extend(layout_ok());
    out.extend(data_42_ok());
    out
}

fn write_response(callback_id: Option<Stateid>) -> WriteResponse {
    let writeverf = Verifier([8; 8]);
    WriteResponse { callback_id, count: 1 << 33, committed: StableHow::FILE_SYNC, writeverf }
}

fn data_42_ok() -> Vec<OpOk> {
    let copy = |callback_id: Option<Stateid>| {
        let synchronous = callback_id.is_none();
        let requirements = CopyRequirements { consecutive: true, synchronous };
        OpOk::Copy(CopyOk { response: write_response(callback_id), requirements })
    };
    let status = |complete| OpOk::OffloadStatus(OffloadStatusOk { count: u64::MAX, complete });
    vec![
        copy(None),
        copy(Some(stateid(6))),
        status(None),
        status(Some(NfsStat::NOSPC)),
        OpOk::Seek(SeekOk { eof: true, offset: 1 << 50 }),
        OpOk::IoAdvise(IoAdviseOk { hints: Bitmap::from_words(&[1]) }),
    ]
}

fn file_ok() -> Vec<OpOk> {
    let entry = |n: u64| DirEntry { cookie: n, name: "entry".into(), attrs: every_attr() };
    let readdir = |entries| ReaddirOk { cookieverf: Verifier([1; 8]), entries, eof: true };
    let read = |data: Bytes| ReadOk { eof: false, data: Payload::Bytes(data) };
    let committed = StableHow::DATA_SYNC;
    vec![
        OpOk::Access(AccessOk { supported: 0x3f, access: 1 }),
        OpOk::Commit(CommitOk { verifier: Verifier([2; 8]) }),
        OpOk::Create(CreateOk { change: change(), attrset: Attrs::KNOWN }),
        OpOk::Getattr(GetattrOk { attrs: Box::new(every_attr()) }),
        OpOk::Getfh(GetfhOk { object: FileHandle(b("filehandle")) }),
        OpOk::Link(LinkOk { change: change() }),
        OpOk::Read(read(b(""))),
        OpOk::Read(read(Bytes::from(vec![9; 4097]))),
        OpOk::Readdir(readdir(vec![entry(3), entry(4)])),
        OpOk::Readdir(readdir(Vec::new())),
        OpOk::Readlink(ReadlinkOk { link: b("target") }),
        OpOk::Remove(RemoveOk { change: change() }),
        OpOk::Rename(RenameOk { source: change(), target: change() }),
        OpOk::Secinfo(SecinfoOk { flavors: Flavors(vec![1, 0]) }),
        OpOk::SecinfoNoName(SecinfoOk { flavors: Flavors(vec![1]) }),
        OpOk::Setattr(SetattrOk { attrsset: Attrs::KNOWN }),
        OpOk::Write(WriteOk { count: 1, committed, writeverf: Verifier([3; 8]) }),
    ]
}

fn xattr_ok() -> Vec<OpOk> {
    let list = |names, eof| OpOk::Listxattrs(ListxattrsOk { cookie: 7, names, eof });
    vec![
        OpOk::Getxattr(GetxattrOk { value: XattrValue(b("value")) }),
        OpOk::Getxattr(GetxattrOk { value: XattrValue(Bytes::new()) }),
        OpOk::Setxattr(XattrChanged { info: change() }),
        list(vec!["a".into(), "longer".into()], false),
        list(Vec::new(), true),
        OpOk::Removexattr(XattrChanged { info: change() }),
    ]
}

fn open_ok() -> Vec<OpOk> {
    let delegations = [
        OpenDelegation::None,
        OpenDelegation::NoneExt(0, None),
        OpenDelegation::NoneExt(1, Some(true)),
        OpenDelegation::NoneExt(2, Some(false)),
        OpenDelegation::NoneExt(8, None),
        OpenDelegation::Read { stateid: stateid(3), recall: true, permissions: ace() },
        OpenDelegation::Write {
            stateid: stateid(3),
            recall: false,
            size_limit: 1 << 40,
            permissions: ace(),
        },
    ];
    let open = |delegation| OpenOk {
        stateid: stateid(1),
        cinfo: change(),
        rflags: 4,
        attrset: Bitmap::of(&[AttrNo::MODE]),
        delegation,
    };
    let mut out: Vec<_> = delegations.into_iter().map(|d| OpOk::Open(open(d))).collect();
    let ok = StateidOk { stateid: stateid(9) };
    out.push(OpOk::Close(ok.clone()));
    out.push(OpOk::Lock(ok.clone()));
    out.push(OpOk::Locku(ok.clone()));
    out.push(OpOk::OpenDowngrade(ok));
    out
}

fn session_ok() -> Vec<OpOk> {
    let sessionid = SessionId([6; 16]);
    let exchange = |state_protect| {
        OpOk::ExchangeId(ExchangeIdOk {
            clientid: ClientId(1),
            sequenceid: SequenceId(2),
            flags: 0x8000_0000,
            state_protect,
            server_owner: ServerOwner { minor_id: 1, major_id: opaque("major") },
            server_scope: opaque("scope"),
            server_impl_id: impl_id(),
        })
    };
    vec![
        exchange(StateProtectOk::None),
        exchange(StateProtectOk::MachCred(protected_ops())),
        OpOk::BindConnToSession(BindConnToSessionOk {
            sessionid,
            dir: 3,
            use_conn_in_rdma_mode: false,
        }),
        OpOk::CreateSession(CreateSessionOk {
            sessionid,
            sequence: SequenceId(1),
            flags: 2,
            fore_chan_attrs: channel(),
            back_chan_attrs: channel(),
        }),
        OpOk::Sequence(SequenceOk {
            sessionid,
            sequenceid: SequenceId(1),
            slotid: SlotId(2),
            highest_slotid: SlotId(3),
            target_highest_slotid: SlotId(4),
            status_flags: 5,
        }),
        OpOk::TestStateid(TestStateidOk { status_codes: vec![NfsStat::OK, NfsStat(12_345)] }),
    ]
}

fn layout_ok() -> Vec<OpOk> {
    let layout_type = LayoutType::NFSV4_1_FILES;
    let segment =
        LayoutSegment { offset: 0, length: 9, iomode: IoMode::RW, layout_type, body: Body(b("b")) };
    vec![
        OpOk::Getdeviceinfo(GetdeviceinfoOk {
            layout_type,
            addr_body: Body(b("address")),
            notification: Bitmap::from_words(&[6]),
        }),
        OpOk::Layoutcommit(LayoutcommitOk { newsize: None }),
        OpOk::Layoutcommit(LayoutcommitOk { newsize: Some(77) }),
        OpOk::Layoutget(LayoutgetOk {
            return_on_close: true,
            stateid: stateid(1),
            layout: vec![segment.clone(), segment],
        }),
        OpOk::Layoutreturn(LayoutreturnOk { stateid: None }),
        OpOk::Layoutreturn(LayoutreturnOk { stateid: Some(stateid(2)) }),
    ]
}

/// Replies of success and failure, alone and together.
fn replies() -> Vec<OpReply> {
    let ok = op_ok().into_iter().map(|ok| OpReply { op: ok.op(), result: Ok(ok) });
    let plain = OpNum::ALL.iter().map(|op| fail(*op, NfsStat::ACCESS, FailureBody::None));
    let denied = LockDenied { offset: 1, length: 2, locktype: LockType::Write, owner: owner() };
    let requirements = CopyRequirements { consecutive: true, synchronous: false };
    let with_bodies = [
        fail(OpNum::COPY, NfsStat::OFFLOAD_NO_REQS, FailureBody::Requirements(requirements)),
        fail(OpNum::LOCK, NfsStat::DENIED, FailureBody::Denied(denied.clone())),
        fail(OpNum::LOCKT, NfsStat::DENIED, FailureBody::Denied(denied)),
        fail(OpNum::LAYOUTGET, NfsStat::LAYOUTTRYLATER, FailureBody::WillSignal(true)),
        fail(OpNum::LAYOUTGET, NfsStat::LAYOUTTRYLATER, FailureBody::WillSignal(false)),
        fail(OpNum::GETDEVICEINFO, NfsStat::TOOSMALL, FailureBody::Mincount(99)),
        fail(OpNum::LAYOUTGET, NfsStat::TOOSMALL, FailureBody::None),
    ];
    ok.chain(plain).chain(with_bodies).collect()
}

fn fail(op: OpNum, status: NfsStat, body: FailureBody) -> OpReply {
    OpReply { op, result: Err(Failure { status, body }) }
}

fn callbacks() -> Vec<Sample> {
    let sequence = CbSequenceArgs {
        sessionid: SessionId([1; 16]),
        sequenceid: SequenceId(2),
        slotid: SlotId(3),
        highest_slotid: SlotId(4),
        cachethis: false,
        referring_call_lists: NoReferringCalls,
    };
    let recall = |recall| {
        CbOp::Layoutrecall(CbLayoutrecallArgs {
            layout_type: LayoutType::NFSV4_1_FILES,
            iomode: IoMode::ANY,
            changed: true,
            recall,
        })
    };
    let fh = FileHandle(b("handle"));
    let file =
        LayoutRecall::File { fh: fh.clone(), offset: 0, length: u64::MAX, stateid: stateid(1) };
    let offload = |info| CbOp::Offload(CbOffloadArgs { fh: fh.clone(), stateid: stateid(5), info });
    let delegation = CbRecallArgs { stateid: stateid(2), truncate: true, fh: fh.clone() };
    let lock_owner = StateOwner { clientid: ClientId(5), owner: opaque("waiter") };
    let ops = [
        CbOp::Sequence(sequence),
        recall(file),
        recall(LayoutRecall::Fsid(Fsid { major: 1, minor: 2 })),
        recall(LayoutRecall::All),
        CbOp::Recall(delegation),
        CbOp::RecallAny(CbRecallAnyArgs {
            objects_to_keep: 9,
            type_mask: Bitmap::from_words(&[3]),
        }),
        CbOp::Getattr(CbGetattrArgs {
            fh: fh.clone(),
            request: Bitmap::of(&[AttrNo::SIZE, AttrNo::CHANGE]),
        }),
        offload(OffloadInfo::Done(write_response(None))),
        offload(OffloadInfo::Failed { status: NfsStat::NOSPC, bytes_copied: 7 }),
        CbOp::NotifyLock(CbNotifyLockArgs { fh: fh.clone(), lock_owner }),
        CbOp::Other(CbOpNum::CB_NOTIFY),
    ];
    let ok = CbSequenceOk {
        sessionid: SessionId([1; 16]),
        sequenceid: SequenceId(2),
        slotid: SlotId(3),
        highest_slotid: SlotId(4),
        target_highest_slotid: SlotId(5),
    };
    let reply = CbReply {
        status: NfsStat::DELAY,
        results: vec![
            (CbOpNum::CB_SEQUENCE, NfsStat::OK, CbBody::Sequence(ok)),
            (CbOpNum::CB_LAYOUTRECALL, NfsStat::DELAY, CbBody::Empty),
        ],
    };
    let told = Attrs { size: Some(7), change: Some(9), ..Attrs::default() };
    let told = CbReply {
        status: NfsStat::OK,
        results: vec![(CbOpNum::CB_GETATTR, NfsStat::OK, CbBody::Getattr(Box::new(told)))],
    };
    let head =
        CbCompoundHeader { tag: opaque("tag"), minorversion: 2, callback_ident: 0, count: 2 };
    let mut out: Vec<_> = ops.iter().map(Sample::of).collect();
    out.push(Sample::of(&reply));
    out.push(Sample::of(&told));
    out.push(Sample::of(&head));
    out
}

fn basics() -> Vec<Sample> {
    let results = vec![
        OpReply { op: OpNum::PUTROOTFH, result: Ok(OpOk::Putrootfh) },
        fail(OpNum::SETATTR, NfsStat::ACCESS, FailureBody::None),
    ];
    let reply = CompoundReply { status: NfsStat::ACCESS, tag: opaque("tag"), results };
    let devices = GetdevicelistArgs {
        layout_type: LayoutType::NFSV4_1_FILES,
        maxdevices: 1,
        cookie: 2,
        cookieverf: Verifier([3; 8]),
    };
    vec![
        Sample::of(&reply),
        Sample::of(&devices),
        Sample::of(&every_attr()),
        Sample::of(&NetAddr { netid: opaque("tcp"), uaddr: opaque("192.0.2.7.8.1") }),
        Sample::of(&MdsThreshold(vec![ThresholdItem {
            layout_type: 1,
            read_size: None,
            write_size: Some(3),
        }])),
        Sample::of(&SetTime::ToServer),
        Sample::of(&SetTime::ToClient(time())),
    ]
}
