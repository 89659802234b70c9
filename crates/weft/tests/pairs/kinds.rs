//! The kinds of clients, and what each can do.

use std::fmt::{self, Display};

use super::ledger::Ledger;
use super::support::guest::Kernel;

/// A kind of client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    Kernel(Kernel),
    Mount,
    Library,
    Python,
    Commands,
    /// A folder of this machine: no client, but the oracle of the model.
    Local,
}

/// What a client can do to a file, and how it reads.
#[derive(Clone, Copy, Debug)]
pub struct Can {
    pub writes: bool,
    pub appends: bool,
    pub maps: bool,
    pub direct: bool,
    pub punches: bool,
    pub copies: bool,
    pub sets_times: bool,
    pub locks: bool,
    /// Each act is a process.
    pub is_command: bool,
    /// n(ormal), m(apped), d(irect).
    pub reads: &'static str,
}

const POSIX: Can = Can {
    writes: true,
    appends: true,
    maps: true,
    direct: true,
    punches: true,
    copies: true,
    sets_times: true,
    locks: true,
    is_command: false,
    reads: "nnmd",
};

const LIBRARY: Can = Can {
    appends: false,
    maps: false,
    direct: false,
    punches: false,
    copies: false,
    locks: false,
    reads: "n",
    ..POSIX
};

const COMMANDS: Can =
    Can { writes: false, copies: true, sets_times: false, is_command: true, ..LIBRARY };

/// Clients of one run: more than these keep two cores from showing anything.
const CLIENTS_MAX: usize = 6;

impl Kind {
    /// Every kind of client.
    pub fn all() -> Vec<Kind> {
        let kernels = Kernel::ALL.into_iter().map(Kind::Kernel);
        kernels.chain([Kind::Mount, Kind::Library, Kind::Python, Kind::Commands]).collect()
    }

    /// Clients for a run: those whose pairs were tried least so far.
    pub fn least_tried(ledger: &Ledger) -> Vec<Kind> {
        let tries = |a: Kind, b: Kind| {
            let key = (a.to_string(), b.to_string());
            ledger.pairs.get(&key).map_or(0, |counts| counts.tries)
        };
        let pairs =
            Kind::all().into_iter().flat_map(|a| Kind::all().into_iter().map(move |b| (a, b)));
        let (first, second) = pairs.min_by_key(|(a, b)| tries(*a, *b)).expect("kinds");
        let mut chosen = vec![first, second];
        while chosen.len() < CLIENTS_MAX {
            let with = |kind: &Kind| {
                chosen.iter().map(|other| tries(*kind, *other) + tries(*other, *kind)).sum::<u64>()
            };
            let count = |kind: &Kind| chosen.iter().filter(|other| *other == kind).count();
            let free = Kind::all().into_iter().filter(|kind| count(kind) < 2);
            chosen.push(free.min_by_key(with).expect("kinds"));
        }
        chosen
    }

    /// By its name in `WEFT_PAIRS_KINDS`.
    pub fn parse(name: &str) -> Kind {
        let found = Kind::all().into_iter().find(|kind| kind.to_string() == name);
        found.unwrap_or_else(|| panic!("no kind of client is called {name:?}"))
    }

    /// What it can do, mounted with this minor version.
    pub fn can(self, minor: u32) -> Can {
        match self {
            Kind::Kernel(_) => Can { punches: minor >= 2, ..POSIX },
            Kind::Mount | Kind::Local => POSIX,
            Kind::Library | Kind::Python => LIBRARY,
            Kind::Commands => COMMANDS,
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Kernel(kernel) => f.write_str(kernel.name()),
            Kind::Mount => f.write_str("mount"),
            Kind::Library => f.write_str("library"),
            Kind::Python => f.write_str("python"),
            Kind::Commands => f.write_str("commands"),
            Kind::Local => f.write_str("local"),
        }
    }
}
