//! Modes as `chmod` takes them: octal, or `u+x,go-w`.

use super::umask::umask;

/// A change of modes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeChange(Vec<Clause>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Clause {
    /// Bits of the classes that are meant.
    who: u32,
    /// What the umask takes away, where no class was said.
    spared: u32,
    how: How,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Add,
    Remove,
    Set,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// These bits of all classes; and execution where it makes sense.
    Bits(u32, bool),
    /// What this class has: the shift to its bits.
    CopyOf(u32),
}

const ALL: u32 = 0o7777;

impl std::str::FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<ModeChange, String> {
        ModeChange::read(text, umask()).ok_or_else(|| {
            format!("{text}: not a mode; write it as 644, 0755, u+x, go-w or u=rw,go=r")
        })
    }
}

impl ModeChange {
    fn read(text: &str, umask: u32) -> Option<ModeChange> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= ALL)?;
            let what = What::Bits(bits, false);
            return Some(ModeChange(vec![Clause { who: ALL, spared: 0, how: How::Set, what }]));
        }
        let mut clauses = Vec::new();
        for part in text.split(',') {
            let at = part.find(['+', '-', '='])?;
            let (classes, mut actions) = part.split_at(at);
            let who = classes.chars().try_fold(0, |who, class| Some(who | class_bits(class)?))?;
            let (who, spared) = if classes.is_empty() { (ALL, umask) } else { (who, 0) };
            while let Some(how) = actions.chars().next() {
                let rest = &actions[1..];
                let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
                let how = match how {
                    '+' => How::Add,
                    '-' => How::Remove,
                    _ => How::Set,
                };
                clauses.push(Clause { who, spared, how, what: what(&rest[..end])? });
                actions = &rest[end..];
            }
        }
        Some(ModeChange(clauses))
    }

    /// The mode after the change.
    pub(super) fn of(&self, mode: u32, is_dir: bool) -> u32 {
        self.0.iter().fold(mode & ALL, |mode, clause| clause.of(mode, is_dir))
    }
}

impl Clause {
    fn of(&self, mode: u32, is_dir: bool) -> u32 {
        let bits = match self.what {
            What::Bits(bits, somewhere) => {
                let runs = somewhere && (is_dir || mode & 0o111 != 0);
                bits | if runs { 0o111 } else { 0 }
            }
            What::CopyOf(shift) => {
                let has = mode >> shift & 7;
                has << 6 | has << 3 | has
            }
        };
        let bits = bits & self.who & !self.spared;
        match self.how {
            How::Add => mode | bits,
            How::Remove => mode & !bits,
            How::Set => mode & !(self.who & !self.spared) | bits,
        }
    }
}

/// The bits of a class, the special ones with those they stand beside.
fn class_bits(class: char) -> Option<u32> {
    Some(match class {
        'u' => 0o4700,
        'g' => 0o2070,
        'o' => 0o1007,
        'a' => ALL,
        _ => return None,
    })
}

fn what(text: &str) -> Option<What> {
    match text {
        "u" => return Some(What::CopyOf(6)),
        "g" => return Some(What::CopyOf(3)),
        "o" => return Some(What::CopyOf(0)),
        _ => {}
    }
    let (mut bits, mut somewhere) = (0, false);
    for letter in text.chars() {
        bits |= match letter {
            'r' => 0o444,
            'w' => 0o222,
            'x' => 0o111,
            's' => 0o6000,
            't' => 0o1000,
            'X' => {
                somewhere = true;
                0
            }
            _ => return None,
        };
    }
    Some(What::Bits(bits, somewhere))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What GNU chmod makes of these, with umask 022.
    #[test]
    fn changes() {
        for (text, before, after) in [
            ("644", 0o755, 0o644),
            ("0", 0o755, 0),
            ("4755", 0o644, 0o4755),
            ("u+x", 0o644, 0o744),
            ("go-w", 0o666, 0o644),
            ("u=rw,go=r", 0o777, 0o644),
            ("a+x", 0o644, 0o755),
            ("+x", 0o600, 0o711),
            ("+w", 0o444, 0o644),
            ("u=rwx,g=u,o=", 0o000, 0o770),
            ("g-s,u+s", 0o2755, 0o4755),
            ("+t", 0o777, 0o1777),
            ("a+X", 0o644, 0o644),
            ("a+X", 0o744, 0o755),
            ("u-w+x", 0o644, 0o544),
            ("o=u", 0o640, 0o646),
        ] {
            let change = ModeChange::read(text, 0o022).unwrap();
            assert_eq!(change.of(before, false), after, "{text}");
        }
        assert_eq!(ModeChange::read("a+X", 0).unwrap().of(0o644, true), 0o755);
        for text in ["", "x", "8", "77777", "u", "q+x", "u+q", "+rwx,", "-1"] {
            assert!(ModeChange::read(text, 0).is_none(), "{text}");
        }
        assert!("9".parse::<ModeChange>().unwrap_err().contains("not a mode"));
    }
}
