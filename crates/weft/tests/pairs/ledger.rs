//! How often who wrote for whom, in which size and in which trouble; kept in a file, so that many
//! runs add up.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path;

/// Tries of one pair.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub tries: u64,
    /// By size class.
    pub by_class: BTreeMap<usize, u64>,
    /// Tries that were under way when a fault began, or began in it, by its name.
    pub by_fault: BTreeMap<String, u64>,
}

/// Tries by writer and reader, and faults by name.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub pairs: BTreeMap<(String, String), Counts>,
    pub faults: BTreeMap<String, u64>,
}

impl Ledger {
    /// What earlier runs left in a file; an empty one if there is none.
    pub fn read(path: &Path) -> Ledger {
        let mut ledger = Ledger::default();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return ledger,
            Err(e) => panic!("{}: {e}", path.display()),
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("ledger: {line:?}"));
            match words[..] {
                ["fault", name, count] => ledger.faults.insert(name.to_owned(), number(count)),
                [writer, reader, what, count] => {
                    let counts = ledger.of(writer, reader);
                    match (what, what.strip_prefix("class ")) {
                        ("tries", _) => counts.tries = number(count),
                        (_, Some(class)) => {
                            counts.by_class.insert(number(class) as usize, number(count));
                        }
                        _ => drop(counts.by_fault.insert(what.to_owned(), number(count))),
                    }
                    None
                }
                _ => panic!("ledger: {line:?}"),
            };
        }
        ledger
    }

    /// Replaces the file.
    pub fn write(&self, path: &Path) {
        let mut text = String::new();
        for ((writer, reader), counts) in &self.pairs {
            let mut row =
                |what: &str, n: u64| text += &format!("{writer}\t{reader}\t{what}\t{n}\n");
            row("tries", counts.tries);
            counts.by_class.iter().for_each(|(class, n)| row(&format!("class {class}"), *n));
            counts.by_fault.iter().for_each(|(fault, n)| row(fault, *n));
        }
        for (name, count) in &self.faults {
            text += &format!("fault\t{name}\t{count}\n");
        }
        let beside = path.with_extension("new");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("its folder");
        std::fs::write(&beside, text).expect("the ledger");
        std::fs::rename(&beside, path).expect("the ledger");
    }

    /// One more try.
    pub fn count(&mut self, writer: &str, reader: &str, class: usize, faults: &[String]) {
        let counts = self.of(writer, reader);
        counts.tries += 1;
        *counts.by_class.entry(class).or_default() += 1;
        for fault in faults {
            *counts.by_fault.entry(fault.clone()).or_default() += 1;
        }
    }

    /// The pair that was tried least, of these.
    pub fn least(&self, pairs: &[(String, String)]) -> usize {
        let tries = |i: &usize| self.pairs.get(&pairs[*i]).map_or(0, |counts| counts.tries);
        (0..pairs.len()).min_by_key(tries).expect("a pair")
    }

    /// The size class in which a pair was tried least.
    pub fn least_class(&self, pair: &(String, String), classes: usize) -> usize {
        let of = |class: &usize| {
            self.pairs.get(pair).and_then(|counts| counts.by_class.get(class)).copied()
        };
        (0..classes).min_by_key(|class| of(class).unwrap_or_default()).expect("a class")
    }

    fn of(&mut self, writer: &str, reader: &str) -> &mut Counts {
        self.pairs.entry((writer.to_owned(), reader.to_owned())).or_default()
    }
}

impl Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((writer, reader), counts) in &self.pairs {
            write!(f, "{writer:>8} -> {reader:<8} {:6} tries; by size", counts.tries)?;
            counts.by_class.values().try_for_each(|n| write!(f, " {n}"))?;
            write!(f, "; faults")?;
            counts.by_fault.iter().try_for_each(|(name, n)| write!(f, " {name} {n}"))?;
            writeln!(f)?;
        }
        write!(f, "faults:")?;
        self.faults.iter().try_for_each(|(name, n)| write!(f, " {name} {n}"))
    }
}
