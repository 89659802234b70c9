//! What happens to the servers and their links.

use std::fmt::{self, Display};
use std::time::Duration;

use weft_dev::SeededRng;

use super::relay::{Mood, Relay};
use super::support::servers::{Servers, ds};

/// What is done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    /// `kill -9`, and started again.
    Kill,
    /// SIGTERM, and started again when it has ended.
    Stop,
    /// SIGSTOP for a while.
    Freeze,
    /// The link loses its connections for a while.
    Cut,
    /// The link holds everything for a while.
    Hold,
    /// The link's replies come 50 to 500 ms late for a while.
    Delay,
}

/// Whom it happens to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Whom {
    Mds,
    /// One of them.
    Ds,
    /// All data servers.
    AllDs,
    All,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault(pub What, pub Whom);

impl Fault {
    /// Every kind.
    pub fn all() -> Vec<Fault> {
        let whats = [What::Kill, What::Stop, What::Freeze, What::Cut, What::Hold, What::Delay];
        let whoms = [Whom::Mds, Whom::Ds, Whom::AllDs, Whom::All];
        whats.iter().flat_map(|what| whoms.map(|whom| Fault(*what, whom))).collect()
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", word(&self.0), word(&self.1))
    }
}

fn word(thing: &impl fmt::Debug) -> String {
    format!("{thing:?}").to_lowercase()
}

/// The servers, and the relay in front of each; that of the metadata server is the first.
pub struct Site {
    pub servers: Servers,
    pub relays: Vec<Relay>,
}

impl Site {
    /// Does it, to its end: when it returns, servers are started and links are whole.
    pub fn suffer(&mut self, fault: Fault, rng: &mut SeededRng) {
        let count = self.relays.len();
        let whom: Vec<usize> = match fault.1 {
            Whom::Mds => vec![0],
            Whom::Ds => vec![1 + rng.index(count - 1)],
            Whom::AllDs => (1..count).collect(),
            Whom::All => (0..count).collect(),
        };
        let while_ms = Duration::from_millis(500 + rng.below(3500));
        let name = |at: &usize| if *at == 0 { "mds".to_owned() } else { ds(*at as u32) };
        match fault.0 {
            What::Kill | What::Stop => {
                for at in &whom {
                    match fault.0 {
                        What::Kill => self.servers.kill9(&name(at)),
                        _ => self.servers.stop(&name(at)),
                    }
                }
                if rng.one_in(2) {
                    std::thread::sleep(while_ms);
                }
                whom.iter().for_each(|at| self.start(*at));
            }
            What::Freeze => {
                whom.iter().for_each(|at| self.servers.pause(&name(at)));
                std::thread::sleep(while_ms);
                whom.iter().for_each(|at| self.servers.resume(&name(at)));
            }
            What::Cut => self.mood(&whom, Mood::Cut, while_ms),
            What::Hold => self.mood(&whom, Mood::Hold, while_ms),
            What::Delay => self.mood(&whom, Mood::Delay, while_ms * 2),
        }
    }

    fn start(&mut self, at: usize) {
        match u32::try_from(at).expect("few servers") {
            0 => self.servers.start_mds(),
            id => self.servers.start_ds(id),
        }
    }

    fn mood(&self, whom: &[usize], mood: Mood, time: Duration) {
        whom.iter().for_each(|at| self.relays[*at].set(mood));
        std::thread::sleep(time);
        whom.iter().for_each(|at| self.relays[*at].set(Mood::Open));
    }
}
