//! A small NFSv4.2 server in memory, for tests: a metadata server or a data server, with
//! sessions, a reply cache, layouts, a back channel, and faults on demand.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod cluster;
mod exec;
pub mod flex;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
    task::AbortHandle,
};
use weft_io::{RecordReader, RecordSender};
use weft_layout::FlexFlags;
use weft_nfs::{
    Attrs, FileHandle, LayoutType, NFS_PROGRAM, NFS_V4, NfsStat, OpNum, PROC_COMPOUND, SequenceId,
    SessionId, SlotId, Stateid, Verifier,
    callback::{
        CB_PROC_COMPOUND, CB_VERSION, CbCompoundHeader, CbLayoutrecallArgs, CbOp, CbReply,
        CbSequenceArgs, LayoutRecall, NoReferringCalls,
    },
};
use weft_xdr::{
    Decode, Encode, Reader, Segment, Writer,
    rpc::{CallHeader, Message, OpaqueAuth, Reply},
};

/// Bytes in a stripe unit of the fake's layouts.
pub const UNIT: u32 = 1 << 20;

/// Something that goes wrong once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends when a request with this operation arrives; nothing is executed.
    DropBefore(OpNum),
    /// The request is executed, its reply kept, and the connection ends.
    DropAfter(OpNum),
    /// As above, and the sessions are forgotten.
    DropAfterAndForget(OpNum),
    /// The sessions are forgotten, and nothing was executed.
    DropBeforeAndForget(OpNum),
    /// The operation answers this.
    Status(OpNum, NfsStat),
    /// The second of these in a request answers this.
    SecondStatus(OpNum, NfsStat),
    /// In a request that has the first, the second answers this.
    StatusBeside(OpNum, OpNum, NfsStat),
    /// The data server loses what is not durable, and gets a new verifier, before it executes
    /// this operation.
    LoseDataBefore(OpNum),
    /// The request is executed, its reply kept back until [`Fake::release`].
    Hold(OpNum),
}

impl Fault {
    fn op(self) -> OpNum {
        match self {
            Fault::DropBefore(op)
            | Fault::DropAfter(op)
            | Fault::DropAfterAndForget(op)
            | Fault::DropBeforeAndForget(op)
            | Fault::Status(op, _)
            | Fault::SecondStatus(op, _)
            | Fault::StatusBeside(op, _, _)
            | Fault::LoseDataBefore(op)
            | Fault::Hold(op) => op,
        }
    }
}

#[derive(Debug, Clone)]
pub enum Node {
    Dir(BTreeMap<Bytes, u64>),
    File { data: Vec<u8>, size: u64, striped: bool },
    Link(Bytes),
}

#[derive(Debug, Clone, Default)]
pub struct Object {
    pub data: Vec<u8>,
    pub durable: Vec<u8>,
}

/// Flexfiles layouts: each data server has a whole copy of every file, and the last one is the most
/// efficient.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mirrors {
    pub flags: FlexFlags,
    /// Bytes that are missing at the end of a layout's body.
    pub cut: usize,
    /// The data servers do not know the metadata server's state.
    pub loosely_coupled: bool,
}

#[derive(Debug, Default)]
pub struct Slot {
    last: SequenceId,
    reply: Option<Bytes>,
}

/// The server's memory.
pub struct State {
    pub nodes: BTreeMap<u64, Node>,
    /// Of files that were made exclusively.
    pub verifiers: BTreeMap<u64, Verifier>,
    pub objects: HashMap<Bytes, Object>,
    /// Operations executed, replays not counted.
    pub executed: Vec<OpNum>,
    /// Operations refused.
    pub refused: Vec<OpNum>,
    /// Layout types announced.
    pub layout_types: Vec<u32>,
    /// How often that was asked for.
    pub types_asked: usize,
    /// How files lie on data servers, if they are not striped.
    pub mirrors: Option<Mirrors>,
    /// The stateid that I/O of objects has to carry, if any.
    pub object_stateid: Option<Stateid>,
    /// Minor versions spoken.
    pub minorversions: BTreeSet<u32>,
    /// Bodies of LAYOUTRETURNs.
    pub returned: Vec<Bytes>,
    /// What SETATTRs have set.
    pub set: Vec<Attrs>,
    pub faults: VecDeque<Fault>,
    /// Slots granted.
    pub slots: u32,
    /// Operations in a request, SEQUENCE included.
    pub ops_max: u32,
    /// Threshold told at open.
    pub threshold: Option<u64>,
    pub connections: u64,
    pub cb_replies: Vec<CbReply>,
    /// Replies kept back, and where they go.
    pub held: Vec<(mpsc::UnboundedSender<Vec<Segment>>, Vec<Segment>)>,
    /// The next reply is to be kept back.
    holding: bool,
    clients: HashMap<u64, ()>,
    pub sessions: HashMap<SessionId, Vec<Slot>>,
    next: u64,
    verifier: u64,
    data_servers: Vec<Fake>,
    pub opens: HashMap<[u8; 12], u64>,
    /// Layouts held, by file: their seqids.
    layouts: HashMap<u64, u32>,
    back: Option<mpsc::UnboundedSender<Vec<Segment>>>,
    /// The back channel's last sequence id, of its one slot.
    pub cb_sequence: u32,
}

/// A running fake. Clones share it.
#[derive(Clone)]
pub struct Fake {
    pub addr: SocketAddr,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    accepting: Arc<Mutex<Vec<AbortHandle>>>,
}

impl State {
    /// How often an operation was executed.
    pub fn count(&self, op: OpNum) -> usize {
        self.executed.iter().filter(|o| **o == op).count()
    }
}

impl Fake {
    /// A data server.
    pub async fn data_server() -> Fake {
        Fake::start(Vec::new()).await
    }

    /// A metadata server whose files are striped over these.
    pub async fn start(data_servers: Vec<Fake>) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = State {
            nodes: BTreeMap::from([(1, Node::Dir(BTreeMap::new()))]),
            verifiers: BTreeMap::new(),
            objects: HashMap::new(),
            executed: Vec::new(),
            refused: Vec::new(),
            layout_types: vec![LayoutType::NFSV4_1_FILES.0],
            types_asked: 0,
            mirrors: None,
            object_stateid: None,
            minorversions: BTreeSet::new(),
            returned: Vec::new(),
            set: Vec::new(),
            faults: VecDeque::new(),
            slots: 16,
            ops_max: u32::MAX,
            threshold: None,
            connections: 0,
            cb_replies: Vec::new(),
            held: Vec::new(),
            holding: false,
            clients: HashMap::new(),
            sessions: HashMap::new(),
            next: 100,
            verifier: 1,
            data_servers,
            opens: HashMap::new(),
            layouts: HashMap::new(),
            back: None,
            cb_sequence: 0,
        };
        let fake = Fake {
            addr,
            state: Arc::new(Mutex::new(state)),
            changed: Arc::new(Notify::new()),
            accepting: Arc::new(Mutex::new(Vec::new())),
        };
        let accept = tokio::spawn(fake.clone().accept(listener));
        fake.accepting.lock().unwrap().push(accept.abort_handle());
        fake
    }

    /// A metadata server whose files have a copy on each of these.
    pub async fn mirrored(data_servers: Vec<Fake>) -> Fake {
        for (index, ds) in data_servers.iter().enumerate() {
            ds.lock().object_stateid = Some(flex::stateid(index));
        }
        let fake = Fake::start(data_servers).await;
        fake.lock().mirrors = Some(Mirrors::default());
        fake.lock().layout_types = vec![LayoutType::FLEX_FILES.0];
        fake
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn fault(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    /// Sends the replies kept back.
    pub fn release(&self) {
        for (to, reply) in self.lock().held.drain(..) {
            to.send(reply).unwrap();
        }
    }

    /// Opens that were not closed.
    pub fn opens(&self) -> usize {
        self.lock().opens.len()
    }

    /// Layouts that were not returned.
    pub fn layouts(&self) -> usize {
        self.lock().layouts.len()
    }

    /// How often an operation was executed.
    pub fn count(&self, op: OpNum) -> usize {
        self.lock().count(op)
    }

    /// The process dies and comes back: sessions, clients, opens and undurable data are gone.
    pub fn restart(&self) {
        let mut s = self.lock();
        s.sessions.clear();
        s.clients.clear();
        s.opens.clear();
        s.layouts.clear();
        s.lose_data();
    }

    /// The process dies and stays dead: connections end, nothing listens.
    pub fn kill(&self) {
        self.accepting.lock().unwrap().iter().for_each(AbortHandle::abort);
    }

    /// Connections end.
    pub fn hang_up(&self) {
        self.accepting.lock().unwrap().drain(1..).for_each(|connection| connection.abort());
    }

    /// Waits until the condition holds; it is looked at after every request.
    pub async fn until(&self, what: &str, condition: impl Fn(&State) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if condition(&self.lock()) {
                    return;
                }
                changed.await;
            }
        };
        let limit = std::time::Duration::from_secs(20);
        tokio::time::timeout(limit, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    /// Recalls the layout of a file over the back channel.
    pub fn recall(&self, fh: FileHandle) {
        let mut s = self.lock();
        let sessionid = *s.sessions.keys().next().unwrap();
        s.cb_sequence += 1;
        let mut w = Writer::new();
        let header = CallHeader {
            program: weft_client::core::CB_PROGRAM,
            version: CB_VERSION,
            procedure: CB_PROC_COMPOUND,
            credential: OpaqueAuth::NONE,
            verifier: OpaqueAuth::NONE,
        };
        weft_xdr::rpc::call(&mut w, 77, &header);
        CbCompoundHeader { tag: Default::default(), minorversion: 2, callback_ident: 0, count: 2 }
            .encode(&mut w);
        CbOp::Sequence(CbSequenceArgs {
            sessionid,
            sequenceid: SequenceId(s.cb_sequence),
            slotid: SlotId(0),
            highest_slotid: SlotId(0),
            cachethis: false,
            referring_call_lists: NoReferringCalls,
        })
        .encode(&mut w);
        let stateid = Stateid { seqid: weft_nfs::Seqid(2), other: [7; 12] };
        CbOp::Layoutrecall(CbLayoutrecallArgs {
            layout_type: LayoutType::NFSV4_1_FILES,
            iomode: weft_nfs::IoMode::ANY,
            changed: false,
            recall: LayoutRecall::File { fh, offset: 0, length: u64::MAX, stateid },
        })
        .encode(&mut w);
        s.back.as_ref().unwrap().send(w.into_segments()).unwrap();
    }

    async fn accept(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            self.lock().connections += 1;
            let task = tokio::spawn(self.clone().serve(stream));
            self.accepting.lock().unwrap().push(task.abort_handle());
        }
    }

    async fn serve(self, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let (read, write) = stream.into_split();
        let (to, mut queue) = mpsc::unbounded_channel::<Vec<Segment>>();
        let mut reader = RecordReader::new(read, 8 << 20);
        let mut sender = RecordSender::new(write);
        loop {
            tokio::select! {
                Some(message) = queue.recv() => {
                    if sender.send(message).await.is_err() { return }
                }
                record = reader.next() => {
                    let Ok(Some(record)) = record else { return };
                    let keep = self.handle(record, &to);
                    self.changed.notify_waiters();
                    if !keep { return }
                }
            }
        }
    }

    /// Executes a message; false ends the connection.
    fn handle(&self, record: Bytes, to: &mpsc::UnboundedSender<Vec<Segment>>) -> bool {
        let mut r = Reader::new(record);
        match Message::decode(&mut r).unwrap() {
            Message::Call(xid, header) => {
                let which = (header.program, header.version, header.procedure);
                assert_eq!(which, (NFS_PROGRAM, NFS_V4, PROC_COMPOUND));
                let (body, hold) = {
                    let mut s = self.lock();
                    let Some(body) = s.compound(r, to) else { return false };
                    (body, std::mem::take(&mut s.holding))
                };
                let mut w = Writer::new();
                weft_xdr::rpc::reply(&mut w, xid, &Reply::Success);
                w.append([Segment::Bytes(body)]);
                if hold {
                    self.lock().held.push((to.clone(), w.into_segments()));
                    return true;
                }
                to.send(w.into_segments()).is_ok()
            }
            Message::Reply(_, Reply::Success) => {
                let reply = CbReply::decode(&mut r).unwrap();
                self.lock().cb_replies.push(reply);
                true
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Bytes that differ everywhere.
pub fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8 ^ salt as u8).collect()
}
