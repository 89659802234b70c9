//! A connection that can send any bytes, and takes callbacks as they come.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use bytes::Bytes;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream, tcp::OwnedWriteHalf},
    sync::mpsc,
    time::timeout,
};
use weft_io::RecordReader;
use weft_nfs::{
    Attrs, NFS_PROGRAM, NFS_V4, OpArgs, PROC_COMPOUND, Stateid,
    callback::{
        CbBody, CbCompoundHeader, CbOffloadArgs, CbOp, CbOpNum, CbReply, CbSequenceOk, LayoutRecall,
    },
    encode_compound_header,
};
use weft_xdr::{
    Decode, Encode, Reader, Writer, record,
    rpc::{self, AuthFlavor, AuthSys, CallHeader, Message, OpaqueAuth},
};

use super::{PATIENCE, Reply};

/// Longest record a client of ours takes.
const RECORD_BYTES_MAX: usize = 8 << 20;

enum Incoming {
    Reply(u32, rpc::Reply, Bytes),
    Call(u32, Bytes),
}

/// A connection to a server.
pub struct Wire {
    write: OwnedWriteHalf,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    replies: HashMap<u32, (rpc::Reply, Bytes)>,
    calls: Vec<(u32, Bytes)>,
    xid: u32,
}

/// A callback that waits for its answer.
#[derive(Debug)]
pub struct Callback {
    pub xid: u32,
    pub head: CbCompoundHeader,
    pub ops: Vec<CbOp>,
}

impl Callback {
    fn read(xid: u32, args: Bytes) -> Callback {
        let mut r = Reader::new(args);
        let head = CbCompoundHeader::decode(&mut r).unwrap();
        let ops = (0..head.count).map(|_| CbOp::decode(&mut r).unwrap()).collect();
        r.finish().unwrap();
        Callback { xid, head, ops }
    }

    /// The stateid of the layout that is recalled.
    pub fn recalled(&self) -> Stateid {
        let Some(CbOp::Layoutrecall(a)) = self.ops.get(1) else { panic!("no recall: {self:?}") };
        let LayoutRecall::File { stateid, .. } = &a.recall else { panic!("{a:?}") };
        *stateid
    }

    /// What it says of the end of a copy.
    pub fn offload(&self) -> &CbOffloadArgs {
        let Some(CbOp::Offload(a)) = self.ops.get(1) else { panic!("no offload: {self:?}") };
        a
    }
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> Wire {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    /// From another address of this host.
    pub async fn connect_from(from: [u8; 4], address: SocketAddr) -> Wire {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        Self::over(socket.connect(address).await.unwrap())
    }

    pub fn over(stream: TcpStream) -> Wire {
        stream.set_nodelay(true).unwrap();
        let (read, write) = stream.into_split();
        let (tx, incoming) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut records = RecordReader::new(read, RECORD_BYTES_MAX);
            while let Ok(Some(record)) = records.next().await {
                let mut r = Reader::new(record);
                let message = match Message::decode(&mut r).expect("a server sends RPC messages") {
                    Message::Reply(xid, reply) => Incoming::Reply(xid, reply, r.rest()),
                    Message::Call(xid, _) => Incoming::Call(xid, r.rest()),
                    Message::CallOfWrongVersion(_) => panic!("a call of another RPC version"),
                };
                if tx.send(message).is_err() {
                    return;
                }
            }
        });
        Wire { write, incoming, replies: HashMap::new(), calls: Vec::new(), xid: 0 }
    }

    /// Sends bytes as they are. That the server has closed is not an error here.
    pub async fn raw(&mut self, bytes: &[u8]) {
        let _ = self.write.write_all(bytes).await;
    }

    /// Sends bytes as one record.
    pub async fn record(&mut self, bytes: &[u8]) {
        let mut whole = record::header(bytes.len()).to_vec();
        whole.extend_from_slice(bytes);
        self.raw(&whole).await;
    }

    /// Sends a call; its transaction id.
    pub async fn call(&mut self, header: &CallHeader, args: &[u8]) -> u32 {
        self.xid += 1;
        let mut w = Writer::new();
        rpc::call(&mut w, self.xid, header);
        w.raw(args);
        self.record(&w.into_bytes()).await;
        self.xid
    }

    /// Sends a COMPOUND given by its arguments' bytes.
    pub async fn send_compound(&mut self, credential: &OpaqueAuth, args: &[u8]) -> u32 {
        self.call(&nfs_call(credential), args).await
    }

    /// Sends a COMPOUND and waits for its reply.
    pub async fn compound(&mut self, credential: &OpaqueAuth, minor: u32, ops: &[OpArgs]) -> Reply {
        let xid = self.send_compound(credential, &compound_args("", minor, ops)).await;
        self.nfs_reply(xid).await
    }

    /// Waits for the reply of an executed COMPOUND.
    pub async fn nfs_reply(&mut self, xid: u32) -> Reply {
        let (reply, body) = self.reply(xid).await;
        assert_eq!(reply, rpc::Reply::Success);
        Reply::new(body)
    }

    /// Waits for a reply.
    pub async fn reply(&mut self, xid: u32) -> (rpc::Reply, Bytes) {
        self.reply_or_end(xid).await.expect("the connection ended")
    }

    /// Waits for a reply, or the end of the connection.
    pub async fn reply_or_end(&mut self, xid: u32) -> Option<(rpc::Reply, Bytes)> {
        loop {
            if let Some(reply) = self.replies.remove(&xid) {
                return Some(reply);
            }
            self.next().await?;
        }
    }

    /// The reply of an executed COMPOUND, if it comes in this time; else it is waited for again.
    pub async fn reply_within(&mut self, xid: u32, patience: Duration) -> Option<Reply> {
        timeout(patience, self.nfs_reply(xid)).await.ok()
    }

    /// Takes what has come, without waiting.
    pub fn poll(&mut self) {
        while let Ok(incoming) = self.incoming.try_recv() {
            self.keep(incoming);
        }
    }

    /// Waits for a callback.
    pub async fn callback(&mut self) -> Callback {
        while self.calls.is_empty() {
            self.next().await.expect("the connection ended");
        }
        let (xid, args) = self.calls.remove(0);
        Callback::read(xid, args)
    }

    /// The callbacks that came with the replies waited for.
    pub fn callbacks_here(&mut self) -> Vec<Callback> {
        self.calls.drain(..).map(|(xid, args)| Callback::read(xid, args)).collect()
    }

    /// Answers a callback of two operations: CB_SEQUENCE with success, the other with `status`.
    pub async fn answer(&mut self, callback: &Callback, status: weft_nfs::NfsStat) {
        self.answer_with(callback, status, CbBody::Empty).await;
    }

    /// Answers CB_GETATTR: the file is so long, and was changed so often.
    pub async fn tell(&mut self, callback: &Callback, size: u64, change: u64) {
        let attrs = Attrs { size: Some(size), change: Some(change), ..Attrs::default() };
        let body = CbBody::Getattr(Box::new(attrs));
        self.answer_with(callback, weft_nfs::NfsStat::OK, body).await;
    }

    async fn answer_with(&mut self, callback: &Callback, status: weft_nfs::NfsStat, body: CbBody) {
        let Some(CbOp::Sequence(a)) = callback.ops.first() else { panic!("no CB_SEQUENCE") };
        let sequence = CbSequenceOk {
            sessionid: a.sessionid,
            sequenceid: a.sequenceid,
            slotid: a.slotid,
            highest_slotid: a.highest_slotid,
            target_highest_slotid: a.highest_slotid,
        };
        let results = vec![
            (CbOpNum::CB_SEQUENCE, weft_nfs::NfsStat::OK, CbBody::Sequence(sequence)),
            (number(&callback.ops), status, body),
        ];
        let mut w = Writer::new();
        rpc::reply(&mut w, callback.xid, &rpc::Reply::Success);
        CbReply { status, results }.encode(&mut w);
        self.record(&w.into_bytes()).await;
    }

    /// Waits until the server closes the connection.
    pub async fn closed(&mut self) {
        while self.next().await.is_some() {}
    }

    async fn next(&mut self) -> Option<()> {
        let incoming = timeout(PATIENCE, self.incoming.recv()).await.expect("no answer in time");
        self.keep(incoming?);
        Some(())
    }

    fn keep(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Reply(xid, reply, body) => drop(self.replies.insert(xid, (reply, body))),
            Incoming::Call(xid, args) => self.calls.push((xid, args)),
        }
    }
}

/// The header of a COMPOUND call.
pub fn nfs_call(credential: &OpaqueAuth) -> CallHeader {
    CallHeader {
        program: NFS_PROGRAM,
        version: NFS_V4,
        procedure: PROC_COMPOUND,
        credential: credential.clone(),
        verifier: OpaqueAuth::NONE,
    }
}

/// An AUTH_SYS credential.
pub fn user(uid: u32, gid: u32) -> OpaqueAuth {
    user_with_groups(uid, gid, Vec::new())
}

/// One with supplementary groups.
pub fn user_with_groups(uid: u32, gid: u32, gids: Vec<u32>) -> OpaqueAuth {
    let sys = AuthSys { stamp: 0, machine: Bytes::from_static(b"test"), uid, gid, gids };
    OpaqueAuth { flavor: AuthFlavor::SYS, body: weft_xdr::to_bytes(&sys) }
}

/// The arguments of a COMPOUND.
pub fn compound_args(tag: &str, minor: u32, ops: &[OpArgs]) -> Bytes {
    let mut w = Writer::new();
    encode_compound_header(&mut w, tag, minor, ops.len());
    ops.iter().for_each(|op| op.encode(&mut w));
    w.into_bytes()
}

/// The number of a callback's second operation.
fn number(ops: &[CbOp]) -> CbOpNum {
    match ops.get(1) {
        Some(CbOp::Layoutrecall(_)) => CbOpNum::CB_LAYOUTRECALL,
        Some(CbOp::Recall(_)) => CbOpNum::CB_RECALL,
        Some(CbOp::Getattr(_)) => CbOpNum::CB_GETATTR,
        Some(CbOp::NotifyLock(_)) => CbOpNum::CB_NOTIFY_LOCK,
        Some(CbOp::Offload(_)) => CbOpNum::CB_OFFLOAD,
        other => panic!("{other:?}"),
    }
}
