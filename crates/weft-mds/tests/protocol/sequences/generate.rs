//! Operations that are well formed and make no sense: whatever is known of filehandles, stateids,
//! names, sessions and clients, in any combination, with numbers at their limits.

use bytes::Bytes;
use weft_dev::SeededRng;
use weft_layout::FilesLayout;
use weft_nfs::{
    Ace, AceType, Acl, AttrNo, Attrs, Bitmap, ClientId, Component, DeviceId, FileHandle, FileType,
    IoMode, LayoutType, LockType, NfsStat, NfsTime, OpArgs, OpNum, OpOk, OpReply, Opaque, Seqid,
    SequenceId, SessionId, SlotId, SpecData, StableHow, StateOwner, Stateid, Verifier,
    attr::{ModeMasked, ModeUmask, SetTime},
    ops::*,
    share,
};
use weft_xdr::Payload;

use crate::support::*;

/// What a peer has heard of, its own and others'.
#[derive(Clone, Default)]
pub struct Known {
    pub handles: Vec<FileHandle>,
    pub stateids: Vec<Stateid>,
    pub sessions: Vec<SessionId>,
    pub clients: Vec<ClientId>,
    pub cookies: Vec<u64>,
    pub devices: Vec<DeviceId>,
}

/// Most of a kind that is remembered: beyond it the new replaces something older.
const KNOWN_MAX: usize = 64;

fn note<T: PartialEq>(list: &mut Vec<T>, item: T, random: &mut SeededRng) {
    if list.contains(&item) {
        return;
    }
    if list.len() < KNOWN_MAX {
        list.push(item);
    } else {
        // The first is where files are made.
        list[1 + random.index(KNOWN_MAX - 1)] = item;
    }
}

impl Known {
    /// Forgets a handle that leads nowhere any more.
    pub fn forget(&mut self, handle: &FileHandle) {
        let mut others = self.handles.split_off(1);
        others.retain(|h| h != handle);
        self.handles.append(&mut others);
    }

    /// Learns from a reply.
    pub fn learn(&mut self, results: &[OpReply], random: &mut SeededRng) {
        for ok in results.iter().filter_map(|r| r.result.as_ref().ok()) {
            match ok {
                OpOk::Getfh(g) => note(&mut self.handles, g.object.clone(), random),
                OpOk::Open(o) => {
                    note(&mut self.stateids, o.stateid, random);
                    if let OpenDelegation::Read { stateid, .. } = o.delegation {
                        note(&mut self.stateids, stateid, random);
                    }
                }
                OpOk::Lock(s) | OpOk::Locku(s) | OpOk::OpenDowngrade(s) => {
                    note(&mut self.stateids, s.stateid, random);
                }
                OpOk::Layoutget(l) => self.learn_layout(l, random),
                OpOk::Copy(c) => {
                    c.response
                        .callback_id
                        .iter()
                        .for_each(|s| note(&mut self.stateids, *s, random));
                }
                OpOk::CreateSession(s) => note(&mut self.sessions, s.sessionid, random),
                OpOk::ExchangeId(e) => note(&mut self.clients, e.clientid, random),
                OpOk::Readdir(r) => {
                    r.entries.iter().for_each(|e| note(&mut self.cookies, e.cookie, random));
                }
                OpOk::Listxattrs(l) => note(&mut self.cookies, l.cookie, random),
                _ => {}
            }
        }
    }

    fn learn_layout(&mut self, l: &LayoutgetOk, random: &mut SeededRng) {
        note(&mut self.stateids, l.stateid, random);
        for segment in &l.layout {
            let body: FilesLayout = weft_xdr::from_bytes(segment.body.0.clone()).unwrap();
            note(&mut self.devices, body.device, random);
            for handle in body.filehandles {
                note(&mut self.handles, FileHandle(handle), random);
            }
        }
    }
}

/// Chooses.
pub struct Generator<'a> {
    known: &'a Known,
    random: &'a mut SeededRng,
    /// Whether it is for a data server.
    at_data_server: bool,
    /// Whether most of it makes sense, so that something comes of it.
    steady: bool,
}

impl<'a> Generator<'a> {
    pub fn new(known: &'a Known, random: &'a mut SeededRng, at_data_server: bool) -> Self {
        Generator { known, random, at_data_server, steady: false }
    }

    /// The operations of one request: any at all, or a file opened or taken up and something done
    /// with it.
    pub fn request(&mut self, most: usize) -> Vec<OpArgs> {
        self.steady = self.one_in(2);
        let count = 1 + self.random.index(most);
        let mut ops = match (self.steady, self.random.index(4)) {
            (true, 0 | 1) if !self.at_data_server => {
                let dir = self.known.handles[0].clone();
                vec![putfh(&dir), OpArgs::Open(self.open()), OpArgs::Getfh]
            }
            (true, 2) => {
                let (from, to) = (self.handle(), self.handle());
                vec![putfh(&from), OpArgs::Savefh, putfh(&to)]
            }
            _ => vec![putfh(&self.handle())],
        };
        for _ in 0..count {
            ops.push(match self.random.index(4) {
                0..=2 if self.at_data_server => self.on_objects(),
                0 | 1 if self.steady => self.on_state(),
                2 if self.steady => self.on_data(),
                _ => self.operation(),
            });
        }
        ops.push(OpArgs::Getfh);
        ops
    }

    /// One operation for a request without a session.
    pub fn alone(&mut self) -> OpArgs {
        if self.flag() { self.on_sessions() } else { self.operation() }
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.random.index(n) == 0
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        (!list.is_empty()).then(|| list[self.random.index(list.len())].clone())
    }

    /// A number for an offset, a length or a cookie.
    fn number(&mut self) -> u64 {
        const EDGES: [u64; 14] = [
            0,
            1,
            7,
            4095,
            4096,
            (1 << 20) - 1,
            1 << 20,
            (1 << 20) + 1,
            1 << 32,
            i64::MAX as u64 - 1,
            i64::MAX as u64,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        if self.one_in(4) { self.random.draw() } else { EDGES[self.random.index(EDGES.len())] }
    }

    /// One that lets something be done.
    fn small(&mut self) -> u64 {
        if self.one_in(4) { self.number() } else { self.random.index(3 << 20) as u64 }
    }

    fn count(&mut self) -> u32 {
        const EDGES: [u32; 9] = [0, 1, 16, 100, 4096, 1 << 16, 1 << 20, 1 << 31, u32::MAX];
        EDGES[self.random.index(EDGES.len())]
    }

    fn bits(&mut self) -> u32 {
        let all = self.random.draw() as u32;
        if self.one_in(3) { all } else { 1 << (all % 32) | u32::from(self.one_in(2)) }
    }

    fn flag(&mut self) -> bool {
        self.one_in(2)
    }

    fn name(&mut self) -> Component {
        const NAMES: [&[u8]; 12] =
            [b"a", b"b", b"c", b"d", b"e", b"f", b"", b".", b"..", b"a/b", b"\0", b"\xff\xfe"];
        if self.one_in(30) {
            let len = [255, 256, 4096][self.random.index(3)];
            return Component(vec![b'x'; len].into());
        }
        let usual = if self.one_in(if self.steady { 50 } else { 10 }) { NAMES.len() } else { 6 };
        name(NAMES[self.random.index(usual)])
    }

    fn opaque(&mut self) -> Opaque {
        let len = if self.one_in(10) { 1024 } else { self.random.index(3) };
        Opaque(vec![b'o'; len].into())
    }

    fn bytes(&mut self, max: usize) -> Bytes {
        let len = self.random.index(max);
        vec![7; len].into()
    }

    fn handle(&mut self) -> FileHandle {
        let known = self.known;
        // Those of data servers are longer; mostly a server is given its own.
        let longer = self.at_data_server != self.one_in(40);
        let of_server = |handle: &&FileHandle| (handle.0.len() > 16) == longer;
        let handles: Vec<_> = known.handles.iter().filter(of_server).cloned().collect();
        let handle = self.of(&handles).unwrap_or_else(|| known.handles[0].clone());
        if !self.one_in(if self.steady { 200 } else { 20 }) {
            return handle;
        }
        let mut bytes = handle.0.to_vec();
        match self.random.index(3) {
            0 if !bytes.is_empty() => {
                let bit = self.random.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            1 => bytes.resize(self.random.index(129), 0),
            _ => bytes = self.random.bytes(16),
        }
        FileHandle(bytes.into())
    }

    fn stateid(&mut self) -> Stateid {
        const SPECIAL: [Stateid; 4] =
            [Stateid::ANONYMOUS, Stateid::READ_BYPASS, Stateid::CURRENT, Stateid::INVALID];
        let special = SPECIAL[self.random.index(4)];
        if self.steady && !self.one_in(4) {
            return Stateid::CURRENT;
        }
        let known = self.known;
        let mut stateid = match self.random.index(8) {
            0 => special,
            1 | 2 => Stateid::CURRENT,
            _ => self.of(&known.stateids).unwrap_or(special),
        };
        match self.random.index(16) {
            0 => stateid.seqid = Seqid(0),
            1 => stateid.seqid = Seqid(stateid.seqid.0.wrapping_add(1)),
            2 => stateid.seqid = Seqid(stateid.seqid.0.wrapping_sub(1)),
            3 => stateid.other[self.random.index(12)] ^= 1 << self.random.index(8),
            _ => {}
        }
        stateid
    }

    fn session(&mut self) -> SessionId {
        let known = self.known;
        self.of(&known.sessions).unwrap_or(SessionId([3; 16]))
    }

    fn client(&mut self) -> ClientId {
        let known = self.known;
        let client = self.of(&known.clients).unwrap_or(ClientId(1));
        if self.one_in(10) { ClientId(client.0 ^ self.number()) } else { client }
    }

    fn cookie(&mut self) -> u64 {
        let known = self.known;
        if self.one_in(3) { self.number() } else { self.of(&known.cookies).unwrap_or(0) }
    }

    fn device(&mut self) -> DeviceId {
        let known = self.known;
        let other = DeviceId([self.random.draw() as u8; 16]);
        if self.one_in(10) { other } else { self.of(&known.devices).unwrap_or(other) }
    }

    fn owner(&mut self) -> StateOwner {
        StateOwner { clientid: self.client(), owner: self.opaque() }
    }

    fn verifier(&mut self) -> Verifier {
        Verifier(if self.flag() { [0; 8] } else { self.number().to_be_bytes() })
    }

    fn layout_type(&mut self) -> LayoutType {
        let odd = !self.steady && self.one_in(10);
        if odd { LayoutType(self.bits()) } else { LayoutType::NFSV4_1_FILES }
    }

    fn iomode(&mut self) -> IoMode {
        let odd = !self.steady && self.one_in(10);
        let usual = if self.steady { 2 } else { 3 };
        IoMode(if odd { self.bits() } else { 1 + self.random.index(usual) as u32 })
    }

    fn lock_type(&mut self) -> LockType {
        use LockType::*;
        [Read, Write, ReadBlocking, WriteBlocking][self.random.index(4)]
    }

    fn bitmap(&mut self) -> Bitmap {
        match self.random.index(6) {
            0 => Attrs::KNOWN,
            1 => Bitmap::EMPTY,
            2 => Bitmap::from_words(&[self.bits(), self.bits(), self.bits(), self.bits()]),
            _ => Bitmap::of(&[AttrNo::SIZE, AttrNo(self.random.index(84) as u32)]),
        }
    }

    fn time(&mut self) -> SetTime {
        if self.flag() {
            return SetTime::ToServer;
        }
        let seconds = self.number() as i64;
        SetTime::ToClient(NfsTime { seconds, nseconds: self.count() })
    }

    fn acl(&mut self) -> Acl {
        const WHO: [&str; 7] =
            ["OWNER@", "GROUP@", "EVERYONE@", "1000", "someone@example.org", "", "\u{fffd}@"];
        let count = if self.one_in(8) { 1024 } else { self.random.index(7) };
        let aces = (0..count).map(|_| {
            let who = WHO[self.random.index(WHO.len())];
            Ace {
                acetype: if self.flag() { AceType::ALLOW } else { AceType(self.bits() & 3) },
                flag: if self.flag() { 0 } else { self.bits() },
                access_mask: self.random.draw() as u32 & if self.flag() { 0x1f_07ff } else { !0 },
                who: Opaque(Bytes::from_static(who.as_bytes())),
            }
        });
        Acl(aces.collect())
    }

    fn attrs(&mut self) -> Attrs {
        let mut a = Attrs::default();
        if self.steady && !self.one_in(5) {
            a.size = self.one_in(3).then(|| self.random.index(5 << 20) as u64);
            return a;
        }
        for _ in 0..self.random.index(3) {
            match self.random.index(14) {
                0 | 1 => a.size = Some(self.small()),
                2 | 3 => a.mode = Some(self.random.index(0o10000) as u32),
                4 => a.mode = Some(self.bits()),
                5 => a.owner = Some(self.opaque()),
                6 => a.owner_group = Some(Opaque(Bytes::from_static(b"1000"))),
                7 => a.time_access_set = Some(self.time()),
                8 => a.time_modify_set = Some(self.time()),
                9 => a.acl = Some(self.acl()),
                10 => a.mode_umask = Some(ModeUmask { mode: self.bits(), umask: self.bits() }),
                11 => {
                    a.mode_set_masked = Some(ModeMasked { value: self.bits(), mask: self.bits() })
                }
                12 => a.fileid = Some(self.number()),
                _ => a.archive = Some(self.flag()),
            }
        }
        a
    }

    fn open(&mut self) -> OpenArgs {
        let (stateid, verifier) = (self.stateid(), self.verifier());
        if self.steady && !self.one_in(8) {
            let openhow =
                Some(CreateHow::Unchecked(Box::new(Attrs { mode: Some(0o666), ..self.attrs() })));
            let args = open("o", OpenClaim::Null(self.name()));
            let wants = if self.one_in(3) { share::WANT_READ_DELEG } else { 0 };
            let access = if self.flag() { share::ACCESS_BOTH } else { share::ACCESS_READ };
            return OpenArgs { openhow, share_access: access | wants, ..args };
        }
        let openhow = match self.random.index(8) {
            0..=2 => Some(CreateHow::Unchecked(Box::new(self.attrs()))),
            3 => Some(CreateHow::Guarded(Box::new(self.attrs()))),
            4 => Some(CreateHow::Exclusive41(verifier, Box::new(self.attrs()))),
            5 => Some(CreateHow::Exclusive(verifier)),
            _ => None,
        };
        let claim = match self.random.index(14) {
            0 | 1 => OpenClaim::Fh,
            2 => OpenClaim::Previous(self.bits() & 3),
            3 => OpenClaim::DelegateCur(stateid, self.name()),
            4 => OpenClaim::DelegCurFh(stateid),
            5 => OpenClaim::DelegatePrev(self.name()),
            6 => OpenClaim::DelegPrevFh,
            _ => OpenClaim::Null(self.name()),
        };
        OpenArgs {
            seqid: Seqid(self.bits()),
            share_access: if self.one_in(10) { self.bits() } else { 1 + self.bits() % 3 },
            share_deny: if self.one_in(4) { self.bits() & 7 } else { 0 },
            owner: self.owner(),
            openhow,
            claim,
        }
    }

    fn create(&mut self) -> CreateArgs {
        let dev = SpecData { major: self.bits(), minor: self.bits() };
        let objtype = match self.random.index(10) {
            0 => CreateType::Link(self.bytes(5000)),
            1 => CreateType::Block(dev),
            2 => CreateType::Char(dev),
            3 => CreateType::Socket,
            4 => CreateType::Fifo,
            5 => CreateType::Other(FileType(self.bits())),
            _ => CreateType::Directory,
        };
        CreateArgs { objtype, name: self.name(), attrs: Box::new(self.attrs()) }
    }

    fn locker(&mut self) -> Locker {
        let stateid = self.stateid();
        if self.flag() {
            return Locker::Existing { lock_stateid: stateid };
        }
        Locker::New { open_stateid: stateid, lock_owner: self.owner() }
    }

    fn layoutreturn(&mut self) -> LayoutreturnArgs {
        let layoutreturn = match self.random.index(8) {
            0 => LayoutReturn::Fsid,
            1 => LayoutReturn::All,
            _ => LayoutReturn::File {
                offset: if self.flag() { 0 } else { self.number() },
                length: if self.flag() { u64::MAX } else { self.number() },
                stateid: self.stateid(),
                body: Body(self.bytes(20)),
            },
        };
        LayoutreturnArgs {
            reclaim: !self.steady && self.one_in(10),
            layout_type: self.layout_type(),
            iomode: self.iomode(),
            layoutreturn,
        }
    }

    fn channel(&mut self) -> ChannelAttrs {
        let usual = channel(8, 1 << 16);
        if self.flag() {
            return usual;
        }
        ChannelAttrs {
            headerpadsize: self.count(),
            maxrequestsize: self.count(),
            maxresponsesize: self.count(),
            maxresponsesize_cached: self.count(),
            maxoperations: self.count(),
            maxrequests: self.count(),
            rdma_ird: RdmaIrd(self.one_in(4).then_some(1)),
        }
    }

    fn secs(&mut self) -> CallbackSecs {
        let secs = [vec![CallbackSec::None], vec![], vec![CallbackSec::Gss, CallbackSec::None]];
        CallbackSecs(secs[self.random.index(3)].clone())
    }

    /// Any operation at all.
    fn operation(&mut self) -> OpArgs {
        match self.random.index(10) {
            0..=3 => self.on_handles(),
            4 | 5 => self.on_names(),
            6 | 7 => self.on_state(),
            8 => self.on_data(),
            _ => self.on_sessions(),
        }
    }

    fn on_handles(&mut self) -> OpArgs {
        match self.random.index(14) {
            0..=4 => OpArgs::Putfh(PutfhArgs { object: self.handle() }),
            5 => OpArgs::Putrootfh,
            6 => OpArgs::Savefh,
            7 => OpArgs::Restorefh,
            8 | 9 => OpArgs::Getfh,
            10 => OpArgs::Lookupp,
            11 => OpArgs::Putpubfh,
            12 => OpArgs::Getattr(GetattrArgs { request: self.bitmap() }),
            _ => OpArgs::Access(AccessArgs { access: self.bits() }),
        }
    }

    fn on_names(&mut self) -> OpArgs {
        match self.random.index(17) {
            0 | 1 => OpArgs::Lookup(LookupArgs { name: self.name() }),
            2..=5 => OpArgs::Open(self.open()),
            6 | 7 => OpArgs::Create(self.create()),
            8 => OpArgs::Remove(RemoveArgs { target: self.name() }),
            9 => OpArgs::Rename(RenameArgs { oldname: self.name(), newname: self.name() }),
            10 => OpArgs::Link(LinkArgs { newname: self.name() }),
            11 => OpArgs::Readdir(ReaddirArgs {
                cookie: self.cookie(),
                cookieverf: self.verifier(),
                dircount: self.count(),
                maxcount: self.count(),
                attr_request: self.bitmap(),
            }),
            12 => OpArgs::Secinfo(SecinfoArgs { name: self.name() }),
            13 => OpArgs::SecinfoNoName(SecinfoNoNameArgs { style: self.bits() & 3 }),
            14 => OpArgs::Readlink,
            15 => OpArgs::Getxattr(GetxattrArgs { name: self.name() }),
            _ => self.on_xattrs(),
        }
    }

    fn on_xattrs(&mut self) -> OpArgs {
        match self.random.index(4) {
            0 => OpArgs::Removexattr(RemovexattrArgs { name: self.name() }),
            1 => {
                let (cookie, maxcount) = (self.cookie(), self.count());
                OpArgs::Listxattrs(ListxattrsArgs { cookie, maxcount })
            }
            _ => OpArgs::Setxattr(SetxattrArgs {
                option: SetxattrOption(self.random.index(4) as u32),
                key: self.name(),
                value: XattrValue(self.bytes(100_000)),
            }),
        }
    }

    /// What a data server takes.
    fn on_objects(&mut self) -> OpArgs {
        match self.random.index(6) {
            0 => OpArgs::Getattr(GetattrArgs { request: self.bitmap() }),
            1 => OpArgs::Putfh(PutfhArgs { object: self.handle() }),
            _ => self.on_data(),
        }
    }

    fn on_state(&mut self) -> OpArgs {
        let stateid = self.stateid();
        let (offset, length) = match self.steady {
            true => (self.random.index(100) as u64, 1 + self.random.index(100) as u64),
            false => (self.number(), self.number()),
        };
        match self.random.index(20) {
            0 => OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid: stateid }),
            1 => downgrade(stateid, self.bits() & 3, self.bits() & 3),
            2..=4 => OpArgs::Lock(LockArgs {
                locktype: self.lock_type(),
                reclaim: !self.steady && self.one_in(10),
                offset,
                length,
                locker: self.locker(),
            }),
            5 => OpArgs::Lockt(LocktArgs {
                locktype: self.lock_type(),
                offset,
                length,
                owner: self.owner(),
            }),
            6 => locku(stateid, offset, length),
            7 => OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: stateid }),
            8 => OpArgs::FreeStateid(FreeStateidArgs { stateid }),
            9 => {
                let count = if self.one_in(10) { 1024 } else { 3 };
                let stateids = (0..count).map(|_| self.stateid()).collect();
                OpArgs::TestStateid(TestStateidArgs { stateids })
            }
            10..=12 => {
                let whole = self.steady || self.one_in(2);
                OpArgs::Layoutget(LayoutgetArgs {
                    signal_layout_avail: self.flag(),
                    layout_type: self.layout_type(),
                    iomode: self.iomode(),
                    offset: if whole { 0 } else { offset },
                    length: if whole { u64::MAX } else { length },
                    minlength: if whole { 4096 } else { self.number() },
                    stateid,
                    maxcount: if whole { 4096 } else { self.count() },
                })
            }
            13 | 14 => OpArgs::Layoutreturn(self.layoutreturn()),
            15 | 16 => OpArgs::Layoutcommit(LayoutcommitArgs {
                offset,
                length,
                reclaim: !self.steady && self.one_in(10),
                stateid,
                last_write_offset: self.flag().then(|| self.small()),
                time_modify: None,
                layout_type: self.layout_type(),
                update_body: Body(self.bytes(20)),
            }),
            17 => OpArgs::Layouterror(LayouterrorArgs {
                offset,
                length,
                stateid,
                errors: DeviceErrors(vec![DeviceError {
                    device_id: self.device(),
                    status: NfsStat(self.bits()),
                    op: OpNum(self.bits() & 63),
                }]),
            }),
            18 => OpArgs::Layoutstats(LayoutstatsArgs {
                offset,
                length,
                stateid,
                read: IoInfo { count: self.number(), bytes: self.number() },
                write: IoInfo { count: self.number(), bytes: self.number() },
                device_id: self.device(),
                layout_type: self.layout_type(),
                update_body: Body(self.bytes(20)),
            }),
            _ => OpArgs::Getdeviceinfo(GetdeviceinfoArgs {
                device_id: self.device(),
                layout_type: self.layout_type(),
                maxcount: self.count(),
                notify_types: self.bitmap(),
            }),
        }
    }

    fn on_data(&mut self) -> OpArgs {
        let anonymous = self.steady && self.flag();
        let stateid = if anonymous { Stateid::ANONYMOUS } else { self.stateid() };
        let (offset, length) = match self.steady {
            true => (self.random.index(3 << 20) as u64, 1 + self.random.index(3 << 20) as u64),
            false => (self.small(), self.small()),
        };
        match self.random.index(16) {
            0 | 1 => read(stateid, offset, self.count()),
            2 | 3 => OpArgs::Write(WriteArgs {
                stateid,
                offset,
                stable: StableHow(self.random.index(4) as u32),
                data: Payload::Bytes(self.bytes(10_000)),
            }),
            4 => OpArgs::Commit(CommitArgs { offset, count: self.count() }),
            5 | 6 => OpArgs::Setattr(SetattrArgs { stateid, attrs: Box::new(self.attrs()) }),
            7 => OpArgs::Verify(VerifyArgs { attrs: Box::new(self.attrs()) }),
            8 => OpArgs::Nverify(VerifyArgs { attrs: Box::new(self.attrs()) }),
            9 => OpArgs::Allocate(AllocateArgs { stateid, offset, length: length % (1 << 24) }),
            10 => OpArgs::Deallocate(DeallocateArgs { stateid, offset, length }),
            11 => OpArgs::Seek(SeekArgs {
                stateid,
                offset,
                what: DataContent(self.random.index(3) as u32),
            }),
            12 => OpArgs::IoAdvise(IoAdviseArgs {
                stateid,
                offset,
                count: length,
                hints: self.bitmap(),
            }),
            13 => OpArgs::Clone(CloneArgs {
                src_stateid: stateid,
                dst_stateid: if anonymous { stateid } else { self.stateid() },
                src_offset: offset,
                dst_offset: self.small(),
                count: length,
            }),
            14 => OpArgs::Copy(CopyArgs {
                src_stateid: stateid,
                dst_stateid: if anonymous { stateid } else { self.stateid() },
                src_offset: offset,
                dst_offset: self.small(),
                count: length,
                consecutive: self.flag(),
                synchronous: self.flag(),
                source_server: Netlocs::default(),
            }),
            _ if self.flag() => OpArgs::OffloadCancel(OffloadCancelArgs { stateid }),
            _ => OpArgs::OffloadStatus(OffloadStatusArgs { stateid }),
        }
    }

    fn on_sessions(&mut self) -> OpArgs {
        match self.random.index(12) {
            0 => OpArgs::BackchannelCtl(BackchannelCtlArgs {
                cb_program: self.bits(),
                sec_parms: self.secs(),
            }),
            1 => OpArgs::BindConnToSession(BindConnToSessionArgs {
                sessionid: self.session(),
                dir: self.bits(),
                use_conn_in_rdma_mode: self.one_in(4),
            }),
            2 | 3 => self.exchange_id(),
            4 | 5 => OpArgs::CreateSession(CreateSessionArgs {
                clientid: self.client(),
                sequence: SequenceId(self.random.index(3) as u32),
                flags: self.bits() & 7,
                fore_chan_attrs: self.channel(),
                back_chan_attrs: self.channel(),
                cb_program: self.bits(),
                sec_parms: self.secs(),
            }),
            6 => OpArgs::DestroySession(DestroySessionArgs { sessionid: self.session() }),
            7 => OpArgs::DestroyClientid(DestroyClientidArgs { clientid: self.client() }),
            8 => OpArgs::ReclaimComplete(ReclaimCompleteArgs { one_fs: self.flag() }),
            9 => OpArgs::Sequence(SequenceArgs {
                sessionid: self.session(),
                sequenceid: SequenceId(self.bits()),
                slotid: SlotId(self.count()),
                highest_slotid: SlotId(self.count()),
                cachethis: self.flag(),
            }),
            _ => OpArgs::Unread(OpNum(self.random.index(80) as u32)),
        }
    }

    fn exchange_id(&mut self) -> OpArgs {
        let usual = exchange_id(&ClientOptions::new("nasty"));
        let state_protect = match self.random.index(6) {
            0 => StateProtectArgs::Ssv,
            1 => StateProtectArgs::MachCred(StateProtectOps {
                must_enforce: self.bitmap(),
                must_allow: self.bitmap(),
            }),
            _ => StateProtectArgs::None,
        };
        let clientowner = ClientOwner { verifier: self.verifier(), ownerid: self.opaque() };
        let flags = if self.flag() { 0 } else { self.bits() };
        OpArgs::ExchangeId(ExchangeIdArgs { clientowner, flags, state_protect, ..usual })
    }
}
