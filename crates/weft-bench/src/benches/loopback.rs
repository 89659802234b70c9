//! Plain TCP over the loopback interface, memory to memory: what no protocol can beat here.
//!
//! Two processes with four threads each, as a client and four data servers have them; blocking
//! sockets, 1 MiB a call, the data thrown away, or written to a file for each connection: what a
//! copy through a socket costs without any protocol. Or the data are in files, sent by `sendfile`,
//! and are read into more memory than a processor's caches hold: what reading files through a
//! socket costs, whoever reads them.

use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use crate::{
    context::Context,
    outcome::Outcome,
    process::Process,
    report::{Cpu, MIB, Row, Sample},
};

/// Connections, a thread at either end of each.
const CONNECTIONS: u64 = 4;
/// Bytes of one call.
const CALL_BYTES: usize = 1 << 20;
/// Memory of all connections into which files are read.
const REGION_BYTES: usize = 64 << 20;

/// What a connection asks of the peer.
const SEND: u8 = 0;
const RECEIVE: u8 = 1;
const SEND_FILE: u8 = 2;

/// Which way the bytes go, seen from the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Out,
    In,
}

/// Measures both directions.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let bytes = if context.quick { 1 << 30 } else { 4 << 30 };
    let peer = Peer::start()?;
    let (mut out, mut into) = (Vec::new(), Vec::new());
    for _ in 0..context.repeats {
        out.push(peer.measure(Direction::Out, bytes, None)?);
        into.push(peer.measure(Direction::In, bytes, None)?);
    }
    Ok(vec![
        Row::new("4 connections, sending", "MiB/s", &out),
        Row::new("4 connections, receiving", "MiB/s", &into),
    ])
}

/// The process at the other end.
pub(crate) struct Peer {
    child: Child,
    address: SocketAddr,
}

impl Peer {
    /// Starts the process.
    pub(crate) fn start() -> Outcome<Peer> {
        Peer::start_as("--loopback-peer")
    }

    /// Starts this program as what an option makes it, which is to [`serve`].
    pub(crate) fn start_as(option: &str) -> Outcome<Peer> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(option)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(Peer { child, address: line.trim().parse()? })
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(self.address)
    }

    /// What it costs.
    pub(crate) fn process(&self) -> Process {
        Process::new(self.child.id())
    }

    /// Moves `bytes` bytes over all connections together; the receiver writes them to files in
    /// the directory, if there is one.
    pub(crate) fn measure(
        &self,
        direction: Direction,
        bytes: u64,
        dir: Option<&Path>,
    ) -> Outcome<Sample> {
        let (address, each) = (self.address, bytes / CONNECTIONS);
        let files: Vec<Option<PathBuf>> =
            (0..CONNECTIONS).map(|n| dir.map(|d| d.join(format!("received-{n}")))).collect();
        let all = files.iter().cloned();
        let sample = self.sample(
            bytes,
            all.map(|file| move || one(address, direction, each, file.as_deref())).collect(),
        )?;
        files.iter().flatten().try_for_each(std::fs::remove_file)?;
        Ok(sample)
    }

    /// Receives `bytes` bytes over all connections together, out of files that are made in the
    /// directory first and gone afterwards, into memory that is used again.
    pub(crate) fn measure_files(&self, bytes: u64, dir: &Path) -> Outcome<Sample> {
        let (address, each) = (self.address, bytes / CONNECTIONS);
        let files: Vec<PathBuf> = (0..CONNECTIONS).map(|n| dir.join(format!("sent-{n}"))).collect();
        for file in &files {
            std::io::copy(&mut std::io::repeat(7).take(each), &mut File::create(file)?)?;
        }
        let all = files.iter().cloned().map(|file| {
            let mut memory = vec![1; REGION_BYTES / CONNECTIONS as usize];
            move || receive_file(address, &file, each, &mut memory)
        });
        let sample = self.sample(bytes, all.collect())?;
        files.iter().try_for_each(std::fs::remove_file)?;
        Ok(sample)
    }

    /// What it takes to move so many bytes by these, a thread each.
    fn sample<W: FnOnce() -> std::io::Result<()> + Send + 'static>(
        &self,
        bytes: u64,
        all: Vec<W>,
    ) -> Outcome<Sample> {
        let (own, far) = (Process::own(), self.process());
        let (own_before, far_before) = (own.cpu_s()?, far.cpu_s()?);
        let started = Instant::now();
        let threads: Vec<_> = all.into_iter().map(thread::spawn).collect();
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

/// One connection: the direction, the length, the name of the file or none, the bytes, and one
/// byte back when all have come.
fn one(
    address: SocketAddr,
    direction: Direction,
    bytes: u64,
    file: Option<&Path>,
) -> std::io::Result<()> {
    match direction {
        Direction::Out => {
            let mut stream = ask(address, RECEIVE, bytes, file)?;
            send(&mut stream, bytes)?;
            stream.read_exact(&mut [0])
        }
        Direction::In => receive(&mut ask(address, SEND, bytes, file)?, bytes, file),
    }
}

/// One connection that sends a file, which is read into memory.
fn receive_file(
    address: SocketAddr,
    file: &Path,
    bytes: u64,
    memory: &mut [u8],
) -> std::io::Result<()> {
    let mut stream = ask(address, SEND_FILE, bytes, Some(file))?;
    let (mut left, mut at) = (bytes, 0);
    while left > 0 {
        let end = memory.len().min(at + CALL_BYTES);
        let got = stream.read(memory.get_mut(at..end).unwrap_or_default())?;
        if got == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left -= got as u64;
        at = (at + got) % memory.len();
    }
    Ok(())
}

/// A connection, and what is to come over it.
fn ask(
    address: SocketAddr,
    what: u8,
    bytes: u64,
    file: Option<&Path>,
) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    let name = file.map_or(&b""[..], |f| f.as_os_str().as_bytes());
    stream.write_all(&[what])?;
    stream.write_all(&bytes.to_be_bytes())?;
    stream.write_all(&(name.len() as u64).to_be_bytes())?;
    stream.write_all(name)?;
    Ok(stream)
}

/// Is the other end of this benchmark.
pub(crate) fn peer() -> Outcome {
    serve(answer)
}

/// Answers each connection on a thread of its own until the process that started us is gone.
pub(crate) fn serve(answer: fn(TcpStream) -> std::io::Result<()>) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                if let Err(e) = answer(stream) {
                    eprintln!("weft-bench: loopback peer: {e}");
                }
            });
        }
    });
    std::io::stdin().read_exact(&mut [0]).or(Ok(()))
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut what = [0];
    stream.read_exact(&mut what)?;
    let bytes = number(&mut stream)?;
    let mut name = Vec::new();
    let name_bytes = number(&mut stream)?;
    (&mut stream).take(name_bytes).read_to_end(&mut name)?;
    let file = (!name.is_empty()).then(|| Path::new(OsStr::from_bytes(&name)));
    match (what, file) {
        ([SEND], _) => return send(&mut stream, bytes),
        ([SEND_FILE], Some(file)) => {
            // By sendfile.
            return std::io::copy(&mut File::open(file)?.take(bytes), &mut stream).map(drop);
        }
        _ => receive(&mut stream, bytes, file)?,
    }
    stream.write_all(&[1])
}

/// The next eight bytes, as a number.
pub(crate) fn number(stream: &mut TcpStream) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
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

fn receive(stream: &mut TcpStream, bytes: u64, file: Option<&Path>) -> std::io::Result<()> {
    let mut file = file.map(File::create).transpose()?;
    let mut data = vec![0; CALL_BYTES];
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CALL_BYTES).min(CALL_BYTES);
        let got = match &mut file {
            // Whole blocks, as a server gets them.
            Some(file) => {
                stream.read_exact(&mut data[..most])?;
                file.write_all(&data[..most])?;
                most
            }
            None => stream.read(&mut data[..most])?,
        };
        if got == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left -= got as u64;
    }
    Ok(())
}
