//! Who keeps a second time what this client knows of files, and has to be told when that need not
//! be true any more: the kernel behind a mount, say.

use weft_nfs::FileHandle;

use crate::boxed::Boxed;

/// What need not be true of a file from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Nobody tells us any more of what others do to it: attributes are to be asked for again.
    Unguarded,
    /// The same, and another client is about to do something to it, or has: its bytes, too.
    Changing,
}

/// A file of which something need not be true from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub file: FileHandle,
    /// What of it.
    pub what: What,
}

/// Is told what this client does not vouch for any more ([`Change`]).
///
/// Nothing of where it keeps what, and for whom, is known behind this trait; nothing of sessions
/// and delegations before it. It is told of each file that was delegated and is not any more, but
/// not of one that he who watches has removed (`Nodes::remove_file`), nor of a server that has
/// forgotten us, which he looks for (`Nodes::losses`).
pub trait Watcher: Send + Sync + 'static {
    /// Takes these changes, all of them: whoever cannot remember each file takes them for changes
    /// of all files. It is called by a task that holds no lock, and must not wait; what it gives
    /// back is done once nothing old is kept. The delegations go back after that, or after
    /// [`crate::limits::WATCHER_PATIENCE`]: so whoever wanted them sees nobody read what was before
    /// his change, unless that hangs.
    fn changing(&self, changes: &[Change]) -> Boxed<'static, ()>;
}
