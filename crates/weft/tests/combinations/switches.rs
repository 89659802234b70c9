//! What can be switched on and off for small files (docs/benchmarks.md), in every combination.

use std::fmt::{self, Display};

use weft_client::fs::ClientOptions;
use weft_client::io::IoPolicy;

/// Small writes of a client that gathers, and its memory: it is full now and then.
const GATHERED: IoPolicy = IoPolicy {
    gather_below: 16 << 10,
    keeps: true,
    read_ahead_bytes: 64 << 10,
    cache_bytes: 512 << 10,
};

/// The threshold below which clients write through the metadata server.
#[derive(Clone, Copy, Debug)]
enum Threshold {
    Off,
    Fixed,
    Adaptive,
}

/// Switches of a metadata server.
#[derive(Clone, Copy, Debug)]
pub struct ServerSwitches {
    stuffing: bool,
    coalescing: bool,
    creation: &'static str,
    gathering: bool,
    threshold: Threshold,
}

impl ServerSwitches {
    /// All of them in every combination.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for creation in ["implicit", "eager", "precreate"] {
            for threshold in [Threshold::Off, Threshold::Fixed, Threshold::Adaptive] {
                for bits in 0..8 {
                    let [stuffing, coalescing, gathering] = on(bits);
                    all.push(Self { stuffing, coalescing, creation, gathering, threshold });
                }
            }
        }
        all
    }

    /// The configuration that says so. Pools of objects are small, so that they run dry.
    pub fn config(&self) -> String {
        let Self { stuffing, coalescing, creation, gathering, threshold } = self;
        let kib = |on: bool| if on { "64KiB" } else { "0KiB" };
        let limit = kib(*stuffing);
        let adaptive = matches!(threshold, Threshold::Adaptive);
        let threshold = kib(!matches!(threshold, Threshold::Off));
        format!(
            "object_creation = \"{creation}\"\n\
             [commit]\ncoalesce = {coalescing}\n\
             [precreate]\nlow = 4\nbatch = 8\n\
             [small_files]\nstuffing_limit = \"{limit}\"\ngather = {gathering}\n\
             write_threshold = \"{threshold}\"\nadaptive = {adaptive}\n"
        )
    }
}

impl Display for ServerSwitches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stuffing, coalescing, creation, gathering, threshold } = self;
        write!(
            f,
            "objects={creation} stuffing={} coalescing={} gathering={} threshold={}",
            word(*stuffing),
            word(*coalescing),
            word(*gathering),
            format!("{threshold:?}").to_lowercase(),
        )
    }
}

/// Switches of our client.
#[derive(Clone, Copy, Debug)]
pub struct ClientSwitches {
    one_compound: bool,
    /// Small writes of an open file wait for others.
    pub gathering: bool,
    /// Attributes come with the names of a listing.
    pub one_pass: bool,
}

impl ClientSwitches {
    /// All of them in every combination.
    pub fn all() -> Vec<Self> {
        let switches = (0..8).map(|bits| {
            let [one_compound, gathering, one_pass] = on(bits);
            Self { one_compound, gathering, one_pass }
        });
        switches.collect()
    }

    /// The options that say so.
    pub fn options(&self) -> ClientOptions {
        let policy = if self.gathering { GATHERED } else { IoPolicy::direct() };
        ClientOptions { eager: self.one_compound, policy, ..ClientOptions::default() }
    }
}

impl Display for ClientSwitches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { one_compound, gathering, one_pass } = self;
        let (compound, pass) = (word(*one_compound), word(*one_pass));
        write!(f, "compound={compound} io-policy={} one-pass={pass}", word(*gathering))
    }
}

fn on(bits: u32) -> [bool; 3] {
    [0, 1, 2].map(|bit| bits >> bit & 1 == 1)
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
