//! What is done next, by chance: most of it makes sense, and sizes are near the limits that matter.

use super::model::{FileNo, Model};
use super::support::pattern;
use weft_dev::SeededRng;

/// Clients of a sequence, which share its files.
pub const CLIENTS: usize = 2;
/// Opens of a sequence at a time.
const OPENS_MAX: usize = 4;
const FILES: [&str; 6] = ["a", "b", "c", "x/a", "x/b", "y/a"];
const DIRS: [&str; 2] = ["x", "y"];
/// Sizes where something changes: nothing, what a metadata server keeps, stripe units.
const EDGES: [u64; 6] = [0, 4 << 10, 64 << 10, 64 << 10, 1 << 20, 2 << 20];
/// Bytes of the largest file.
const LARGEST: u64 = (2 << 20) + (256 << 10);

/// Bytes to be written.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    seed: u64,
    pub len: u64,
}

impl Data {
    pub fn bytes(&self) -> Vec<u8> {
        pattern(self.seed, self.len as usize)
    }
}

/// One thing that a client does. Opens are meant by their place in the model.
#[derive(Clone, Debug)]
pub enum Action {
    Put { name: String, data: Data },
    Get { name: String },
    Open { name: String, truncate: bool },
    Write { open: usize, at: u64, data: Data },
    Read { open: usize, at: u64, len: u64 },
    Truncate { open: usize, size: u64 },
    Commit { open: usize },
    Close { open: usize },
    Cut { name: String, size: u64 },
    Remove { name: String },
    Rename { from: String, to: String },
    Link { from: String, to: String },
    Mkdir { name: String },
    Stat { name: String },
    List { dir: String },
}

/// Who does what.
#[derive(Clone, Debug)]
pub struct Step {
    pub who: usize,
    pub action: Action,
}

/// The next step.
pub fn next(model: &Model, random: &mut SeededRng) -> Step {
    let who = random.below(CLIENTS as u64) as usize;
    let own: Vec<usize> =
        (0..model.opens.len()).filter(|open| model.opens[*open].who == who).collect();
    let action = match random.choose(&own) {
        Some(open) if model.is_stale(open) => Action::Close { open },
        Some(open) if !random.one_in(3) => on_open(model, random, open),
        _ => on_path(model, random),
    };
    Step { who, action }
}

fn on_open(model: &Model, random: &mut SeededRng, open: usize) -> Action {
    let file = model.opens[open].file;
    let len = model.files[file].bytes.len() as u64;
    match random.below(12) {
        0..=2 => {
            let at = place(random, len);
            write(random, open, at)
        }
        3..=5 => write(random, open, len),
        6..=8 => Action::Read { open, at: place(random, len), len: 1 + length(random) },
        9 => Action::Truncate { open, size: size(random, model, file) },
        10 => Action::Commit { open },
        _ => Action::Close { open },
    }
}

fn write(random: &mut SeededRng, open: usize, at: u64) -> Action {
    let at = at.min(LARGEST - 1);
    let len = (1 + length(random)).min(LARGEST - at);
    Action::Write { open, at, data: Data { seed: random.draw(), len } }
}

fn on_path(model: &Model, random: &mut SeededRng) -> Action {
    let name = name(model, random);
    match random.below(18) {
        0..=2 => {
            let len = edge(random).min(length(random) + (64 << 10));
            Action::Put { name, data: Data { seed: random.draw(), len } }
        }
        3 => Action::Get { name },
        4..=7 if model.opens.len() < OPENS_MAX => Action::Open { name, truncate: random.one_in(6) },
        4 | 8 => Action::Cut { size: cut_size(random, model, &name), name },
        5 | 9 => Action::Stat { name },
        10 => Action::Remove { name },
        11 | 12 => Action::Rename { from: name, to: self::name(model, random) },
        13 => Action::Link { from: name, to: any_file(random) },
        14 => Action::Mkdir { name: any_dir(random) },
        15 if random.one_in(2) => Action::Remove { name: any_dir(random) },
        6 | 7 | 15 | 16 => Action::List { dir: String::new() },
        _ => Action::List { dir: any_dir(random) },
    }
}

/// The name of a file: mostly one that is there.
fn name(model: &Model, random: &mut SeededRng) -> String {
    let there: Vec<String> = model.names.keys().cloned().collect();
    match random.choose(&there) {
        Some(name) if !random.one_in(3) => name,
        _ => any_file(random),
    }
}

fn any_file(random: &mut SeededRng) -> String {
    random.choose(&FILES).expect("names").to_owned()
}

fn any_dir(random: &mut SeededRng) -> String {
    random.choose(&DIRS).expect("names").to_owned()
}

/// How many bytes at a time: few, mostly.
fn length(random: &mut SeededRng) -> u64 {
    match random.below(12) {
        0..=6 => random.below(300),
        7 | 8 => random.below(8 << 10),
        9 | 10 => random.below(80 << 10),
        _ => random.below(1200 << 10),
    }
}

/// Near one of the sizes that matter.
fn edge(random: &mut SeededRng) -> u64 {
    let edge = random.choose(&EDGES).expect("edges") + random.below(2000);
    edge.saturating_sub(random.below(2000))
}

/// Somewhere in a file of this size, or behind it.
fn place(random: &mut SeededRng, len: u64) -> u64 {
    match random.below(5) {
        0 => edge(random),
        1 => len + random.below(5000),
        2 => random.below(64 << 10),
        _ => random.below(len + 1),
    }
}

fn size(random: &mut SeededRng, model: &Model, file: FileNo) -> u64 {
    match random.below(3) {
        0 => edge(random),
        _ => random.below(model.files[file].bytes.len() as u64 + 1),
    }
}

fn cut_size(random: &mut SeededRng, model: &Model, name: &str) -> u64 {
    match model.find(name) {
        Ok(file) => size(random, model, file),
        Err(_) => edge(random),
    }
}
