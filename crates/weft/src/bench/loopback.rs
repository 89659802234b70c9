//! Plain TCP over the loopback interface, memory to memory: what no protocol can beat here.
//!
//! Two processes with four threads each, as a client and four data servers have them; blocking
//! sockets, 1 MiB a call, the data thrown away.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use super::{
    Context, Outcome,
    process::Process,
    report::{Cpu, MIB, Row, Sample},
};

/// Connections, a thread at either end of each.
const CONNECTIONS: u64 = 4;
/// Bytes of one call.
const CALL_BYTES: usize = 1 << 20;

/// Which way the bytes go, seen from the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    In,
}

/// Measures both directions.
pub(super) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let bytes = if context.quick { 1 << 30 } else { 4 << 30 };
    let peer = Peer::start()?;
    let (mut out, mut into) = (Vec::new(), Vec::new());
    for _ in 0..context.repeats {
        out.push(peer.measure(Way::Out, bytes)?);
        into.push(peer.measure(Way::In, bytes)?);
    }
    Ok(vec![
        Row::new("4 connections, sending", "MiB/s", &out),
        Row::new("4 connections, receiving", "MiB/s", &into),
    ])
}

/// The process at the other end.
pub(super) struct Peer {
    child: Child,
    address: SocketAddr,
}

impl Peer {
    /// Starts it.
    pub(super) fn start() -> Outcome<Peer> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "--loopback-peer"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(Peer { child, address: line.trim().parse()? })
    }

    /// Moves so many bytes over all connections together.
    pub(super) fn measure(&self, way: Way, bytes: u64) -> Outcome<Sample> {
        let (own, far) = (Process::own(), Process::new(self.child.id()));
        let (own_before, far_before) = (own.cpu_s()?, far.cpu_s()?);
        let started = Instant::now();
        let each = bytes / CONNECTIONS;
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let address = self.address;
                thread::spawn(move || one(address, way, each))
            })
            .collect();
        for t in threads {
            t.join().map_err(|_| "a thread of the loopback benchmark panicked")??;
        }
        let wall_s = started.elapsed().as_secs_f64();
        let client_s = own.cpu_s()? - own_before;
        let cpu = Cpu { server_s: far.cpu_s()? - far_before, client_s };
        Ok(Sample::rate(bytes as f64 / MIB, wall_s, cpu))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection: the direction, the length, the bytes, and one byte back when all have come.
fn one(address: SocketAddr, way: Way, bytes: u64) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(&[u8::from(way == Way::Out)])?;
    stream.write_all(&bytes.to_be_bytes())?;
    match way {
        Way::Out => {
            send(&mut stream, bytes)?;
            stream.read_exact(&mut [0])
        }
        Way::In => receive(&mut stream, bytes),
    }
}

/// Serves connections until the process that started us is gone.
pub(super) fn peer() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                if let Err(e) = answer(stream) {
                    eprintln!("weft: loopback peer: {e}");
                }
            });
        }
    });
    std::io::stdin().read_exact(&mut [0]).or(Ok(()))
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut sends, mut bytes) = ([0], [0; 8]);
    stream.read_exact(&mut sends)?;
    stream.read_exact(&mut bytes)?;
    let bytes = u64::from_be_bytes(bytes);
    if sends == [0] {
        return send(&mut stream, bytes);
    }
    receive(&mut stream, bytes)?;
    stream.write_all(&[1])
}

fn send(stream: &mut TcpStream, bytes: u64) -> std::io::Result<()> {
    let data = vec![7; CALL_BYTES];
    let mut left = bytes;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(CALL_BYTES).min(CALL_BYTES);
        stream.write_all(&data[..now])?;
        left -= now as u64;
    }
    Ok(())
}

fn receive(stream: &mut TcpStream, bytes: u64) -> std::io::Result<()> {
    let mut data = vec![0; CALL_BYTES];
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CALL_BYTES).min(CALL_BYTES);
        let got = stream.read(&mut data[..most])?;
        if got == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left -= got as u64;
    }
    Ok(())
}
