//! Who does what the judge asks for: processes in guests and on this machine that are asked by TCP,
//! our library in this process, our commands.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use weft_client::blocking::{Client, File};
use weft_client::fs::OpenOptions;
use weft_nfs::attr::SetTime;
use weft_nfs::{Attrs, NfsTime};

use super::model::Seen;
use super::ops::{Op, line};
use super::pattern::{crc, crcs, pattern};

/// Nothing takes as long as this: leases are 10 s, and faults end after a few.
const PATIENCE: Duration = Duration::from_secs(150);
const ENOENT: i32 = 2;
const EIO: i32 = 5;

/// Why a hand could not do the act of this number.
#[derive(Clone, Debug)]
pub struct Failure {
    pub index: usize,
    pub errno: i32,
    pub words: String,
}

impl Failure {
    pub fn is_absent(&self) -> bool {
        self.errno == ENOENT
    }
}

/// Does acts, one list after another.
pub trait Hand: Send {
    /// What they told, without the word `ok`.
    ///
    /// # Errors
    /// The first act that failed; those after it were not done.
    fn act(&mut self, ops: &[Op]) -> Result<String, Failure>;

    /// True if the hand no longer answers requests.
    fn is_lost(&self) -> bool {
        false
    }

    /// Looks at the whole file as it was asked to; none if there is no such name.
    ///
    /// # Errors
    /// [`Failure`], also of an answer that is none.
    fn look(&mut self, name: &str, how: char, is_command: bool) -> Result<Option<Seen>, Failure> {
        let name = name.to_owned();
        let flags = if how == 'd' { "rd" } else { "r" };
        let ops = match is_command {
            true => vec![Op::Get { name }],
            false => vec![Op::Open { flags, mode: 0, name }, Op::Read { how }, Op::Close],
        };
        match self.act(&ops) {
            Ok(told) => match Seen::parse(&told) {
                Some(seen) => Ok(Some(seen)),
                None => Err(Failure { index: 1, errno: EIO, words: format!("answered {told:?}") }),
            },
            Err(failure) if failure.is_absent() && failure.index == 0 => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// Where hands wait for work, by the name of their client.
#[derive(Default)]
pub struct Pool {
    free: Mutex<HashMap<String, Vec<Box<dyn Hand>>>>,
    changed: Condvar,
}

impl Pool {
    /// Offers hands that come by TCP, from now on; the port to come to.
    pub fn listen(self: &Arc<Self>) -> u16 {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let pool = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_nodelay(true).expect("an option");
                stream.set_read_timeout(Some(PATIENCE)).expect("an option");
                let mut hand = Remote { stream: BufReader::new(stream), is_lost: false };
                let mut name = String::new();
                if hand.stream.read_line(&mut name).is_ok() {
                    pool.put(name.trim(), Box::new(hand));
                }
            }
        });
        port
    }

    /// A hand is free. One that is lost is let go: its late answer would be taken for another's.
    pub fn put(&self, name: &str, hand: Box<dyn Hand>) {
        if hand.is_lost() {
            return;
        }
        let mut free = self.free.lock().expect("no panic in here");
        free.entry(name.to_owned()).or_default().push(hand);
        self.changed.notify_all();
    }

    /// A hand of this client, when there is one; `None` after two minutes without.
    pub fn take(&self, name: &str) -> Option<Box<dyn Hand>> {
        let deadline = Instant::now() + PATIENCE;
        let mut free = self.free.lock().expect("no panic in here");
        loop {
            if let Some(hand) = free.get_mut(name).and_then(Vec::pop) {
                return Some(hand);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            free = self.changed.wait_timeout(free, left).expect("no panic in here").0;
        }
    }

    /// Ends all hands that are free.
    pub fn end(&self) {
        self.free.lock().expect("no panic in here").clear();
    }
}

/// A process that is asked by TCP: `tests/guest/hand.c` or `tests/pairs/hand.py`.
struct Remote {
    stream: BufReader<TcpStream>,
    is_lost: bool,
}

impl Remote {
    fn ask(&mut self, ops: &[Op]) -> io::Result<String> {
        if self.is_lost {
            return Err(ErrorKind::NotConnected.into());
        }
        let mut answer = String::new();
        self.stream.get_mut().write_all(line(ops).as_bytes())?;
        match self.stream.read_line(&mut answer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer),
        }
    }
}

impl Hand for Remote {
    fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn act(&mut self, ops: &[Op]) -> Result<String, Failure> {
        let answer = self.ask(ops).map_err(|e| {
            self.is_lost = true;
            Failure { index: 0, errno: EIO, words: format!("hung or ended: {e}") }
        })?;
        if let Some(told) = answer.strip_prefix("ok") {
            return Ok(told.trim().to_owned());
        }
        let mut numbers = answer.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(EIO));
        let index = numbers.next().unwrap_or(0) as usize;
        let errno = numbers.next().unwrap_or(EIO);
        let words = io::Error::from_raw_os_error(errno).to_string();
        Err(Failure { index, errno, words })
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A hand that is gone already needs no telling.
        let _ = self.stream.get_mut().write_all(b"q;\n");
    }
}

/// Our library, in this process.
pub struct Library {
    client: Arc<Client>,
    open: Option<File>,
    umask: Option<u32>,
}

impl Library {
    /// One more hand of a client.
    pub fn of(client: Arc<Client>) -> Library {
        Library { client, open: None, umask: None }
    }

    fn file(&self) -> Result<&File, (i32, String)> {
        self.open.as_ref().ok_or((EIO, "nothing is open".to_owned()))
    }

    fn one(&mut self, op: &Op) -> Result<String, (i32, String)> {
        let said = |e: weft_client::fs::FsError| (e.error.errno(), e.to_string());
        match op {
            Op::Open { flags, mode, name } => {
                let options = OpenOptions {
                    read: flags.contains(['r', 'b']),
                    write: flags.contains(['w', 'b']),
                    create: flags.contains('c').then_some(*mode),
                    umask: self.umask,
                    exclusive: flags.contains('x'),
                    truncate: flags.contains('t'),
                    policy: None,
                };
                self.open = Some(self.client.open(name, options).map_err(said)?);
            }
            Op::Write { at, len, seed } => {
                self.file()?.write_at(*at, pattern(*seed, *len).into()).map_err(said)?;
            }
            Op::AppendBySize { len, seed } => {
                let file = self.file()?;
                let end = file.size().map_err(said)?;
                file.write_at(end, pattern(*seed, *len).into()).map_err(said)?;
            }
            Op::Truncate { len } => self.file()?.truncate(*len).map_err(said)?,
            Op::Fsync => self.file()?.commit().map_err(said)?,
            Op::Close => match self.open.take() {
                Some(file) => file.close().map_err(said)?,
                None => return Err((EIO, "nothing is open".to_owned())),
            },
            Op::Read { .. } => return self.read().map_err(said),
            Op::Again { at, len, times } => {
                let mut seen = Vec::new();
                for _ in 0..*times {
                    let mut bytes = vec![0; *len as usize];
                    let got = self.file()?.read_at(*at, &mut bytes).map_err(said)?;
                    let sum = if got < bytes.len() { got as u32 } else { crc(&bytes) };
                    if !seen.contains(&sum) {
                        seen.push(sum);
                    }
                }
                return Ok(seen.iter().map(|sum| format!("{sum:08x},")).collect());
            }
            Op::Rename { from, to } => self.client.rename(from, to).map_err(said)?,
            Op::Unlink { name } => self.client.remove(name).map_err(said)?,
            Op::Stat { name } => drop(self.client.stat(name).map_err(said)?),
            Op::List { dir } => {
                for entry in self.client.read_dir(dir).map_err(said)? {
                    entry.map_err(said)?;
                }
            }
            Op::Chmod { mode, name } => {
                let attrs = Attrs { mode: Some(*mode), ..Attrs::default() };
                self.client.set_attrs(name, attrs).map_err(said)?;
            }
            Op::Utimes { seconds, name } => {
                let time = NfsTime { seconds: *seconds as i64, nseconds: 0 };
                let set = Some(SetTime::ToClient(time));
                let attrs = Attrs { time_modify_set: set, ..Attrs::default() };
                self.client.set_attrs(name, attrs).map_err(said)?;
            }
            other => return Err((EIO, format!("{other} is not for the library"))),
        }
        Ok(String::new())
    }

    fn read(&self) -> Result<String, weft_client::fs::FsError> {
        let file = self.open.as_ref().expect("it is open");
        let (attrs, size) = (file.attrs()?.clone(), file.size()?);
        let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 20]);
        loop {
            let got = file.read_at(all.len() as u64, &mut piece)?;
            if got == 0 {
                break;
            }
            all.extend_from_slice(&piece[..got]);
        }
        let mode = attrs.mode.map_or("-".to_owned(), |mode| format!("{mode:o}"));
        let mtime = attrs.time_modify.map_or("-".to_owned(), |time| time.seconds.to_string());
        Ok(told(size, &mode, &mtime, &all))
    }
}

impl Hand for Library {
    fn act(&mut self, ops: &[Op]) -> Result<String, Failure> {
        one_by_one(ops, |op| self.one(op))
    }
}

/// Our commands: a process for each act.
pub struct Commands {
    /// HOST:PORT of the metadata server.
    pub server: String,
    /// Folder for what is put.
    pub dir: PathBuf,
}

impl Commands {
    fn run(&self, arguments: &[&str]) -> Result<Output, (i32, String)> {
        let mut command = Command::new(super::support::weft_binary());
        command.args(arguments).env("WEFT_SERVER", &self.server).stdin(Stdio::null());
        let output = command.output().expect("weft starts");
        if output.status.success() {
            return Ok(output);
        }
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let errno = if words.contains("no such file") { ENOENT } else { EIO };
        Err((errno, words))
    }

    fn one(&self, op: &Op) -> Result<String, (i32, String)> {
        match op {
            Op::Put { len, seed, name } => {
                let local = self.dir.join(name.replace('/', "-"));
                std::fs::write(&local, pattern(*seed, *len)).expect("a source");
                let put = self.run(&["put", &local.to_string_lossy(), name]);
                std::fs::remove_file(&local).expect("the source");
                put?;
            }
            Op::Cp { from, to } => {
                drop(self.run(&["cp", &format!(":/{from}"), &format!(":/{to}")])?)
            }
            Op::Rename { from, to } => drop(self.run(&["mv", from, to])?),
            Op::Unlink { name } => drop(self.run(&["rm", name])?),
            Op::Chmod { mode, name } => drop(self.run(&["chmod", &format!("{mode:o}"), name])?),
            Op::Stat { name } => drop(self.run(&["stat", name])?),
            Op::List { dir } => drop(self.run(&["ls", dir])?),
            Op::Get { name } => {
                let bytes = self.run(&["cat", name])?.stdout;
                return Ok(told(bytes.len() as u64, "-", "-", &bytes));
            }
            other => return Err((EIO, format!("{other} is not for commands"))),
        }
        Ok(String::new())
    }
}

impl Hand for Commands {
    fn act(&mut self, ops: &[Op]) -> Result<String, Failure> {
        one_by_one(ops, |op| self.one(op))
    }
}

/// Does acts until one fails; all that they told.
fn one_by_one(
    ops: &[Op],
    mut one: impl FnMut(&Op) -> Result<String, (i32, String)>,
) -> Result<String, Failure> {
    let each = ops.iter().enumerate();
    each.map(|(index, op)| one(op).map_err(|(errno, words)| Failure { index, errno, words }))
        .collect()
}

/// As `hand.c` tells of a file.
fn told(size: u64, mode: &str, mtime: &str, bytes: &[u8]) -> String {
    let crcs: String = crcs(bytes).iter().map(|sum| format!("{sum:08x},")).collect();
    format!("{size} {mode} {mtime} {crcs} = {}", bytes.len())
}
