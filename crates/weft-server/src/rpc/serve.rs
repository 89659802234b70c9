//! Accepting connections and running their calls.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream, tcp::OwnedWriteHalf},
    runtime::Handle,
    sync::{Semaphore, mpsc},
    time::{Instant, Interval, interval_at},
};
use weft_io::SealRecords;
use weft_state::{ConnId, Host};
use weft_xdr::{
    Decode, Reader, Segment, Writer,
    rpc::{self, AuthFlavor, AuthSys, CallHeader, Message, OpaqueAuth, Reply, auth_stat},
};

use super::{
    Answer, Call, Caller, Connections, Program,
    conn::{Conn, OUT_QUEUE_MAX, Outgoing, ReplyBudget},
    hosts::{ConnectionPermit, Hosts, ServerLimits},
    incoming::Incoming,
    owner,
};

/// Calls of one connection that run at once; a Linux client has 64 slots.
const CALLS_PER_CONN_MAX: usize = 128;
/// Request bytes of one connection that are in memory at once.
const REQUEST_BYTES_PER_CONN_MAX: usize = 16 << 20;
/// How long accepting pauses after an error (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A peer that takes longer than this to read one reply is gone, or might as well be. It has less
/// time while others wait for the room of a large one ([`ServerLimits::reply_patience`]).
const STALL: Duration = Duration::from_secs(120);

/// Connection names are unique in the process, whatever server they belong to.
static NEXT_CONN: AtomicU64 = AtomicU64::new(1);

/// The runtimes that connections are spread over, one thread each.
#[derive(Debug, Clone)]
pub struct Workers(Arc<Vec<Handle>>);

impl Workers {
    /// Starts `count` threads named `name`, each with its own single-threaded runtime. They live
    /// until the process ends.
    ///
    /// # Errors
    /// The system refuses a thread or an event queue.
    pub fn start(name: &str, count: usize) -> io::Result<Workers> {
        let mut handles = Vec::with_capacity(count);
        for i in 0..count.max(1) {
            let rt = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            handles.push(rt.handle().clone());
            std::thread::Builder::new()
                .name(format!("{name}-{i}"))
                .spawn(move || rt.block_on(std::future::pending::<()>()))?;
        }
        Ok(Workers(Arc::new(handles)))
    }

    /// The worker for the n-th piece of work.
    pub fn pick(&self, n: u64) -> &Handle {
        let i = usize::try_from(n % self.0.len() as u64).unwrap_or(0);
        &self.0[i]
    }
}

impl From<Handle> for Workers {
    /// One runtime that somebody else started, drives, and ends.
    fn from(runtime: Handle) -> Workers {
        Workers(Arc::new(vec![runtime]))
    }
}

/// Closes a connection when a handler panics: its client must not wait for an answer for ever.
struct EndsWithPanic<'a>(&'a Conn);

impl Drop for EndsWithPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

/// RPC programs served on one port.
pub struct Server {
    programs: Vec<Arc<dyn Program>>,
    connections: Connections,
    hosts: Arc<Hosts>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("connections", &self.connections.count()).finish()
    }
}

impl Server {
    /// A server of these programs; `connections` is where they find connections to call back.
    pub fn new(
        programs: Vec<Arc<dyn Program>>,
        connections: Connections,
        limits: ServerLimits,
    ) -> Arc<Server> {
        Arc::new(Server { programs, connections, hosts: Hosts::new(limits) })
    }

    /// Accepts connections for ever, spreading them over the workers.
    pub async fn accept(self: Arc<Self>, listener: TcpListener, workers: Workers) {
        let room = Arc::new(Semaphore::new(self.hosts.limits().connections_max));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            let accepted = listener.accept().await.and_then(|(s, peer)| Ok((s.into_std()?, peer)));
            let (stream, peer) = match accepted {
                Ok(x) => x,
                Err(e) => {
                    tracing::warn!(error = %e, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(place) = self.hosts.enter(Host::from(peer.ip())) else {
                tracing::debug!(%peer, "its host has too many connections: closing");
                continue;
            };
            let id = NEXT_CONN.fetch_add(1, Relaxed);
            let server = self.clone();
            workers.pick(id).spawn(async move {
                let _permit = permit;
                match TcpStream::from_std(stream) {
                    Ok(stream) => server.connection(ConnId(id), stream, peer, place).await,
                    Err(e) => tracing::warn!(%peer, error = %e, "cannot use a connection"),
                }
            });
        }
    }

    async fn connection(
        self: Arc<Self>,
        id: ConnId,
        stream: TcpStream,
        peer: SocketAddr,
        place: ConnectionPermit,
    ) {
        let Ok(local) = stream.local_addr() else { return };
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!(%peer, error = %e, "no TCP_NODELAY");
        }
        if let Err(e) = keep_alive(&stream) {
            tracing::debug!(%peer, error = %e, "no keepalive");
        }
        let owner = owner::of_peer(&stream);
        let (read, write) = stream.into_split();
        let (out, queue) = mpsc::channel(OUT_QUEUE_MAX);
        let conn = Arc::new(Conn::new(id, (peer, local), owner, out, place.replies()));
        self.connections.insert(&conn);
        tokio::spawn(write_loop(conn.clone(), write, queue));
        let mut incoming = Incoming::new(read, &self.programs);
        let calls = Arc::new(Semaphore::new(CALLS_PER_CONN_MAX));
        let bytes = Arc::new(Semaphore::new(REQUEST_BYTES_PER_CONN_MAX));
        let idle_limit = self.hosts.limits().idle;
        let mut idle = interval_at(Instant::now() + idle_limit, idle_limit);
        loop {
            let record = tokio::select! {
                r = incoming.next(&conn, &place) => r,
                () = conn.closing() => break,
                () = self.unheld(&conn, &mut idle) => {
                    tracing::debug!(%peer, "nobody known for too long: closing");
                    break;
                }
            };
            let (record, record_room) = match record {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(e) => {
                    tracing::debug!(%peer, error = %e, "connection ends");
                    break;
                }
            };
            // Before waiting for room: the calls that fill it may be waiting for this very reply.
            if !self.is_call(&conn, &record) {
                continue;
            }
            let weight = u32::try_from(record.len()).unwrap_or(u32::MAX);
            let room = (calls.clone().acquire_owned(), bytes.clone().acquire_many_owned(weight));
            let (Ok(call_room), Ok(byte_room)) = (room.0.await, room.1.await) else { break };
            let server = self.clone();
            let task_conn = conn.clone();
            tokio::spawn(async move {
                let _ends = EndsWithPanic(&task_conn);
                server.answer(task_conn.clone(), record).await;
                drop((call_room, byte_room, record_room));
            });
            // The call begins before the next one is read: so connections of one thread take
            // turns, however many calls one of them sends at once. Tokio asks the system for events
            // before it goes on after this; who sends one call at a time is spared that.
            if incoming.may_have_more() {
                tokio::task::yield_now().await;
            }
        }
        conn.close();
        conn.fail_pending();
        self.connections.remove(id);
        self.programs.iter().for_each(|p| p.closed(&conn));
    }

    /// Resolves when no program holds a connection at the end of an idle time.
    async fn unheld(&self, conn: &Conn, idle: &mut Interval) {
        loop {
            idle.tick().await;
            if !self.programs.iter().any(|p| p.holds(conn)) {
                return;
            }
        }
    }

    /// Replies to our callbacks are handed over at once; everything else is a call (or garbage,
    /// found out when it is answered).
    fn is_call(&self, conn: &Conn, record: &Bytes) -> bool {
        if record.get(4..8) != Some(&[0, 0, 0, 1]) {
            return true;
        }
        let mut r = Reader::new(record.clone());
        match Message::decode(&mut r) {
            Ok(Message::Reply(xid, reply)) => conn.answered(xid, reply, r),
            _ => conn.close(),
        }
        false
    }

    async fn answer(&self, conn: Arc<Conn>, record: Bytes) {
        let request_bytes = record.len();
        let mut args = Reader::new(record);
        let (xid, answer) = match Message::decode(&mut args) {
            Ok(Message::Call(xid, header)) => {
                (xid, self.dispatch(&conn, header, args, request_bytes).await)
            }
            Ok(Message::CallOfWrongVersion(xid)) => (xid, Err(Reply::RpcMismatch)),
            Ok(Message::Reply(..)) | Err(_) => {
                tracing::debug!(peer = %conn.peer, "not an RPC call: closing");
                return conn.close();
            }
        };
        let mut w = Writer::new();
        let mut room = Vec::new();
        match answer {
            Ok(Some((results, taken))) => {
                rpc::reply(&mut w, xid, &Reply::Success);
                w.append(results);
                room = taken;
            }
            Ok(None) => return conn.close(),
            Err(refusal) => rpc::reply(&mut w, xid, &refusal),
        }
        // A closed queue means the connection is gone: the client will ask again on another.
        let _ = conn.out.send(Outgoing { segments: w.into_segments(), room, seal: None }).await;
    }

    async fn dispatch(
        &self,
        conn: &Arc<Conn>,
        header: CallHeader,
        args: Reader,
        request_bytes: usize,
    ) -> Result<Option<(Vec<Segment>, Vec<ReplyBudget>)>, Reply> {
        let secure = conn.peer_name().is_some();
        let serves = |p: &&Arc<dyn Program>| p.program() == header.program;
        let program = self.programs.iter().filter(|p| p.is_secure() == secure).find(serves);
        let program = program.ok_or(Reply::ProgUnavail)?;
        if header.version != program.version() {
            return Err(Reply::ProgMismatch(program.version(), program.version()));
        }
        if header.procedure == 0 {
            return Ok(Some((Vec::new(), Vec::new())));
        }
        let caller = caller(&header.credential)?;
        let call = Call { conn: conn.clone(), header, caller, request_bytes, args };
        match program.call(call).await {
            Answer::Results(results, room) => Ok(Some((results, room))),
            Answer::ProcUnavail => Err(Reply::ProcUnavail),
            Answer::GarbageArgs => Err(Reply::GarbageArgs),
            Answer::Close => Ok(None),
        }
    }
}

/// Who calls; other flavors than AUTH_NONE and AUTH_SYS are too weak or unknown here.
fn caller(credential: &OpaqueAuth) -> Result<Caller, Reply> {
    match credential.flavor {
        AuthFlavor::NONE => Ok(Caller::nobody()),
        AuthFlavor::SYS => {
            let sys: AuthSys = weft_xdr::from_bytes(credential.body.clone())
                .map_err(|_| Reply::AuthError(auth_stat::BADCRED))?;
            Ok(Caller { uid: sys.uid, gid: sys.gid, gids: sys.gids, known: true })
        }
        _ => Err(Reply::AuthError(auth_stat::TOOWEAK)),
    }
}

/// A peer that lost power is noticed, and its connection's room given to others.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    socket.set_tcp_keepalive(&probes)
}

/// Silence after which a peer is asked for a sign of life, and pause between such questions.
const KEEPALIVE: Duration = Duration::from_secs(30);

async fn write_loop(conn: Arc<Conn>, write: OwnedWriteHalf, mut queue: mpsc::Receiver<Outgoing>) {
    let mut sealer: Option<Box<dyn SealRecords>> = None;
    loop {
        let outgoing = tokio::select! {
            o = queue.recv() => o,
            () = conn.closing() => None,
        };
        let Some(Outgoing { segments, room, seal }) = outgoing else { return };
        let sealed = match &mut sealer {
            Some(sealer) => sealer.seal(segments).map(|record| vec![Segment::Bytes(record)]),
            None => Ok(segments),
        };
        sealer = seal.or(sealer);
        let sending = async { weft_io::send_record(write.as_ref(), sealed?).await };
        let sent = tokio::select! {
            r = tokio::time::timeout(STALL, sending) => {
                r.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
            () = held_too_long(&conn, !room.is_empty()) => Err(io::ErrorKind::TimedOut.into()),
            () = conn.closing() => return,
        };
        if let Err(e) = sent {
            tracing::debug!(peer = %conn.peer, error = %e, "cannot send");
            return conn.close();
        }
    }
}

/// Resolves when a reply that takes shared room has been on its way for too long, and others wait
/// for that room.
async fn held_too_long(conn: &Conn, takes_room: bool) {
    if !takes_room {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(conn.room.patience()).await;
        if conn.room.is_wanted() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use weft_xdr::record;

    use super::*;

    /// Who asks, and closes his side at once, is answered, however much came with it.
    #[tokio::test]
    async fn who_asks_and_ends_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::new(Vec::new(), Connections::default(), ServerLimits::default());
        let workers = Workers::from(Handle::current());
        tokio::spawn(server.accept(listener, workers));
        let mut call = Vec::new();
        for word in [1, 0, 2, 100_003, 4, 0, 0, 0, 0, 0u32] {
            call.extend(word.to_be_bytes());
        }
        let call = [&record::header(call.len())[..], &call].concat();
        for calls in [1, 2, 40].repeat(20) {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&call.repeat(calls)).await.unwrap();
            SockRef::from(&stream).shutdown(Shutdown::Write).unwrap();
            let mut answers = Vec::new();
            stream.read_to_end(&mut answers).await.unwrap();
            // PROG_UNAVAIL: a record's header and six words.
            assert_eq!(answers.len(), calls * (4 + 6 * 4));
        }
    }
}
