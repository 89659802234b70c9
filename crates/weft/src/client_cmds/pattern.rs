//! Patterns of names: `*`, `?` and `[a-z]`, as shells have them.

/// A pattern of one name.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Byte(u8),
    Any,
    AnyRun,
    /// Ranges, and whether a byte must be outside of them.
    Set(Vec<(u8, u8)>, bool),
}

impl Pattern {
    /// Reads a pattern; what is no complete set is meant as it is, and so is what a `\` precedes.
    pub(super) fn new(text: &[u8]) -> Pattern {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let part = match byte {
                b'*' if parts.last() == Some(&Part::AnyRun) => continue,
                b'*' => Part::AnyRun,
                b'?' => Part::Any,
                b'\\' if !after.is_empty() => {
                    rest = &after[1..];
                    Part::Byte(after[0])
                }
                b'[' => match set(after) {
                    Some((part, behind)) => {
                        rest = behind;
                        part
                    }
                    None => Part::Byte(b'['),
                },
                byte => Part::Byte(byte),
            };
            parts.push(part);
        }
        Pattern(parts)
    }

    /// Whether a text says something else than itself.
    pub(super) fn is_one(text: &[u8]) -> bool {
        Pattern::new(text).0.iter().any(|part| !matches!(part, Part::Byte(_)))
    }

    /// Whether a name fits. A point at its beginning is only meant where it is written.
    pub(super) fn fits_visible(&self, name: &[u8]) -> bool {
        let hidden = name.first() == Some(&b'.');
        (!hidden || self.0.first() == Some(&Part::Byte(b'.'))) && self.fits(name)
    }

    /// Whether a name fits. The time is that of the lengths multiplied, at most: a run that was
    /// too short is made longer, the one before it never again.
    pub(super) fn fits(&self, name: &[u8]) -> bool {
        let (mut part, mut at) = (0, 0);
        let mut last_run: Option<(usize, usize)> = None;
        while let Some(byte) = name.get(at) {
            match self.0.get(part) {
                Some(Part::AnyRun) => {
                    last_run = Some((part + 1, at));
                    part += 1;
                }
                Some(wanted) if wanted.takes(*byte) => {
                    part += 1;
                    at += 1;
                }
                _ => match last_run {
                    Some((behind, from)) => {
                        last_run = Some((behind, from + 1));
                        part = behind;
                        at = from + 1;
                    }
                    None => return false,
                },
            }
        }
        self.0[part..].iter().all(|left| *left == Part::AnyRun)
    }
}

impl Part {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Part::Byte(wanted) => *wanted == byte,
            Part::Any => true,
            Part::AnyRun => false,
            Part::Set(ranges, outside) => {
                ranges.iter().any(|(from, to)| (from..=to).contains(&&byte)) != *outside
            }
        }
    }
}

/// What is behind `[`: the set, and what follows its end. A `]` that comes first is in the set.
fn set(text: &[u8]) -> Option<(Part, &[u8])> {
    let outside = matches!(text.first(), Some(b'!' | b'^'));
    let body = &text[usize::from(outside)..];
    let end = body.iter().skip(1).position(|b| *b == b']')? + 1;
    let (mut inside, behind) = (&body[..end], &body[end + 1..]);
    let mut ranges = Vec::new();
    while let Some((&from, after)) = inside.split_first() {
        match after {
            [b'-', to, rest @ ..] => {
                ranges.push((from, *to));
                inside = rest;
            }
            _ => {
                ranges.push((from, from));
                inside = after;
            }
        }
    }
    Some((Part::Set(ranges, outside), behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What shells say of these.
    #[test]
    fn names() {
        for (pattern, fits, others) in [
            ("*.txt", &["a.txt", ".txt", "a.b.txt"][..], &["a.txt.gz", "txt"][..]),
            ("a?c", &["abc", "a*c"], &["ac", "abbc"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x"]),
            ("[!a-c]x", &["dx"], &["ax"]),
            ("[]x]", &["]", "x"], &["y"]),
            ("[a", &["[a"], &["a"]),
            (r"\*", &["*"], &["a"]),
            ("**a*b", &["ab", "xaxbxb"], &["ba"]),
            ("", &[""], &["a"]),
            ("*", &["", "a"], &[]),
        ] {
            let of = Pattern::new(pattern.as_bytes());
            assert!(fits.iter().all(|n| of.fits(n.as_bytes())), "{pattern}");
            assert!(!others.iter().any(|n| of.fits(n.as_bytes())), "{pattern}");
        }
        assert!(!Pattern::new(b"*").fits_visible(b".x") && Pattern::new(b".*").fits_visible(b".x"));
        assert!(Pattern::is_one(b"a?") && Pattern::is_one(b"[a]"));
        assert!(!Pattern::is_one(b"ab") && !Pattern::is_one(b"\x1b[31m"));
    }

    /// A pattern that would be tried in very many ways ends soon.
    #[test]
    fn hostile_patterns_end() {
        let pattern = Pattern::new("a*".repeat(100).as_bytes());
        assert!(!pattern.fits(&[&[b'a'; 20_000][..], b"b"].concat()[..99]));
        assert!(!Pattern::new(b"*a*a*a*a*a*a*a*b").fits(&[b'a'; 20_000]));
    }
}
