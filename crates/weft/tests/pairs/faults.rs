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
    /// Every kind that links of a server alone can have.
    pub fn of_links() -> Vec<Fault> {
        [What::Cut, What::Hold, What::Delay].map(|what| Fault(what, Whom::Mds)).to_vec()
    }

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

/// What a link does in a fault of links.
fn mood_of(what: What) -> Mood {
    match what {
        What::Cut => Mood::Cut,
        What::Delay => Mood::Delay,
        What::Hold | What::Kill | What::Stop | What::Freeze => Mood::Hold,
    }
}

fn start(servers: &mut Servers, at: usize) {
    match u32::try_from(at).expect("few servers") {
        0 => servers.start_mds(),
        id => servers.start_ds(id),
    }
}

/// The servers, and the relay in front of each; that of the metadata server is the first.
pub struct Site {
    /// None if it is another server than ours: then only its link can suffer.
    pub servers: Option<Servers>,
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
        let Some(servers) = self.servers.as_mut() else {
            return self.mood(&whom, mood_of(fault.0), while_ms);
        };
        let name = |at: &usize| if *at == 0 { "mds".to_owned() } else { ds(*at as u32) };
        match fault.0 {
            What::Kill | What::Stop => {
                for at in &whom {
                    match fault.0 {
                        What::Kill => servers.kill9(&name(at)),
                        _ => servers.stop(&name(at)),
                    }
                }
                if rng.one_in(2) {
                    std::thread::sleep(while_ms);
                }
                whom.iter().for_each(|at| start(servers, *at));
            }
            What::Freeze => {
                whom.iter().for_each(|at| servers.pause(&name(at)));
                std::thread::sleep(while_ms);
                whom.iter().for_each(|at| servers.resume(&name(at)));
            }
            what => self.mood(&whom, mood_of(what), while_ms),
        }
    }

    fn mood(&self, whom: &[usize], mood: Mood, time: Duration) {
        whom.iter().for_each(|at| self.relays[*at].set(mood));
        std::thread::sleep(time);
        whom.iter().for_each(|at| self.relays[*at].set(Mood::Open));
    }
}
