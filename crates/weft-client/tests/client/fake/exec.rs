//! The fake's operations.

use bytes::Bytes;
use tokio::sync::mpsc;
use weft_layout::{FilesDeviceAddr, FilesLayout, NetAddr};
use weft_nfs::{
    AttrNo, Attrs, ClientId, CompoundArgsHeader, CompoundReply, DeviceId, Failure, FileHandle,
    FileType, IoMode, NfsStat, OpArgs, OpOk, OpReply, Seqid, SequenceId, SessionId, StableHow,
    Stateid, Verifier,
    attr::{LayoutTypes, MdsThreshold, ThresholdItem},
    ops::*,
};
use weft_stripe::{Distribution, Extent, Form};
use weft_xdr::{Decode, Payload, Reader, Segment};

use super::{Fault, Node, Slot, State, UNIT, flex};

/// What one COPY copies, so that files need several.
const COPY_BYTES_MAX: u64 = 1 << 20;
/// All layouts have it: their files differ.
const LAYOUT_OTHER: [u8; 12] = [7; 12];

type Outcome = Result<OpOk, Failure>;
type Back = mpsc::UnboundedSender<Vec<Segment>>;

#[derive(Default)]
struct Current {
    fh: Option<FileHandle>,
    saved: Option<FileHandle>,
    stateid: Option<Stateid>,
    slot: Option<(SessionId, usize)>,
}

impl Current {
    /// The current stateid where it is meant (RFC 8881 §16.2.3.1.2).
    fn put_stateid(&self, op: &mut OpArgs) {
        let meant = match op {
            OpArgs::Write(a) => &mut a.stateid,
            OpArgs::Close(a) => &mut a.open_stateid,
            _ => return,
        };
        if *meant == Stateid::CURRENT {
            *meant = self.stateid.expect("an OPEN before it");
        }
    }
}

impl State {
    /// Executes a COMPOUND; none ends the connection.
    pub(super) fn compound(&mut self, mut r: Reader, back: &Back) -> Option<Bytes> {
        let header = CompoundArgsHeader::decode(&mut r).unwrap();
        let ops: Vec<OpArgs> = (0..header.count).map(|_| OpArgs::decode(&mut r).unwrap()).collect();
        r.finish().unwrap();
        self.minorversions.insert(header.minorversion);
        let fault = self.take_fault(&ops);
        if matches!(fault, Some(Fault::DropBefore(_))) {
            return None;
        }
        if matches!(fault, Some(Fault::DropBeforeAndForget(_))) {
            self.sessions.clear();
            return None;
        }
        if matches!(fault, Some(Fault::LoseDataBefore(_))) {
            self.lose_data();
        }
        assert!(ops.len() as u64 <= self.ops_max.into(), "more than the session takes");
        let mut current = Current::default();
        let mut results = Vec::new();
        let mut seen = 0;
        for mut op in ops {
            let number = op.op();
            seen += usize::from(fault.is_some_and(|fault| fault.op() == number));
            current.put_stateid(&mut op);
            if let OpArgs::Sequence(args) = &op
                && let Some(replay) = self.replay(args)
            {
                return Some(replay);
            }
            let result = match fault {
                Some(Fault::Status(op, status) | Fault::StatusBeside(_, op, status))
                    if op == number =>
                {
                    Err(status.into())
                }
                Some(Fault::SecondStatus(op, status)) if op == number && seen == 2 => {
                    Err(status.into())
                }
                _ => self.execute(op, &mut current, back),
            };
            if let Ok(ok) = &result {
                self.executed.push(number);
                if let OpOk::Open(open) = ok {
                    current.stateid = Some(open.stateid);
                }
            }
            let failed = result.is_err();
            if failed {
                self.refused.push(number);
            }
            results.push(OpReply { op: number, result });
            if failed {
                break;
            }
        }
        let status = results.last().map_or(NfsStat::OK, OpReply::status);
        let body = weft_xdr::to_bytes(&CompoundReply { status, tag: Default::default(), results });
        if let Some((session, slot)) = current.slot
            && let Some(slots) = self.sessions.get_mut(&session)
        {
            slots[slot].reply = Some(body.clone());
        }
        match fault {
            Some(Fault::DropAfter(_)) => None,
            Some(Fault::Hold(_)) => {
                self.holding = true;
                Some(body)
            }
            Some(Fault::DropAfterAndForget(_)) => {
                self.sessions.clear();
                None
            }
            _ => Some(body),
        }
    }

    fn take_fault(&mut self, ops: &[OpArgs]) -> Option<Fault> {
        let fault = *self.faults.front()?;
        let hit = ops.iter().any(|op| op.op() == fault.op());
        if hit { self.faults.pop_front() } else { None }
    }

    fn replay(&mut self, args: &SequenceArgs) -> Option<Bytes> {
        let slot = self.sessions.get(&args.sessionid)?.get(args.slotid.0 as usize)?;
        if slot.last == args.sequenceid { slot.reply.clone() } else { None }
    }

    pub(super) fn lose_data(&mut self) {
        self.verifier += 1;
        for object in self.objects.values_mut() {
            object.data = object.durable.clone();
        }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn execute(&mut self, op: OpArgs, c: &mut Current, back: &Back) -> Outcome {
        match op {
            OpArgs::ExchangeId(a) => Ok(self.exchange_id(&a)),
            OpArgs::CreateSession(a) => self.create_session(&a, back),
            OpArgs::BindConnToSession(a) => self.bind(&a, back),
            OpArgs::DestroySession(a) => match self.sessions.remove(&a.sessionid) {
                Some(_) => Ok(OpOk::DestroySession),
                None => Err(NfsStat::BADSESSION.into()),
            },
            OpArgs::DestroyClientid(_) => Ok(OpOk::DestroyClientid),
            OpArgs::Sequence(a) => self.sequence(&a, c),
            OpArgs::ReclaimComplete(_) => Ok(OpOk::ReclaimComplete),
            OpArgs::Putrootfh => {
                c.fh = Some(handle(1));
                Ok(OpOk::Putrootfh)
            }
            OpArgs::Putfh(a) => {
                c.fh = Some(a.object);
                Ok(OpOk::Putfh)
            }
            OpArgs::Savefh => {
                c.saved = c.fh.clone();
                Ok(OpOk::Savefh)
            }
            OpArgs::Restorefh => {
                c.fh = c.saved.clone();
                Ok(OpOk::Restorefh)
            }
            OpArgs::Getfh => Ok(OpOk::Getfh(GetfhOk { object: fh(c)? })),
            OpArgs::Getattr(a) => {
                self.types_asked += usize::from(a.request.contains(AttrNo::FS_LAYOUT_TYPES));
                let attrs = self.attrs(inode(c)?)?.only(&a.request);
                Ok(OpOk::Getattr(GetattrOk { attrs: Box::new(attrs) }))
            }
            OpArgs::Read(a) => self.read(&fh(c)?, &a),
            OpArgs::Write(a) => self.write(&fh(c)?, a),
            OpArgs::Commit(_) => {
                if let Some(object) = self.objects.get_mut(&fh(c)?.0) {
                    object.durable = object.data.clone();
                }
                Ok(OpOk::Commit(CommitOk { verifier: self.verifier() }))
            }
            OpArgs::Layoutget(a) => self.layoutget(inode(c)?, &a),
            OpArgs::Getdeviceinfo(a) => Ok(self.getdeviceinfo(&a)),
            OpArgs::Layoutcommit(a) => {
                if let Some(Node::File { size, .. }) = self.nodes.get_mut(&inode(c)?) {
                    *size = (*size).max(a.last_write_offset.map_or(0, |l| l + 1));
                }
                Ok(OpOk::Layoutcommit(LayoutcommitOk { newsize: None }))
            }
            OpArgs::Layoutreturn(a) => self.layoutreturn(inode(c)?, &a),
            OpArgs::Layouterror(_) => Ok(OpOk::Layouterror),
            other => self.namespace(other, c),
        }
    }

    fn exchange_id(&mut self, _: &ExchangeIdArgs) -> OpOk {
        let id = self.fresh();
        self.clients.insert(id, ());
        OpOk::ExchangeId(ExchangeIdOk {
            clientid: ClientId(id),
            sequenceid: SequenceId(1),
            flags: weft_nfs::exchgid::USE_PNFS_MDS,
            state_protect: StateProtectOk::None,
            server_owner: ServerOwner { minor_id: 0, major_id: Default::default() },
            server_scope: Default::default(),
            server_impl_id: ImplIds(None),
        })
    }

    fn create_session(&mut self, a: &CreateSessionArgs, back: &Back) -> Outcome {
        if !self.clients.contains_key(&a.clientid.0) {
            return Err(NfsStat::STALE_CLIENTID.into());
        }
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.fresh().to_be_bytes());
        let slots = a.fore_chan_attrs.maxrequests.min(self.slots);
        self.sessions.insert(SessionId(id), (0..slots).map(|_| Slot::default()).collect());
        if a.flags & weft_nfs::create_session_flags::CONN_BACK_CHAN != 0 {
            self.back = Some(back.clone());
        }
        self.cb_sequence = 0;
        Ok(OpOk::CreateSession(CreateSessionOk {
            sessionid: SessionId(id),
            sequence: a.sequence,
            flags: a.flags,
            fore_chan_attrs: ChannelAttrs {
                maxrequests: slots,
                maxoperations: a.fore_chan_attrs.maxoperations.min(self.ops_max),
                ..a.fore_chan_attrs
            },
            back_chan_attrs: a.back_chan_attrs,
        }))
    }

    fn bind(&mut self, a: &BindConnToSessionArgs, back: &Back) -> Outcome {
        if !self.sessions.contains_key(&a.sessionid) {
            return Err(NfsStat::BADSESSION.into());
        }
        self.back = Some(back.clone());
        Ok(OpOk::BindConnToSession(BindConnToSessionOk {
            sessionid: a.sessionid,
            dir: 3,
            use_conn_in_rdma_mode: false,
        }))
    }

    fn sequence(&mut self, a: &SequenceArgs, c: &mut Current) -> Outcome {
        let slots = self.sessions.get_mut(&a.sessionid).ok_or(NfsStat::BADSESSION)?;
        let highest = weft_nfs::SlotId(slots.len() as u32 - 1);
        let slot = slots.get_mut(a.slotid.0 as usize).ok_or(NfsStat::BADSLOT)?;
        if a.sequenceid != slot.last.next() {
            return Err(NfsStat::SEQ_MISORDERED.into());
        }
        slot.last = a.sequenceid;
        slot.reply = None;
        c.slot = Some((a.sessionid, a.slotid.0 as usize));
        Ok(OpOk::Sequence(SequenceOk {
            sessionid: a.sessionid,
            sequenceid: a.sequenceid,
            slotid: a.slotid,
            highest_slotid: highest,
            target_highest_slotid: highest,
            status_flags: 0,
        }))
    }

    fn verifier(&self) -> Verifier {
        Verifier(self.verifier.to_be_bytes())
    }

    fn node(&self, ino: u64) -> Result<&Node, Failure> {
        self.nodes.get(&ino).ok_or(Failure::from(NfsStat::STALE))
    }

    fn dir(&mut self, ino: u64) -> Result<&mut std::collections::BTreeMap<Bytes, u64>, Failure> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Dir(entries)) => Ok(entries),
            Some(Node::Link(_)) => Err(NfsStat::SYMLINK.into()),
            Some(Node::File { .. }) => Err(NfsStat::NOTDIR.into()),
            None => Err(NfsStat::STALE.into()),
        }
    }

    fn attrs(&self, ino: u64) -> Result<Attrs, Failure> {
        let (file_type, size) = match self.node(ino)? {
            Node::Dir(entries) => (FileType::DIR, entries.len() as u64),
            Node::File { size, .. } => (FileType::REG, *size),
            Node::Link(target) => (FileType::LNK, target.len() as u64),
        };
        let items = self.threshold.map(|n| ThresholdItem {
            layout_type: self.layout_types.first().copied().unwrap_or(0),
            read_size: Some(n),
            write_size: Some(n),
        });
        Ok(Attrs {
            file_type: Some(file_type),
            size: Some(size),
            fileid: Some(ino),
            mode: Some(0o644),
            lease_time: Some(90),
            fs_layout_types: Some(LayoutTypes(self.layout_types.clone())),
            mdsthreshold: items.map(|i| MdsThreshold(vec![i])),
            ..Attrs::default()
        })
    }

    fn namespace(&mut self, op: OpArgs, c: &mut Current) -> Outcome {
        let no_change = weft_nfs::ChangeInfo { atomic: true, before: 0, after: 1 };
        match op {
            OpArgs::Lookup(a) => {
                let found = self.dir(inode(c)?)?.get(&a.name.0).copied();
                c.fh = Some(handle(found.ok_or(NfsStat::NOENT)?));
                Ok(OpOk::Lookup)
            }
            OpArgs::Create(a) => {
                let node = match a.objtype {
                    CreateType::Directory => Node::Dir(Default::default()),
                    CreateType::Link(target) => Node::Link(target),
                    other => panic!("{other:?}"),
                };
                let ino = self.fresh();
                let dir = self.dir(inode(c)?)?;
                if dir.contains_key(&a.name.0) {
                    return Err(NfsStat::EXIST.into());
                }
                dir.insert(a.name.0, ino);
                self.nodes.insert(ino, node);
                let attrset = Default::default();
                Ok(OpOk::Create(CreateOk { change: no_change, attrset }))
            }
            OpArgs::Readlink => match self.node(inode(c)?)? {
                Node::Link(target) => Ok(OpOk::Readlink(ReadlinkOk { link: target.clone() })),
                _ => Err(NfsStat::INVAL.into()),
            },
            OpArgs::Remove(a) => {
                let ino = inode(c)?;
                let found = self.dir(ino)?.get(&a.target.0).copied().ok_or(NfsStat::NOENT)?;
                if matches!(self.node(found)?, Node::Dir(e) if !e.is_empty()) {
                    return Err(NfsStat::NOTEMPTY.into());
                }
                self.dir(ino)?.remove(&a.target.0);
                self.nodes.remove(&found);
                Ok(OpOk::Remove(RemoveOk { change: no_change }))
            }
            OpArgs::Rename(a) => {
                let from = inode_of(c.saved.as_ref())?;
                let moved = self.dir(from)?.remove(&a.oldname.0).ok_or(NfsStat::NOENT)?;
                self.dir(inode(c)?)?.insert(a.newname.0, moved);
                Ok(OpOk::Rename(RenameOk { source: no_change, target: no_change }))
            }
            OpArgs::Link(a) => {
                let linked = inode_of(c.saved.as_ref())?;
                let dir = self.dir(inode(c)?)?;
                if dir.contains_key(&a.newname.0) {
                    return Err(NfsStat::EXIST.into());
                }
                dir.insert(a.newname.0, linked);
                Ok(OpOk::Link(LinkOk { change: no_change }))
            }
            OpArgs::Readdir(a) => self.readdir(inode(c)?, &a),
            OpArgs::Clone(a) => {
                let (from, to) = ((a.src_stateid, a.src_offset), (a.dst_stateid, a.dst_offset));
                self.copy(c, (from, to), a.count)?;
                Ok(OpOk::Clone)
            }
            OpArgs::Copy(a) => {
                let (from, to) = ((a.src_stateid, a.src_offset), (a.dst_stateid, a.dst_offset));
                let count = self.copy(c, (from, to), a.count.min(COPY_BYTES_MAX))?;
                let (committed, writeverf) = (StableHow::FILE_SYNC, self.verifier());
                let response = WriteResponse { callback_id: None, count, committed, writeverf };
                let requirements = CopyRequirements { consecutive: true, synchronous: true };
                Ok(OpOk::Copy(CopyOk { response, requirements }))
            }
            OpArgs::Setattr(a) => {
                let ino = inode(c)?;
                self.set.push((*a.attrs).clone());
                if let (Some(Node::File { data, size, .. }), Some(new)) =
                    (self.nodes.get_mut(&ino), a.attrs.size)
                {
                    *size = new;
                    data.truncate(new as usize);
                    for (index, ds) in self.data_servers.iter().enumerate() {
                        if let Some(o) = ds.lock().objects.get_mut(&object(ino, index)) {
                            o.data.truncate(new as usize);
                            o.durable.truncate(new as usize);
                        }
                    }
                }
                Ok(OpOk::Setattr(SetattrOk { attrsset: Default::default() }))
            }
            OpArgs::Open(a) => self.open(a, c, no_change),
            OpArgs::Close(a) => match self.opens.remove(&a.open_stateid.other) {
                Some(_) => Ok(OpOk::Close(StateidOk { stateid: Stateid::INVALID })),
                None => Err(NfsStat::BAD_STATEID.into()),
            },
            other => panic!("the fake has no {:?}", other.op()),
        }
    }

    fn open(&mut self, a: OpenArgs, c: &mut Current, cinfo: weft_nfs::ChangeInfo) -> Outcome {
        let ino = match a.claim {
            OpenClaim::Fh => inode(c)?,
            OpenClaim::Null(name) => {
                let (parent, new) = (inode(c)?, self.fresh());
                match (self.dir(parent)?.get(&name.0).copied(), &a.openhow) {
                    (Some(ino), Some(CreateHow::Exclusive41(verifier, _)))
                        if self.verifiers.get(&ino) != Some(verifier) =>
                    {
                        return Err(NfsStat::EXIST.into());
                    }
                    (Some(ino), _) => ino,
                    (None, None) => return Err(NfsStat::NOENT.into()),
                    (None, Some(_)) => {
                        self.dir(parent)?.insert(name.0, new);
                        let data = Vec::new();
                        self.nodes.insert(new, Node::File { data, size: 0, striped: false });
                        if let Some(CreateHow::Exclusive41(verifier, _)) = &a.openhow {
                            self.verifiers.insert(new, *verifier);
                        }
                        new
                    }
                }
            }
            other => panic!("{other:?}"),
        };
        match self.nodes.get_mut(&ino) {
            Some(Node::File { data, size, .. }) => {
                if let Some(CreateHow::Unchecked(attrs)) = &a.openhow
                    && attrs.size == Some(0)
                {
                    data.clear();
                    *size = 0;
                    for ds in &self.data_servers {
                        ds.lock().objects.retain(|fh, _| fh[0] != ino as u8);
                    }
                }
            }
            Some(Node::Link(_)) => return Err(NfsStat::SYMLINK.into()),
            Some(Node::Dir(_)) => return Err(NfsStat::ISDIR.into()),
            None => return Err(NfsStat::STALE.into()),
        }
        c.fh = Some(handle(ino));
        let mut other = [1; 12];
        other[..8].copy_from_slice(&self.fresh().to_be_bytes());
        self.opens.insert(other, ino);
        Ok(OpOk::Open(OpenOk {
            stateid: Stateid { seqid: Seqid(1), other },
            cinfo,
            rflags: 0,
            attrset: Default::default(),
            delegation: OpenDelegation::None,
        }))
    }

    /// Pages of ten entries.
    fn readdir(&mut self, ino: u64, a: &ReaddirArgs) -> Outcome {
        let all: Vec<(Bytes, u64)> = self.dir(ino)?.iter().map(|(n, i)| (n.clone(), *i)).collect();
        let from = a.cookie as usize;
        let mut entries = Vec::new();
        for (index, (name, ino)) in all.iter().enumerate().skip(from).take(10) {
            entries.push(DirEntry {
                cookie: index as u64 + 1,
                name: weft_nfs::Component(name.clone()),
                attrs: self.attrs(*ino)?.only(&a.attr_request),
            });
        }
        let eof = from + entries.len() >= all.len();
        Ok(OpOk::Readdir(ReaddirOk { cookieverf: Verifier([5; 8]), entries, eof }))
    }

    fn layoutget(&mut self, ino: u64, a: &LayoutgetArgs) -> Outcome {
        if self.data_servers.is_empty() {
            return Err(NfsStat::LAYOUTUNAVAILABLE.into());
        }
        if !self.layout_types.contains(&a.layout_type.0) {
            return Err(NfsStat::UNKNOWN_LAYOUTTYPE.into());
        }
        if let Some(Node::File { data, striped, .. }) = self.nodes.get_mut(&ino) {
            *striped = true;
            let data = std::mem::take(data);
            self.put_striped(ino, 0, &data);
        }
        // RFC 8881 §12.5.3: the open's stateid for the first layout, then the layout's own.
        match self.layouts.get(&ino) {
            None => self.check_stateid(ino, a.stateid)?,
            Some(_) if a.stateid.other == LAYOUT_OTHER => {}
            Some(_) => return Err(NfsStat::BAD_STATEID.into()),
        }
        let seqid = self.layouts.entry(ino).or_default();
        *seqid += 1;
        let stateid = Stateid { seqid: Seqid(*seqid), other: LAYOUT_OTHER };
        let body = match self.mirrors {
            Some(mirrors) => flex::layout(ino, self.data_servers.len(), mirrors),
            None => {
                let handles = (0..self.data_servers.len()).map(|i| object(ino, i)).collect();
                let layout = FilesLayout::sparse(DeviceId([1; 16]), UNIT, 0, handles).unwrap();
                weft_xdr::to_bytes(&layout)
            }
        };
        Ok(OpOk::Layoutget(LayoutgetOk {
            return_on_close: true,
            stateid,
            layout: vec![LayoutSegment {
                offset: 0,
                length: u64::MAX,
                iomode: if a.iomode == IoMode::RW { IoMode::RW } else { IoMode::READ },
                layout_type: a.layout_type,
                body: Body(body),
            }],
        }))
    }

    /// A layout is returned by its newest stateid, and once.
    fn layoutreturn(&mut self, ino: u64, a: &LayoutreturnArgs) -> Outcome {
        let LayoutReturn::File { stateid, body, .. } = &a.layoutreturn else {
            panic!("not a file")
        };
        self.returned.push(body.0.clone());
        if self.layouts.remove(&ino) != Some(stateid.seqid.0) {
            return Err(NfsStat::BAD_STATEID.into());
        }
        Ok(OpOk::Layoutreturn(LayoutreturnOk { stateid: None }))
    }

    fn getdeviceinfo(&self, a: &GetdeviceinfoArgs) -> OpOk {
        let body = match self.mirrors {
            Some(mirrors) => flex::device(&self.data_servers, a.device_id, mirrors),
            None => {
                let addrs = self.data_servers.iter().map(|d| vec![NetAddr::from(d.addr)]).collect();
                weft_xdr::to_bytes(&FilesDeviceAddr::one_stripe_each(addrs).unwrap())
            }
        };
        OpOk::Getdeviceinfo(GetdeviceinfoOk {
            layout_type: a.layout_type,
            addr_body: Body(body),
            notification: Default::default(),
        })
    }

    fn check_stateid(&self, ino: u64, stateid: Stateid) -> Result<(), Failure> {
        match self.opens.get(&stateid.other) {
            _ if stateid == Stateid::ANONYMOUS => Ok(()),
            Some(opened) if *opened == ino => Ok(()),
            _ => Err(NfsStat::BAD_STATEID.into()),
        }
    }

    fn read(&mut self, fh: &FileHandle, a: &ReadArgs) -> Outcome {
        if fh.0.len() != 8 {
            self.check_object_stateid(a.stateid)?;
            let (data, eof) = self
                .objects
                .get(&fh.0)
                .map_or((Bytes::new(), true), |o| cut(&o.data, a.offset, u64::from(a.count)));
            return Ok(OpOk::Read(ReadOk { eof, data: Payload::Bytes(data) }));
        }
        let ino = inode_of(Some(fh))?;
        self.check_stateid(ino, a.stateid)?;
        let Node::File { data, size, striped } = self.node(ino)?.clone() else {
            return Err(NfsStat::INVAL.into());
        };
        let mut whole = data;
        if striped {
            whole = vec![0; size as usize];
            for (index, e) in self.places(0, size) {
                let ds = self.data_servers[index].lock();
                if let Some(o) = ds.objects.get(&object(ino, index)) {
                    let (part, _) = cut(&o.data, e.object_offset, e.len);
                    let at = e.file_offset as usize;
                    whole[at..at + part.len()].copy_from_slice(&part);
                }
            }
        }
        let (data, eof) = cut(&whole, a.offset, u64::from(a.count));
        Ok(OpOk::Read(ReadOk { eof, data: Payload::Bytes(data) }))
    }

    fn write(&mut self, fh: &FileHandle, a: WriteArgs) -> Outcome {
        let Payload::Bytes(bytes) = a.data else { panic!("received data are bytes") };
        let count = bytes.len() as u32;
        let mut committed = StableHow::UNSTABLE;
        if fh.0.len() != 8 {
            self.check_object_stateid(a.stateid)?;
            let object = self.objects.entry(fh.0.clone()).or_default();
            put(&mut object.data, a.offset, &bytes);
            if a.stable != StableHow::UNSTABLE {
                object.durable = object.data.clone();
                committed = a.stable;
            }
        } else {
            let ino = inode_of(Some(fh))?;
            self.check_stateid(ino, a.stateid)?;
            let Some(Node::File { data, size, striped }) = self.nodes.get_mut(&ino) else {
                return Err(NfsStat::INVAL.into());
            };
            *size = (*size).max(a.offset + u64::from(count));
            if *striped {
                self.put_striped(ino, a.offset, &bytes);
            } else {
                put(data, a.offset, &bytes);
            }
            committed = StableHow::FILE_SYNC;
        }
        Ok(OpOk::Write(WriteOk { count, committed, writeverf: self.verifier() }))
    }

    /// Copies from the saved to the current file.
    fn copy(
        &mut self,
        c: &Current,
        ((src_stateid, from), (stateid, offset)): ((Stateid, u64), (Stateid, u64)),
        count: u64,
    ) -> Result<u64, Failure> {
        let source = c.saved.clone().ok_or(Failure::from(NfsStat::NOFILEHANDLE))?;
        let read = ReadArgs { stateid: src_stateid, offset: from, count: count as u32 };
        let OpOk::Read(ReadOk { data: Payload::Bytes(bytes), .. }) = self.read(&source, &read)?
        else {
            panic!("what is sent are bytes")
        };
        // RFC 7862 §15.2.3: nothing is copied from behind the end.
        if (bytes.len() as u64) < count {
            return Err(NfsStat::INVAL.into());
        }
        let data = Payload::Bytes(bytes);
        let stable = StableHow::FILE_SYNC;
        self.write(&fh(c)?, WriteArgs { stateid, offset, stable, data })?;
        Ok(count)
    }

    /// Durably.
    fn put_striped(&self, ino: u64, offset: u64, bytes: &[u8]) {
        for (index, e) in self.places(offset, bytes.len() as u64) {
            let mut ds = self.data_servers[index].lock();
            let o = ds.objects.entry(object(ino, index)).or_default();
            let at = (e.file_offset - offset) as usize;
            let part = &bytes[at..at + e.len as usize];
            put(&mut o.data, e.object_offset, part);
            put(&mut o.durable, e.object_offset, part);
        }
    }

    /// Which data servers have the bytes of a range.
    fn places(&self, offset: u64, len: u64) -> Vec<(usize, Extent)> {
        let servers = self.data_servers.len();
        let count = if self.mirrors.is_some() { 1 } else { servers.max(1) as u32 };
        let d = Distribution::round_robin(UNIT.into(), count, 0, Form::Sparse).unwrap();
        let on = |e: Extent| match self.mirrors {
            Some(_) => (0..servers).map(|index| (index, e)).collect(),
            None => vec![(e.stripe_index as usize, e)],
        };
        d.extents(offset, len).flat_map(on).collect()
    }

    fn check_object_stateid(&self, stateid: Stateid) -> Result<(), Failure> {
        let meant = self.object_stateid.is_none_or(|meant| meant == stateid);
        if meant { Ok(()) } else { Err(NfsStat::BAD_STATEID.into()) }
    }
}

fn put(to: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (from, end) = (offset as usize, offset as usize + data.len());
    if to.len() < end {
        to.resize(end, 0);
    }
    to[from..end].copy_from_slice(data);
}

fn cut(data: &[u8], offset: u64, len: u64) -> (Bytes, bool) {
    let from = data.len().min(offset as usize);
    let to = data.len().min((offset + len) as usize);
    (Bytes::copy_from_slice(&data[from..to]), to == data.len())
}

fn handle(ino: u64) -> FileHandle {
    FileHandle(Bytes::copy_from_slice(&ino.to_be_bytes()))
}

/// The handle of a file's object on a data server.
pub fn object(ino: u64, index: usize) -> Bytes {
    let mut fh = vec![index as u8; 32];
    fh[0] = ino as u8;
    Bytes::from(fh)
}

fn fh(c: &Current) -> Result<FileHandle, Failure> {
    c.fh.clone().ok_or(Failure::from(NfsStat::NOFILEHANDLE))
}

fn inode(c: &Current) -> Result<u64, Failure> {
    inode_of(c.fh.as_ref())
}

fn inode_of(fh: Option<&FileHandle>) -> Result<u64, Failure> {
    let fh = fh.ok_or(Failure::from(NfsStat::NOFILEHANDLE))?;
    let bytes: [u8; 8] = fh.0[..].try_into().map_err(|_| Failure::from(NfsStat::BADHANDLE))?;
    Ok(u64::from_be_bytes(bytes))
}
