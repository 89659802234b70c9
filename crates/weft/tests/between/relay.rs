//! Somebody between two servers: takes records apart, and sends on what it likes.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What becomes of a record from the one who connected, unless its connection is one of NFS: those
/// sent on in its place. With the number of the record on its connection, from 0.
pub type Trick = Box<dyn FnMut(usize, Vec<u8>) -> Vec<Vec<u8>> + Send>;

/// Where an RPC call names its program (RFC 5531 §9), and that of NFS.
const PROGRAM_AT: usize = 12;
const NFS: [u8; 4] = 100_003_u32.to_be_bytes();

/// A relay in front of one address.
#[derive(Clone)]
pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    to: SocketAddr,
    trick: Trick,
    /// The records of every connection so far, as they came.
    heard: Vec<Vec<Vec<u8>>>,
}

impl Relay {
    /// In front of `to`; sends everything on as it is.
    pub fn start(to: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Shared { to, trick: Box::new(|_, record| vec![record]), heard: Vec::new() };
        let relay = Relay { address, shared: Arc::new(Mutex::new(shared)) };
        let serving = relay.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                let relay = serving.clone();
                // A connection that breaks is no concern of the others.
                thread::spawn(move || near.and_then(|near| relay.connection(near)));
            }
        });
        relay
    }

    /// From now on.
    pub fn play(&self, trick: impl FnMut(usize, Vec<u8>) -> Vec<Vec<u8>> + Send + 'static) {
        self.shared.lock().expect("the trick").trick = Box::new(trick);
    }

    /// The records of every connection so far.
    pub fn heard(&self) -> Vec<Vec<Vec<u8>>> {
        self.shared.lock().expect("what was heard").heard.clone()
    }

    fn connection(&self, mut near: TcpStream) -> io::Result<()> {
        let (to, number) = {
            let mut shared = self.shared.lock().expect("where to");
            shared.heard.push(Vec::new());
            (shared.to, shared.heard.len() - 1)
        };
        let mut far = TcpStream::connect(to)?;
        let (mut from, mut back) = (far.try_clone()?, near.try_clone()?);
        thread::spawn(move || {
            let copied = io::copy(&mut from, &mut back);
            let ended = back.shutdown(Shutdown::Both);
            copied.and(ended)
        });
        let (mut count, mut is_nfs) = (0, false);
        while let Some(record) = read_record(&mut near)? {
            is_nfs |= count == 0 && record.get(PROGRAM_AT..PROGRAM_AT + 4) == Some(&NFS);
            let sent = {
                let mut shared = self.shared.lock().expect("the trick");
                shared.heard[number].push(record.clone());
                if is_nfs { vec![record] } else { (shared.trick)(count, record) }
            };
            count += 1;
            for record in sent {
                write_record(&mut far, &record)?;
            }
        }
        far.shutdown(Shutdown::Both)
    }
}

/// Sends records to an address, as if they were ours; how many bytes come back before the other
/// side ends the connection.
pub fn repeat(to: SocketAddr, records: &[Vec<u8>]) -> usize {
    let mut stream = TcpStream::connect(to).expect("a connection");
    for record in records {
        if write_record(&mut stream, record).is_err() {
            break;
        }
    }
    let mut answers = Vec::new();
    // Ended in whatever way.
    let _ = stream.read_to_end(&mut answers);
    answers.len()
}

/// RFC 5531 §11; none at the end.
fn read_record(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut record = Vec::new();
    loop {
        let mut head = [0; 4];
        match stream.read_exact(&mut head) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let head = u32::from_be_bytes(head);
        let at = record.len();
        record.resize(at + (head & !(1 << 31)) as usize, 0);
        stream.read_exact(&mut record[at..])?;
        if head >> 31 == 1 {
            return Ok(Some(record));
        }
    }
}

fn write_record(stream: &mut TcpStream, record: &[u8]) -> io::Result<()> {
    let head = u32::try_from(record.len()).expect("a short record") | 1 << 31;
    stream.write_all(&[&head.to_be_bytes(), record].concat())
}
