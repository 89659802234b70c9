//! What it costs a receiver to put payloads from four connections into a file for each: read and
//! written, spliced through a pipe, and read and written past the page cache.
//!
//! Each payload has a head, as one of WRITE has. The sender is a process of its own. A receiver's
//! own processor time leaves out what the kernel does for it later, so the time of the whole
//! machine, the sender's included, stands beside it.

use std::{
    fs::File,
    io::{self, Error, ErrorKind, Read, Write},
    net::TcpStream,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use rustix::{
    fs::{Mode, OFlags, fdatasync, open, syncfs},
    io::{Errno, retry_on_intr},
    pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice},
};

use super::loopback::{Peer, number, serve};
use crate::{
    context::{Context, alternating},
    disk::{self, BLOCK_BYTES},
    outcome::Outcome,
    process::{Machine, own_cpu_s},
    report::{Cpu, MIB, Row, Sample},
};

/// Connections, a thread at either end of each.
const CONNECTIONS: u64 = 4;
/// Bytes of all payloads together.
const BYTES: u64 = 1 << 30;
const QUICK_BYTES: u64 = 256 << 20;
/// Bytes in front of each payload.
const HEAD_BYTES: usize = 200;
/// Where memory for writing past the page cache begins.
const PAGE_BYTES: usize = 4096;

/// How payloads come from the socket into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Read into memory and written.
    Copy,
    /// Moved into a pipe and written from there.
    Splice,
    /// Read into memory and written from there by the disk.
    Direct,
}

/// The first is what the others are held against.
const WAYS: [Way; 3] = [Way::Copy, Way::Splice, Way::Direct];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Copy => "copy",
            Way::Splice => "splice",
            Way::Direct => "direct",
        }
    }

    /// A new file to be written so.
    fn create(self, path: &Path) -> Result<File, Errno> {
        let direct = if self == Way::Direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC | direct;
        open(path, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }
}

/// Measures all ways in memory and on the disk.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let bytes = if context.quick { QUICK_BYTES } else { BYTES };
    let peer = Peer::start_as("--receive-peer")?;
    let disk = Medium { name: "disk", dir: &context.disk, is_disk: true, full: None };
    let memory = Medium { name: "memory", dir: &context.memory, is_disk: false, ..disk };
    let mut rows = memory.bench(context, &peer, bytes)?;
    rows.extend(disk.bench(context, &peer, bytes)?);
    let other = OtherPages::new(&context.disk)?;
    let full = Medium { name: "disk, memory full", full: Some(&other), ..disk };
    rows.extend(full.bench(context, &peer, bytes)?);
    Ok(rows)
}

/// Where the files are.
#[derive(Debug, Clone, Copy)]
struct Medium<'a> {
    name: &'static str,
    dir: &'a Path,
    is_disk: bool,
    /// What memory is full of before, as that of a machine that has served for a day.
    full: Option<&'a OtherPages>,
}

/// A file as large as the machine's memory, without bytes of its own: who reads it fills the page
/// cache with pages that nobody misses.
#[derive(Debug)]
struct OtherPages(PathBuf);

impl OtherPages {
    fn new(dir: &Path) -> Outcome<OtherPages> {
        let info = rustix::system::sysinfo();
        let path = dir.join("other-pages");
        File::create(&path)?.set_len(info.totalram as u64 * u64::from(info.mem_unit))?;
        Ok(OtherPages(path))
    }

    fn fill(&self) -> Outcome {
        io::copy(&mut File::open(&self.0)?, &mut io::sink())?;
        Ok(())
    }
}

impl Drop for OtherPages {
    fn drop(&mut self) {
        // A scratch directory: what stays is seen.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What was measured of one way.
#[derive(Default)]
struct Samples {
    rate: Vec<Sample>,
    receiver: Vec<Sample>,
    machine: Vec<Sample>,
}

impl Medium<'_> {
    /// Every way, repeat by repeat. On the disk the first of all does not count: it makes room
    /// where the others write again.
    fn bench(&self, context: &Context, peer: &Peer, bytes: u64) -> Outcome<Vec<Row>> {
        let takes_direct = self.is_disk && takes_direct(self.dir)?;
        let ways = if takes_direct { &WAYS[..] } else { &WAYS[..2] };
        let mut samples: [Samples; WAYS.len()] = Default::default();
        let measure = |way, into: &mut Samples| {
            self.full.map_or_else(|| disk::warm(self.dir, bytes), OtherPages::fill)?;
            self.measure(peer, way, bytes, into)
        };
        if self.is_disk {
            measure(Way::Copy, &mut Samples::default())?;
        }
        for repeat in 0..context.repeats {
            for i in alternating(repeat, ways.len()) {
                measure(ways[i], &mut samples[i])?;
            }
        }
        let rows = |(way, samples): (&Way, &Samples)| self.rows(*way, samples);
        let all: Vec<[Row; 3]> = ways.iter().zip(&samples).map(rows).collect();
        let (copy, others) = all.split_first().ok_or("nothing was measured")?;
        let mut rows = copy.to_vec();
        for other in others {
            rows.extend(other.iter().zip(copy).map(|(row, copy)| row.clone().against(copy)));
        }
        if self.is_disk && !takes_direct {
            let refused = format!("{}, direct: O_DIRECT is refused", self.name);
            rows.push(Row::single(refused, "", f64::NAN));
        }
        Ok(rows)
    }

    fn rows(&self, way: Way, samples: &Samples) -> [Row; 3] {
        let name = |what: &str| format!("{}, {}{what}", self.name, way.name());
        [
            Row::new(name(""), "MiB/s", &samples.rate),
            Row::new(name(": receiver's time"), "s/GiB", &samples.receiver),
            Row::new(name(": machine's time"), "s/GiB", &samples.machine),
        ]
    }

    /// Receives all payloads once, and sees whether they are in the files. On the disk they are
    /// durable before the time ends.
    fn measure(&self, peer: &Peer, way: Way, bytes: u64, into: &mut Samples) -> Outcome {
        let each = bytes / CONNECTIONS / BLOCK_BYTES as u64;
        let receiver = |n| Receiver::new(peer, way, self.dir, n * each..(n + 1) * each);
        let mut receivers = (0..CONNECTIONS).map(receiver).collect::<io::Result<Vec<_>>>()?;
        syncfs(File::open(self.dir)?)?;
        let (sender, machine) = (peer.process(), Machine::watch()?);
        let (own_before, sender_before) = (own_cpu_s(), sender.cpu_s()?);
        let started = Instant::now();
        thread::scope(|scope| {
            let start = |r| scope.spawn(move || Receiver::run(r, self.is_disk));
            let threads: Vec<_> = receivers.iter_mut().map(start).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        let wall_s = started.elapsed().as_secs_f64();
        let (client_s, machine_s) = (own_cpu_s() - own_before, machine.busy_s()?);
        let cpu = Cpu { server_s: sender.cpu_s()? - sender_before, client_s };
        for receiver in receivers {
            receiver.finish()?;
        }
        let rate = Sample::rate(bytes as f64 / MIB, wall_s, cpu);
        let of_gib = |seconds: f64| Sample { value: seconds * 1024.0 * MIB / bytes as f64, ..rate };
        into.rate.push(rate);
        into.receiver.push(of_gib(client_s));
        into.machine.push(of_gib(machine_s));
        Ok(())
    }
}

/// Whether files there can be written past the page cache.
fn takes_direct(dir: &Path) -> Outcome<bool> {
    let path = dir.join("direct");
    let mut memory = Memory::new();
    let written =
        Way::Direct.create(&path).and_then(|file| rustix::io::pwrite(file, memory.payload(), 0));
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    match written {
        Ok(_) => Ok(true),
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(false),
        Err(e) => Err(format!("{}: {e}", path.display()).into()),
    }
}

/// One connection, and the file its payloads go to.
struct Receiver {
    way: Way,
    stream: TcpStream,
    memory: Memory,
    pipe: Pipe,
    path: PathBuf,
    file: File,
    /// Numbers of its payloads.
    numbers: std::ops::Range<u64>,
}

impl Receiver {
    /// One that is connected, and has an empty file.
    fn new(
        peer: &Peer,
        way: Way,
        dir: &Path,
        numbers: std::ops::Range<u64>,
    ) -> io::Result<Receiver> {
        let path = dir.join(format!("received-{}", numbers.start));
        let (stream, file) = (peer.connect()?, way.create(&path)?);
        let (memory, pipe) = (Memory::new(), Pipe::new()?);
        Ok(Receiver { way, stream, memory, pipe, path, file, numbers })
    }

    /// Asks for all payloads and writes them to the file.
    fn run(&mut self, durable: bool) -> io::Result<()> {
        let numbers = self.numbers.clone();
        self.stream.write_all(&numbers.start.to_be_bytes())?;
        self.stream.write_all(&numbers.end.to_be_bytes())?;
        let mut head = [0; HEAD_BYTES];
        for (number, place) in numbers.zip(0..) {
            self.stream.read_exact(&mut head)?;
            if !head.starts_with(&number.to_be_bytes()) {
                return Err(Error::new(ErrorKind::InvalidData, "not the head that was due"));
            }
            let offset = place * BLOCK_BYTES as u64;
            match self.way {
                Way::Splice => self.pipe.carry(&self.stream, &self.file, offset)?,
                Way::Copy | Way::Direct => {
                    self.stream.read_exact(self.memory.payload())?;
                    self.file.write_all_at(self.memory.payload(), offset)?;
                }
            }
        }
        if durable {
            fdatasync(&self.file)?;
        }
        Ok(())
    }

    /// Sees whether the file holds what was sent, and removes it.
    fn finish(self) -> Outcome {
        let mut file = File::open(&self.path)?;
        let (mut expected, mut found) = (disk::block(), vec![0; BLOCK_BYTES]);
        for number in self.numbers {
            expected[..8].copy_from_slice(&number.to_be_bytes());
            file.read_exact(&mut found)?;
            if found != expected {
                return Err(format!("payload {number} is not what was sent").into());
            }
        }
        if file.read(&mut found)? > 0 {
            return Err("there is more than was sent".into());
        }
        Ok(std::fs::remove_file(&self.path)?)
    }
}

/// Memory for one payload that begins with a page.
struct Memory {
    bytes: Vec<u8>,
    from: usize,
}

impl Memory {
    fn new() -> Memory {
        // Not zeros, which would have no memory before they are written.
        let bytes = vec![1; BLOCK_BYTES + PAGE_BYTES];
        let from = bytes.as_ptr().align_offset(PAGE_BYTES);
        Memory { bytes, from }
    }

    fn payload(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..][..BLOCK_BYTES]
    }
}

/// A pipe between a socket and a file.
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&into, BLOCK_BYTES)?;
        Ok(Pipe { out, into })
    }

    /// Brings one payload from the socket to a place of the file, as it comes.
    fn carry(&self, socket: &TcpStream, file: &File, mut offset: u64) -> io::Result<()> {
        let mut left = BLOCK_BYTES;
        while left > 0 {
            let flags = SpliceFlags::MOVE;
            let got = retry_on_intr(|| splice(socket, None, &self.into, None, left, flags))?;
            if got == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            left -= got;
            let mut held = got;
            while held > 0 {
                let place = Some(&mut offset);
                match splice(&self.out, None, file, place, held, flags) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(moved) => held -= moved,
                    Err(Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }
}

/// Is the sender.
pub(crate) fn peer() -> Outcome {
    serve(send)
}

/// Sends the payloads from one number to below another, each with its head.
fn send(mut stream: TcpStream) -> io::Result<()> {
    let numbers = number(&mut stream)?..number(&mut stream)?;
    let mut record = vec![0; HEAD_BYTES];
    record.extend(disk::block());
    for number in numbers {
        for at in [0, HEAD_BYTES] {
            record[at..at + 8].copy_from_slice(&number.to_be_bytes());
        }
        stream.write_all(&record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// By each way the files hold what was sent, and a wrong byte is seen.
    #[test]
    fn payloads_arrive_by_each_way() {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for way in
            WAYS.into_iter().filter(|w| *w != Way::Direct || takes_direct(dir.path()).unwrap())
        {
            for spoilt in [false, true] {
                let stream = TcpStream::connect(address).unwrap();
                let far = listener.accept().unwrap().0;
                let sender = thread::spawn(move || send(far));
                let path = dir.path().join(way.name());
                let file = way.create(&path).unwrap();
                let (memory, pipe) = (Memory::new(), Pipe::new().unwrap());
                let mut receiver =
                    Receiver { way, stream, memory, pipe, path: path.clone(), file, numbers: 3..6 };
                receiver.run(true).unwrap();
                sender.join().unwrap().unwrap();
                if spoilt {
                    File::options().write(true).open(&path).unwrap().write_all_at(b"x", 9).unwrap();
                }
                assert_eq!(receiver.finish().is_err(), spoilt, "{way:?}");
            }
        }
    }
}
