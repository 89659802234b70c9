//! What every benchmark is told: where to work, how much of it to do, and in which order.

use std::path::PathBuf;

use clap::Args;

use crate::{
    setup::{NAMES, Setup},
    weft::Weft,
};

/// Files of all clients together, unless told otherwise.
const FILES: u32 = 12_000;
/// The same with `--quick`.
const QUICK_FILES: u32 = 640;

/// What every benchmark is told.
pub(crate) struct Context {
    /// The program under test.
    pub(crate) weft: Weft,
    /// A Python that has the package.
    pub(crate) python: Option<PathBuf>,
    /// Scratch on a disk.
    pub(crate) disk: PathBuf,
    /// Scratch in memory.
    pub(crate) memory: PathBuf,
    /// Less data, and more noise.
    pub(crate) quick: bool,
    /// Times everything is measured.
    pub(crate) repeats: u32,
    /// Options of `small` and `mdtest`.
    pub(crate) small: SmallArgs,
}

/// Options of the benchmarks of small files.
#[derive(Debug, Clone, Args)]
pub(crate) struct SmallArgs {
    /// Clients of `small` and `mdtest`, each with a session and a connection of its own.
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// Files of each client of `small` and `mdtest` [default: 12000 over all clients, 640 with
    /// --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    files: Option<u32>,
    /// Data servers of `small` and `mdtest`, over all of which every file is striped.
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    data_servers: u32,
    /// Bytes of each file of `small`.
    #[arg(long, value_name = "M", default_value_t = 8 << 10,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    bytes: u32,
    /// Configurations of `small` [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = NAMES)]
    configs: Vec<String>,
}

impl Context {
    /// Repeats of benchmarks whose slowest configurations are very slow: once is what fits into the
    /// minutes of `--quick`.
    pub(crate) fn ablation_repeats(&self) -> u32 {
        if self.quick { 1 } else { self.repeats }
    }

    /// Clients of `small` and `mdtest`.
    pub(crate) fn clients(&self) -> usize {
        self.small.clients as usize
    }

    /// Files of each of these clients.
    pub(crate) fn files_of_each(&self) -> usize {
        let all = if self.quick { QUICK_FILES } else { FILES };
        self.small.files.unwrap_or((all / self.small.clients).max(1)) as usize
    }

    /// Data servers of `small` and `mdtest`.
    pub(crate) fn data_servers(&self) -> u32 {
        self.small.data_servers
    }

    /// Whether `small` is to measure everything, not some configurations.
    pub(crate) fn is_whole(&self) -> bool {
        self.small.configs.is_empty()
    }

    /// Bytes of each file of `small`.
    pub(crate) fn file_bytes(&self) -> usize {
        self.small.bytes as usize
    }

    /// Whether `small` is to measure a configuration.
    pub(crate) fn includes(&self, setup: Setup) -> bool {
        let configs = &self.small.configs;
        configs.is_empty() || configs.iter().any(|name| name == setup.name)
    }
}

/// Indices of things that are compared, there and back again from repeat to repeat.
pub(crate) fn alternating(repeat: u32, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| if repeat.is_multiple_of(2) { turn } else { count - 1 - turn })
}
