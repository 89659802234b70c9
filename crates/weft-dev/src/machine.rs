//! Transition tables, made from the machine itself: every state that events lead to, and what each
//! event does there.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::Path;

/// More states than a reader follows: the description of a state says too much.
const STATES_MAX: usize = 64;

/// What an event did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was accepted; the answer, or nothing.
    Done(String),
    /// It was refused.
    Refused(String),
    /// It cannot happen in this state.
    Never,
}

impl Outcome {
    /// Accepted, without an answer.
    pub const OK: Outcome = Outcome::Done(String::new());

    /// Accepted, with this answer.
    pub fn said(answer: impl Display) -> Outcome {
        Outcome::Done(answer.to_string())
    }

    /// Accepted, whatever the answer; or refused, for this reason.
    pub fn of<T, E: Display>(result: Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::OK,
            Err(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }
}

type Event<M> = Box<dyn Fn(&mut M) -> Outcome>;

/// A state machine under observation.
///
/// The states are not listed but reached: from the first one, by every event, until nothing new
/// appears. What a state is called is what `describe` sees of it, so that a table cannot tell of
/// states that are not there; and one that is reached in two ways must behave in one.
pub struct Machine<M> {
    about: &'static str,
    start: fn() -> M,
    describe: fn(&M) -> String,
    events: Vec<(String, Event<M>)>,
}

/// What an event did in a state, and the state after it.
type Row = (Outcome, String);

impl<M> Machine<M> {
    /// A machine in its first state. `about` is the head of the table: what it is, and where the
    /// RFC tells of it.
    pub fn new(about: &'static str, start: fn() -> M, describe: fn(&M) -> String) -> Self {
        Machine { about, start, describe, events: Vec::new() }
    }

    /// Adds an event.
    pub fn on(mut self, name: impl Display, event: impl Fn(&mut M) -> Outcome + 'static) -> Self {
        self.events.push((name.to_string(), Box::new(event)));
        self
    }

    /// The machine after these events.
    fn after(&self, path: &[usize]) -> M {
        let mut machine = (self.start)();
        for event in path {
            (self.events[*event].1)(&mut machine);
        }
        machine
    }

    fn rows(&self, path: &[usize]) -> Vec<Row> {
        let row = |(_, event): &(String, Event<M>)| {
            let mut machine = self.after(path);
            let outcome = event(&mut machine);
            (outcome, (self.describe)(&machine))
        };
        self.events.iter().map(row).collect()
    }

    /// The table.
    ///
    /// # Panics
    /// If there are too many states, or a state behaves in two ways: its description leaves out
    /// something that matters.
    pub fn table(&self) -> String {
        let first = (self.describe)(&(self.start)());
        let mut found = vec![(first.clone(), Vec::new())];
        let mut seen: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        let mut text = format!("# {}\n", self.about);
        let mut at = 0;
        while let Some((state, path)) = found.get(at).cloned() {
            at += 1;
            let rows = self.rows(&path);
            if let Some(known) = seen.get(&state) {
                assert_eq!(known, &rows, "{state:?} after {}", self.names(&path));
                continue;
            }
            assert!(seen.len() < STATES_MAX, "too many states; the last one is {state:?}");
            for (event, (outcome, next)) in rows.iter().enumerate() {
                let longer = || path.iter().copied().chain([event]).collect::<Vec<_>>();
                if *outcome != Outcome::Never && (*next != state || path.len() < 2) {
                    found.push((next.clone(), longer()));
                }
            }
            self.write(&mut text, &state, &rows);
            seen.insert(state, rows);
        }
        text
    }

    fn names(&self, path: &[usize]) -> String {
        path.iter().map(|e| self.events[*e].0.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn write(&self, text: &mut String, state: &str, rows: &[Row]) {
        let width = self.events.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        writeln!(text, "\n{state}").expect("a string takes it");
        for ((name, _), (outcome, next)) in self.events.iter().zip(rows) {
            let change = if next == state { "no change".into() } else { format!("-> {next}") };
            let line = match outcome {
                Outcome::Never => continue,
                Outcome::Done(said) if said.is_empty() => change,
                Outcome::Done(said) => format!("{change} [{said}]"),
                Outcome::Refused(why) if next == state => format!("refused {why}"),
                Outcome::Refused(why) => format!("refused {why} {change}"),
            };
            writeln!(text, "  {name:width$}  {line}").expect("a string takes it");
        }
    }
}

/// Compares a table with the one in the repository, at `snapshots/NAME.txt` of the crate whose
/// `CARGO_MANIFEST_DIR` is given; with `WEFT_BLESS=1` it is written anew.
///
/// # Panics
/// If they differ.
pub fn assert_snapshot(crate_dir: &str, name: &str, table: &str) {
    let at = Path::new(crate_dir).join("snapshots").join(name).with_extension("txt");
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(&at, table).expect("the snapshot can be written");
    }
    let kept = std::fs::read_to_string(&at).unwrap_or_default();
    let differs = kept.lines().zip(table.lines()).find(|(a, b)| a != b);
    assert!(kept == table, "{name}: {differs:?}; WEFT_BLESS=1 writes {} anew", at.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A door with a lock.
    #[derive(Default)]
    struct Door {
        open: bool,
        locked: bool,
        slammed: usize,
    }

    fn door(describe: fn(&Door) -> String) -> Machine<Door> {
        Machine::new("A door: no RFC.", Door::default, describe)
            .on("open", |d| match (d.locked, d.open) {
                (true, _) => Outcome::Refused("LOCKED".into()),
                (false, true) => Outcome::Never,
                (false, false) => {
                    d.open = true;
                    Outcome::OK
                }
            })
            .on("shut", |d| {
                d.slammed += usize::from(d.open);
                d.open = false;
                if d.slammed > 0 { Outcome::said("bang") } else { Outcome::OK }
            })
            .on("lock", |d| {
                d.locked = !d.open;
                Outcome::OK
            })
    }

    /// All states are found and each event is told in each, but where it cannot happen.
    #[test]
    fn tables_are_whole() {
        let mut machine = door(|d| format!("open {}, locked {}", d.open, d.locked));
        machine.events[1].1 = Box::new(|d| {
            d.open = false;
            Outcome::OK
        });
        let expected = "\
# A door: no RFC.

open false, locked false
  open  -> open true, locked false
  shut  no change
  lock  -> open false, locked true

open true, locked false
  shut  -> open false, locked false
  lock  no change

open false, locked true
  open  refused LOCKED
  shut  no change
  lock  no change
";
        assert_eq!(machine.table(), expected);
    }

    /// A description that leaves out what matters is found out.
    #[test]
    #[should_panic(expected = "after open, shut")]
    fn states_behave_in_one_way() {
        door(|d| format!("open {}, locked {}", d.open, d.locked)).table();
    }

    /// So is one that has no end.
    #[test]
    #[should_panic(expected = "too many states")]
    fn states_are_few() {
        door(|d| format!("open {}, locked {}, slammed {}", d.open, d.locked, d.slammed)).table();
    }
}
