//! One connection and the calls over it.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Semaphore, mpsc},
    task::AbortHandle,
};
use weft_io::{Ciphers, RecordReader};
use weft_xdr::{
    Reader, Segment, Writer,
    rpc::{CallHeader, OpaqueAuth},
};

use super::{
    call_table::CallTable,
    credential::Credential,
    dial::dial,
    direct_placement::{Answer, DirectPlacement},
    error::RpcError,
    message::{IncomingCall, Outgoing},
    outbox::Outbox,
    receiver::Receiver,
};
use crate::limits;

/// How a connection is made.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Largest message accepted from the peer, in bytes.
    pub record_bytes_max: usize,
    /// Where calls from the peer go; without it they are answered PROG_UNAVAIL.
    pub incoming: Option<mpsc::Sender<IncomingCall>>,
    /// Whether to come from a privileged port, if this process may and one is free.
    pub privileged_port: bool,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            record_bytes_max: limits::RECORD_BYTES_MAX,
            incoming: None,
            privileged_port: false,
        }
    }
}

/// One connection to an RPC server. Clones share it; the last one dropped closes it.
#[derive(Debug, Clone)]
pub struct Connection {
    peer: SocketAddr,
    local: SocketAddr,
    calls: Arc<CallTable>,
    outgoing: Outbox,
    in_flight: Arc<Semaphore>,
    _tasks: Arc<Tasks>,
}

#[derive(Debug)]
struct Tasks([AbortHandle; 2]);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Connection {
    /// Connects with default options.
    ///
    /// # Errors
    /// [`RpcError::Connect`].
    pub async fn connect(addr: SocketAddr) -> Result<Connection, RpcError> {
        Self::connect_with(addr, ConnectOptions::default()).await
    }

    /// Connects; [`limits::CONNECT_TIMEOUT`] bounds the attempt.
    ///
    /// # Errors
    /// [`RpcError::Connect`].
    pub async fn connect_with(
        addr: SocketAddr,
        options: ConnectOptions,
    ) -> Result<Connection, RpcError> {
        let (stream, ends) = connect(addr, options.privileged_port).await?;
        let (read_half, write_half) = stream.into_split();
        let records = RecordReader::new(read_half, options.record_bytes_max);
        Ok(Self::over(records, write_half, ends, options.incoming, None))
    }

    /// Connects and makes the connection a secure one: sends the first record, takes the second
    /// one, and seals all that follow.
    ///
    /// # Errors
    /// [`RpcError::Connect`], [`RpcError::Lost`] if there is no second record; within, what
    /// `answered` makes of it.
    pub async fn connect_secure<T, E>(
        addr: SocketAddr,
        greeting: Bytes,
        answered: impl FnOnce(&[u8]) -> Result<(Ciphers, T), E>,
    ) -> Result<Result<(Connection, T), E>, RpcError> {
        let (stream, ends) = connect(addr, false).await?;
        let first = weft_io::send_record(&stream, vec![Segment::Bytes(greeting)]);
        first.await.map_err(RpcError::lost)?;
        let (read_half, write_half) = stream.into_split();
        let mut records = RecordReader::new(read_half, limits::RECORD_BYTES_MAX);
        let answer = records.next().await.map_err(RpcError::lost)?;
        let answer = answer.ok_or_else(|| RpcError::lost("closed by the peer"))?;
        Ok(answered(&answer).map(|(ciphers, peer)| {
            (Self::over(records, write_half, ends, None, Some(ciphers)), peer)
        }))
    }

    fn over(
        records: RecordReader<OwnedReadHalf>,
        write_half: OwnedWriteHalf,
        (local, peer): Ends,
        incoming: Option<mpsc::Sender<IncomingCall>>,
        ciphers: Option<Ciphers>,
    ) -> Connection {
        let calls = Arc::new(CallTable::new());
        let (seal, open) = ciphers.map(|c| (c.seal, c.open)).unzip();
        let (outgoing, sender) = Outbox::over(write_half, seal, calls.clone());
        let receiver = Receiver { calls: calls.clone(), replies: outgoing.weak(), incoming, open };
        let read = tokio::spawn(receiver.run(records));
        let write = tokio::spawn(sender.run());
        Connection {
            peer,
            local,
            calls,
            outgoing,
            in_flight: Arc::new(Semaphore::new(limits::CALLS_IN_FLIGHT_MAX)),
            _tasks: Arc::new(Tasks([read.abort_handle(), write.abort_handle()])),
        }
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Our address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }

    /// Replies received so far: while it grows, the peer is alive.
    pub fn replies(&self) -> u64 {
        self.calls.replies()
    }

    /// Returns once the connection has ended.
    pub async fn ended(&self) {
        self.outgoing.ended().await;
    }

    /// Calls a procedure; the reader returned stands at the results of an accepted, successful
    /// call. Dropping the future forgets the call, which may still be executed.
    ///
    /// # Errors
    /// [`RpcError`]; only after [`RpcError::Lost`] is it unknown whether the call was executed.
    pub async fn call(
        &self,
        program: u32,
        version: u32,
        procedure: u32,
        credential: &Credential,
        args: Vec<Segment>,
    ) -> Result<Reader, RpcError> {
        let procedure = (program, version, procedure);
        self.call_with_placement(procedure, credential, args, None).await.map(|a| a.results)
    }

    async fn call_with_placement(
        &self,
        (program, version, procedure): (u32, u32, u32),
        credential: &Credential,
        args: Vec<Segment>,
        placement: Option<DirectPlacement>,
    ) -> Result<Answer, RpcError> {
        for segment in &args {
            if let Segment::File(range) = segment {
                // A local disk error found here fails one call; found while sending, the
                // connection. And cold ranges of several calls are read side by side.
                let ready = weft_io::ensure_resident(range).await;
                ready.map_err(|e| RpcError::Source(e.to_string().into()))?;
            }
        }
        let _turn = self.in_flight.acquire().await.map_err(RpcError::lost)?;
        let waiting = self.calls.register(placement)?;
        let header = CallHeader {
            program,
            version,
            procedure,
            credential: credential.to_wire(),
            verifier: OpaqueAuth::NONE,
        };
        let mut w = Writer::new();
        weft_xdr::rpc::call(&mut w, waiting.xid(), &header);
        w.append(args);
        let message = Outgoing { xid: Some(waiting.xid()), segments: w.into_segments() };
        self.outgoing.send(message).await?;
        waiting.reply().await
    }
}

/// How long a peer may be silent.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// Without a reply to anything for this long, while a call waits, the peer is asked whether
    /// it is there at all.
    pub silence: Duration,
    /// It has this long to answer anything.
    pub answer: Duration,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { silence: limits::SILENCE_MAX, answer: limits::PING_LIMIT }
    }
}

/// Procedure 0 of every program: nothing in, nothing out.
const PROC_NULL: u32 = 0;

impl Connection {
    /// [`Connection::call`] of a peer that may hang without its machine being gone, which no
    /// keepalive finds out. A slow call is waited for as long as the peer answers anything.
    ///
    /// With a placement, a large payload of the reply may be put there. Once this returns, or its
    /// future is dropped, nothing is written there any more.
    ///
    /// # Errors
    /// Also [`RpcError::Lost`] when the peer hangs: the connection is closed then.
    pub async fn call_watched(
        &self,
        (program, version, procedure): (u32, u32, u32),
        credential: &Credential,
        args: Vec<Segment>,
        placement: Option<DirectPlacement>,
        watch: Watch,
    ) -> Result<Answer, RpcError> {
        let which = (program, version, procedure);
        let mut call = std::pin::pin!(self.call_with_placement(which, credential, args, placement));
        tokio::select! {
            answer = &mut call => return answer,
            () = self.silent(program, version, watch) => {}
        }
        self.calls.close(RpcError::lost("the peer does not answer"));
        call.await
    }

    /// Returns when the peer answers nothing for `watch.silence`, and then not even a NULL call for
    /// `watch.answer`. The connection is left as it is: other calls may have more patience.
    pub async fn silent(&self, program: u32, version: u32, watch: Watch) {
        loop {
            let seen = self.calls.replies();
            tokio::time::sleep(watch.silence).await;
            if self.calls.replies() != seen {
                continue;
            }
            let nobody = Credential::NONE;
            let ping = self.call(program, version, PROC_NULL, &nobody, Vec::new());
            let pinged = tokio::time::timeout(watch.answer, ping).await;
            if pinged.is_err() && self.calls.replies() == seen {
                return;
            }
            // A connection that has ended is no silence: whoever waits for a reply is told.
            if self.is_closed() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Our address on a connection, and the peer's.
type Ends = (SocketAddr, SocketAddr);

async fn connect(addr: SocketAddr, privileged_port: bool) -> Result<(TcpStream, Ends), RpcError> {
    let refused = |e: io::Error| RpcError::Connect { addr, why: e.to_string().into() };
    let dialled = dial(addr, privileged_port);
    let stream = tokio::time::timeout(limits::CONNECT_TIMEOUT, dialled)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(refused)?;
    tune(&stream).map_err(refused)?;
    let local = stream.local_addr().map_err(refused)?;
    Ok((stream, (local, addr)))
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(limits::KEEPALIVE_IDLE)
        .with_interval(limits::KEEPALIVE_INTERVAL)
        .with_retries(limits::KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(limits::USER_TIMEOUT))
}
