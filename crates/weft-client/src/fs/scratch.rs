//! Temporary names of files that are being put.
//!
//! A file grows under a hidden name beside its own, and gets its own with all its bytes. The name
//! says which client writes it. Whoever is the same client later ([`crate::Identity`]) removes
//! what was left there by one that is dead; what others have left is removed when it is old.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use bytes::Bytes;
use weft_nfs::{Attrs, Component};

use super::replacing::{are_digits, digits, kept};
use crate::sync::Mutex;

/// Between the name of the file and who writes it.
const MARK: &str = ".weft-put-";
/// What nobody has written to for so long is nobody's any more.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// The temporary names in use, from the root, and whose they are.
pub(super) struct Scratch {
    owner: u64,
    names: Mutex<Vec<Vec<Component>>>,
}

impl Scratch {
    /// None yet, of the client with this owner.
    pub(super) fn of(owner_id: &Bytes) -> Scratch {
        let mut hasher = DefaultHasher::new();
        owner_id.hash(&mut hasher);
        Scratch { owner: hasher.finish(), names: Mutex::default() }
    }

    /// A temporary name beside a file, ours until it is given up.
    pub(super) fn take(&self, dirs: &[Component], name: &Component) -> Component {
        let mut names = self.names.lock();
        let mut number = self.owner;
        loop {
            let temporary = temporary(&name.0, number);
            let mut path = dirs.to_vec();
            path.push(temporary.clone());
            if !names.contains(&path) {
                names.push(path);
                return temporary;
            }
            number = number.wrapping_add(1);
        }
    }

    /// All that are in use.
    pub(super) fn all(&self) -> Vec<Vec<Component>> {
        self.names.lock().clone()
    }

    /// The name is free again.
    pub(super) fn give_up(&self, path: &[Component]) {
        self.names.lock().retain(|p| p != path);
    }
}

/// What begins every temporary name of a file. Of a long name the end is left out.
pub(super) fn beginning(name: &[u8]) -> Vec<u8> {
    [b".", kept(name, MARK), MARK.as_bytes()].concat()
}

fn temporary(name: &[u8], number: u64) -> Component {
    let mut temporary = beginning(name);
    temporary.extend_from_slice(digits(number).as_bytes());
    Component(temporary.into())
}

/// Whether this is a temporary name with that beginning.
pub(super) fn is_temporary(name: &[u8], beginning: &[u8]) -> bool {
    name.strip_prefix(beginning).is_some_and(are_digits)
}

/// Whether a file was last written to long before another one, both by the server's clock, and is
/// the same user's.
pub(super) fn is_old(left: &Attrs, new: &Attrs) -> bool {
    let (Some(then), Some(now)) = (left.time_modify, new.time_modify) else { return false };
    let seconds = now.seconds.saturating_sub(then.seconds);
    left.owner.is_some() && left.owner == new.owner && seconds > OLD.as_secs().cast_signed()
}

#[cfg(test)]
mod tests {
    use weft_nfs::{NfsTime, Opaque};

    use super::*;
    use crate::fs::replacing::{DIGITS, NAME_BYTES_MAX};

    fn component(name: &str) -> Component {
        Component(Bytes::copy_from_slice(name.as_bytes()))
    }

    /// Names differ within a client, return when given up, are the same for the same client later,
    /// and other for another.
    #[test]
    fn names_belong_to_a_client() {
        let owner = Bytes::from_static(b"a");
        let (scratch, name) = (Scratch::of(&owner), component("f"));
        let first = scratch.take(&[], &name);
        let second = scratch.take(&[], &name);
        assert_ne!(first, second);
        assert!(first.0.starts_with(b".f.weft-put-") && first.0.len() == 12 + DIGITS);
        assert_eq!(scratch.take(&[component("d")], &name), first, "another directory");
        scratch.give_up(std::slice::from_ref(&first));
        assert_eq!(scratch.take(&[], &name), first);
        assert_eq!(Scratch::of(&owner).take(&[], &name), first);
        assert_ne!(Scratch::of(&Bytes::from_static(b"b")).take(&[], &name), first);
    }

    /// A name of any length has a temporary one that is short enough; nothing else is one.
    #[test]
    fn what_is_a_temporary_name() {
        for len in [1, 100, 228, 229, 255] {
            let name = vec![b'n'; len];
            let temporary = temporary(&name, u64::MAX);
            assert!(temporary.0.len() <= NAME_BYTES_MAX, "{len}");
            assert!(is_temporary(&temporary.0, &beginning(&name)));
        }
        let beginning = beginning(b"f");
        for (name, is) in [
            (".f.weft-put-0123456789abcdef", true),
            (".f.weft-put-0123456789abcde", false),
            (".f.weft-put-0123456789abcdef0", false),
            (".f.weft-put-0123456789abcdeF", false),
            (".g.weft-put-0123456789abcdef", false),
            ("f.weft-put-0123456789abcdef", false),
            ("f", false),
        ] {
            assert_eq!(is_temporary(name.as_bytes(), &beginning), is, "{name}");
        }
    }

    /// Old is what the same user left a day before; what has no time or owner is never old.
    #[test]
    fn what_is_old() {
        let at = |seconds, owner: &'static str| Attrs {
            time_modify: Some(NfsTime { seconds, nseconds: 0 }),
            owner: Some(Opaque(Bytes::from_static(owner.as_bytes()))),
            ..Attrs::default()
        };
        let day = 24 * 3600;
        assert!(is_old(&at(5, "1"), &at(6 + day, "1")));
        assert!(!is_old(&at(5, "1"), &at(5 + day, "1")));
        assert!(!is_old(&at(5, "1"), &at(6 + day, "2")));
        assert!(!is_old(&at(6 + day, "1"), &at(5, "1")), "the clock was set back");
        assert!(!is_old(&Attrs::default(), &at(6 + day, "1")));
    }
}
