//! Temporary names of files that are being put.
//!
//! A file grows under a hidden name beside its own, and gets its own with all its bytes. The name
//! says which client writes it. Whoever is the same client later ([`crate::Identity`]) writes over
//! what was left there by one that is dead; what others have left is removed when it is old.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use bytes::Bytes;
use weft_nfs::{Attrs, Component, NfsStat, OpArgs, ops::RemoveArgs};

use super::client::Client;
use crate::{error::ClientError, limits, sync::Mutex};

/// Between the name of the file and who writes it.
const MARK: &str = ".weft-put-";
/// Hexadecimal digits that say who writes it.
const DIGITS: usize = 16;
/// Longest name of a file.
const NAME_BYTES_MAX: usize = 255;
/// What nobody has written to for so long is nobody's any more.
const OLD: Duration = Duration::from_secs(24 * 3600);
/// Entries of a directory looked through for old ones.
const LOOKED_AT_MAX: usize = 4096;

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
    fn take(&self, dirs: &[Component], name: &Component) -> Component {
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

    fn give_up(&self, path: &[Component]) {
        self.names.lock().retain(|p| p != path);
    }
}

/// What begins every temporary name of a file. Of a long name the end is left out.
fn beginning(name: &[u8]) -> Vec<u8> {
    let room = NAME_BYTES_MAX - 1 - MARK.len() - DIGITS;
    let kept = name.get(..room).unwrap_or(name);
    [b".", kept, MARK.as_bytes()].concat()
}

fn temporary(name: &[u8], number: u64) -> Component {
    let mut temporary = beginning(name);
    temporary.extend_from_slice(format!("{number:0DIGITS$x}").as_bytes());
    Component(temporary.into())
}

/// Whether this is a temporary name with that beginning.
fn is_temporary(name: &[u8], beginning: &[u8]) -> bool {
    let is_digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let number = name.strip_prefix(beginning);
    number.is_some_and(|n| n.len() == DIGITS && n.iter().all(is_digit))
}

/// Whether a file was last written to long before another one, both by the server's clock, and is
/// the same user's.
fn is_old(left: &Attrs, new: &Attrs) -> bool {
    let (Some(then), Some(now)) = (left.time_modify, new.time_modify) else { return false };
    let seconds = now.seconds.saturating_sub(then.seconds);
    left.owner.is_some() && left.owner == new.owner && seconds > OLD.as_secs().cast_signed()
}

/// A temporary name in use. Dropped in the middle of a transfer, it stays with the client, which
/// removes the file when it is closed.
pub(super) struct Temporary<'a> {
    pub(super) dirs: &'a [Component],
    pub(super) name: Component,
}

impl Temporary<'_> {
    pub(super) fn path(&self) -> Vec<Component> {
        let mut path = self.dirs.to_vec();
        path.push(self.name.clone());
        path
    }
}

impl Client {
    /// A temporary name beside a file.
    pub(super) fn temporary<'a>(&self, dirs: &'a [Component], name: &Component) -> Temporary<'a> {
        Temporary { dirs, name: self.scratch.take(dirs, name) }
    }

    /// The file has its own name now.
    pub(super) fn keep(&self, temporary: &Temporary<'_>) {
        self.scratch.give_up(&temporary.path());
    }

    /// Removes the file, if that is soon done.
    pub(super) async fn discard(&self, path: Vec<Component>) {
        let removal = self.remove_scratch(path.clone());
        match tokio::time::timeout(limits::DISCARD_LIMIT, removal).await {
            Ok(Ok(())) => self.scratch.give_up(&path),
            left => tracing::debug!(?path, ?left, "a temporary file stays"),
        }
    }

    /// Removes the files of all transfers that did not end, if that is soon done.
    pub(super) async fn discard_all(&self) {
        let left: Vec<_> = self.scratch.names.lock().clone();
        let removals = async {
            for path in left {
                self.discard(path).await;
            }
        };
        let _ = tokio::time::timeout(limits::DISCARD_LIMIT, removals).await;
    }

    async fn remove_scratch(&self, mut path: Vec<Component>) -> Result<(), ClientError> {
        let Some(target) = path.pop() else { return Ok(()) };
        let remove = OpArgs::Remove(RemoveArgs { target });
        match self.in_directory(path, vec![remove]).await {
            Err(e) if e.status() == Some(NfsStat::NOENT) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Removes what dead clients of the same user have left of this file, if it is old. What
    /// cannot be seen or removed stays.
    pub(super) async fn remove_old(&self, dirs: &[Component], name: &Component, new: &Attrs) {
        let beginning = beginning(&name.0);
        let Ok(mut entries) = self.read_dir_of(dirs.to_vec()).await else { return };
        let mut old = Vec::new();
        for _ in 0..LOOKED_AT_MAX {
            let Ok(Some(entry)) = entries.next().await else { break };
            if is_temporary(&entry.name.0, &beginning) && is_old(&entry.attrs, new) {
                old.push(entry.name);
            }
        }
        for name in old {
            let mut path = dirs.to_vec();
            path.push(name);
            if let Err(e) = self.remove_scratch(path).await {
                tracing::debug!("an old temporary file stays: {e}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::{NfsTime, Opaque};

    use super::*;

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

    /// A name of any length has a temporary one that is short enough; nothing else is taken for one.
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
