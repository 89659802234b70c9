//! What stands between clients and a server: it can hold replies back for a while, hold everything,
//! or break all connections and let nobody in.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use weft_dev::SeededRng;

/// Bytes that are held for one connection and direction at most.
const HELD: usize = 64 << 20;
const PIECE: usize = 256 << 10;

/// What it does to what passes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mood {
    #[default]
    Open,
    /// Replies come 50 to 500 ms late.
    Delay,
    /// Nothing passes; it is not lost.
    Hold,
    /// Connections are broken, and new ones too.
    Cut,
}

struct Shared {
    mood: Mood,
    rng: SeededRng,
    open: Vec<TcpStream>,
}

/// Where it leads.
#[derive(Clone, Copy, Debug)]
pub enum Behind {
    /// To a port of this machine, at the address that the client chose: servers tell others by it.
    Port(u16),
    Address(SocketAddr),
}

/// In front of one server, on all addresses of this machine.
#[derive(Clone)]
pub struct Relay {
    pub port: u16,
    shared: Arc<(Mutex<Shared>, Condvar)>,
}

impl Relay {
    /// Starts one, open.
    pub fn start(to: Behind, seed: u64) -> Relay {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (mood, rng, open) = (Mood::Open, SeededRng::new(seed), Vec::new());
        let shared = Arc::new((Mutex::new(Shared { mood, rng, open }), Condvar::new()));
        let relay = Relay { port, shared };
        let serving = relay.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // A connection that breaks, or a server that is not there, is what the client sees.
                let _ = serving.connection(near, to);
            }
        });
        relay
    }

    /// From now on.
    pub fn set(&self, mood: Mood) {
        let mut shared = self.shared.0.lock().expect("no panic in here");
        shared.mood = mood;
        if mood == Mood::Cut {
            for stream in shared.open.drain(..) {
                let _ = stream.shutdown(Shutdown::Both); // it may be closed already
            }
        }
        self.shared.1.notify_all();
    }

    fn connection(&self, near: TcpStream, to: Behind) -> io::Result<()> {
        let far = match to {
            Behind::Port(port) => SocketAddr::new(near.local_addr()?.ip(), port),
            Behind::Address(address) => address,
        };
        let far = TcpStream::connect_timeout(&far, Duration::from_secs(1))?;
        {
            let mut shared = self.shared.0.lock().expect("no panic in here");
            if shared.mood == Mood::Cut {
                return Ok(());
            }
            shared.open.retain(|stream| stream.peer_addr().is_ok());
            shared.open.push(near.try_clone()?);
        }
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let (relay, one, other) = (self.clone(), near.try_clone()?, far.try_clone()?);
        std::thread::spawn(move || relay.pass(one, other, false));
        let relay = self.clone();
        std::thread::spawn(move || relay.pass(far, near, true));
        Ok(())
    }

    /// Passes on what comes from one, at its time, to the other.
    fn pass(&self, mut from: TcpStream, to: TcpStream, replies: bool) {
        let queue = Arc::new((Mutex::new(Queue::default()), Condvar::new()));
        let (relay, taken, writer) = (self.clone(), queue.clone(), to.try_clone());
        let writes = std::thread::spawn(move || {
            let Ok(mut to) = writer else { return };
            while let Some(bytes) = Queue::take(&taken) {
                relay.wait_while_held();
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            Queue::end(&taken);
            let _ = to.shutdown(Shutdown::Both); // it may be closed already
        });
        let mut piece = vec![0; PIECE];
        while let Ok(got @ 1..) = from.read(&mut piece) {
            if !Queue::put(&queue, piece[..got].to_vec(), self.due(replies)) {
                break;
            }
        }
        Queue::end(&queue);
        let _ = writes.join();
        let _ = from.shutdown(Shutdown::Both); // it may be closed already
    }

    fn due(&self, replies: bool) -> Instant {
        let mut shared = self.shared.0.lock().expect("no panic in here");
        let late =
            if replies && shared.mood == Mood::Delay { 50 + shared.rng.below(451) } else { 0 };
        Instant::now() + Duration::from_millis(late)
    }

    fn wait_while_held(&self) {
        let shared = self.shared.0.lock().expect("no panic in here");
        drop(self.shared.1.wait_while(shared, |s| s.mood == Mood::Hold).expect("no panic in here"));
    }
}

/// What waits for its time.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    ended: bool,
}

type Shelf = (Mutex<Queue>, Condvar);

impl Queue {
    fn put(shelf: &Shelf, bytes: Vec<u8>, due: Instant) -> bool {
        let queue = shelf.0.lock().expect("no panic in here");
        let full = |q: &mut Queue| q.bytes > HELD && !q.ended;
        let mut queue = shelf.1.wait_while(queue, full).expect("no panic in here");
        queue.bytes += bytes.len();
        queue.waiting.push_back((due, bytes));
        shelf.1.notify_all();
        !queue.ended
    }

    fn take(shelf: &Shelf) -> Option<Vec<u8>> {
        let queue = shelf.0.lock().expect("no panic in here");
        let idle = |q: &mut Queue| q.waiting.is_empty() && !q.ended;
        let mut queue = shelf.1.wait_while(queue, idle).expect("no panic in here");
        let (due, bytes) = queue.waiting.pop_front()?;
        queue.bytes -= bytes.len();
        shelf.1.notify_all();
        drop(queue);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        Some(bytes)
    }

    fn end(shelf: &Shelf) {
        shelf.0.lock().expect("no panic in here").ended = true;
        shelf.1.notify_all();
    }
}
