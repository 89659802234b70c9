//! What a row says of an operation.

use weft_nfs::{NfsStat, OpNum};

/// Where an operation may stand in a COMPOUND (RFC 8881 §2.10.2.1, §16.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// After SEQUENCE.
    InSession,
    /// First: SEQUENCE itself.
    First,
    /// Alone in a COMPOUND without SEQUENCE, or after SEQUENCE.
    AloneOrInSession,
    /// Alone in a COMPOUND without SEQUENCE; nowhere else.
    Alone,
}

/// The two kinds of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Metadata server.
    Mds,
    /// Data server.
    Ds,
}

/// Which servers execute an operation; the others answer NOTSUPP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltBy {
    /// The metadata server.
    Mds,
    /// Metadata and data servers. A data server has no namespace, no opens and no attributes
    /// (RFC 8881 §13.6).
    Both,
    /// None: pNFS files layouts have no use for it, or `docs/deviations.md` and
    /// `docs/semantics.md` give the reason.
    Nobody,
    /// None, since 4.1 forbids it (RFC 8881 §17: "mandatory not to implement").
    Obsolete,
}

/// What an operation has to do with the export: which of them its rules and flavors concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportUse {
    /// Nothing: state and devices.
    Nothing,
    /// It makes a client or a session, or ends one: for those that are served only.
    ComesOrGoes,
    /// It sets the current filehandle.
    PutsHandle,
    /// It saves or restores it.
    MovesHandle,
    /// It asks how to come in.
    Security,
    /// It goes on to another object.
    Walks,
    /// It looks at an object, or changes one. LAYOUTCOMMIT only looks: whoever may not write has
    /// no layout to commit.
    Uses,
}

impl ExportUse {
    /// Whether the operation, right after one that puts a filehandle, leaves it to a later one to
    /// answer WRONGSEC: it asks for flavors, replaces the handle, or may say so itself
    /// (RFC 8881 §2.6.3.1.1).
    pub fn defers_flavor(self) -> bool {
        match self {
            ExportUse::PutsHandle
            | ExportUse::MovesHandle
            | ExportUse::Security
            | ExportUse::Walks => true,
            ExportUse::Nothing | ExportUse::ComesOrGoes | ExportUse::Uses => false,
        }
    }
}

/// What a success of an operation changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing of the volume, no open and no lock.
    Nothing,
    /// Opens or locks.
    State,
    /// Names, attributes or data.
    Changes,
    /// As `Changes`, and it makes names, of files or of attributes: refused while the volume's
    /// disk is nearly full.
    Grows,
    /// Opens; as `Grows` if it may make the file, as `Changes` if it opens for writing. One that
    /// makes may find the file there: `ops/open.rs` of `weft-mds` looks.
    Opens,
}

/// One operation.
#[derive(Debug)]
pub struct Row {
    /// Number.
    pub op: OpNum,
    /// First minor version that has it; 0 for those that 4.1 made obsolete too.
    pub since_minor: u32,
    /// Where it may stand.
    pub position: Position,
    /// Who executes it.
    pub built_by: BuiltBy,
    /// What it has to do with the export.
    pub export: ExportUse,
    /// What it changes.
    pub effect: Effect,
    pub(super) statuses: &'static [NfsStat],
    /// Where we go beyond the RFCs' tables, and why.
    pub(super) beyond: &'static [(NfsStat, &'static str)],
}

/// Most bytes of the successful result of an operation that changes something: OPEN's with a
/// read delegation (number, status, stateid, change, flags, bitmap, delegation), rounded up.
const CHANGE_RESULT_BYTES_MAX: usize = 128;

impl Row {
    /// Whether it is that of a number without an operation.
    pub fn is_illegal(&self) -> bool {
        self.op == OpNum::ILLEGAL
    }

    /// Whether this server executes the operation.
    pub fn is_built_by(&self, server: Server) -> bool {
        match self.built_by {
            BuiltBy::Both => true,
            BuiltBy::Mds => server == Server::Mds,
            BuiltBy::Nobody | BuiltBy::Obsolete => false,
        }
    }

    /// Most bytes of a result that must fit the reply before the operation is executed: what it
    /// changed must not be reported as too big once it is done (RFC 8881 §2.10.6.4).
    pub fn result_bytes_reserved(&self) -> Option<usize> {
        (self.effect != Effect::Nothing).then_some(CHANGE_RESULT_BYTES_MAX)
    }
}
