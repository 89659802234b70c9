//! How files are copied, by the options of the three commands.

/// Both sides are of this machine.
pub(super) const BOTH_LOCAL: &str = "neither is on a cluster: `cp` copies local files (write a \
     remote path as weft://HOST/PATH, or as :/PATH for the server of --server)";

/// How files are copied.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How {
    /// What the user called it.
    pub(super) command: &'static str,
    pub(super) recursive: bool,
    /// A link that was given means what it leads to.
    pub(super) follows_given: bool,
    pub(super) in_place: bool,
    pub(super) preserve: bool,
    pub(super) verify: bool,
    pub(super) resume: bool,
    /// Each file is named when it is copied, and by whom.
    pub(super) verbose: bool,
    /// What is copied to this machine is on its disk at the end.
    pub(super) syncs: bool,
}

impl How {
    /// Whether copies get the times of their sources.
    pub(super) fn keeps_times(&self) -> bool {
        self.preserve || self.resume
    }
    /// Attributes that copies on this machine keep of their sources; none if nothing is set.
    pub(super) fn keeps(&self) -> Option<Keeps> {
        match (self.preserve, self.resume) {
            (true, _) => Some(Keeps::All),
            (false, true) => Some(Keeps::Times),
            (false, false) => None,
        }
    }
}

/// Attributes that a copy keeps of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    /// The mode, less the umask.
    Mode,
    /// The times only.
    Times,
    /// Everything that is preserved: owner, mode, times.
    All,
}
