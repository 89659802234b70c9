//! One row an operation, with what the servers make of it: where it may stand, which server
//! executes it, what it has to do with the export, what it changes, and what it may answer. What
//! the protocol says of it (number, minor version, repeatable or not) is in `weft_nfs::OpNum` and
//! `weft_nfs::OpArgs`. An operation has its types there, its row here, and its handler.
//!
//! Dispatch finds the row of each operation once and hands it on. `docs/operations.md` is made
//! from the table.

#[cfg(test)]
mod page;
mod rows;

use weft_nfs::{NfsStat, OpNum};

use rows::{EVERYWHERE, FIRST, ILLEGAL, ROWS};

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
            ExportUse::Nothing | ExportUse::Uses => false,
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
    /// makes may find the file there: `mds/ops/open.rs` looks.
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
    statuses: &'static [NfsStat],
    /// Where we go beyond the RFCs' tables, and why.
    beyond: &'static [(NfsStat, &'static str)],
}

/// Most bytes of the successful result of an operation that changes something: OPEN's with a
/// read delegation (number, status, stateid, change, flags, bitmap, delegation), rounded up.
const CHANGE_RESULT_BYTES_MAX: usize = 128;

impl Row {
    /// The row of a number in this minor version; ILLEGAL's for one that it does not have.
    pub fn of(op: OpNum, minorversion: u32) -> &'static Row {
        let at = usize::try_from(op.0).ok().and_then(|number| number.checked_sub(FIRST));
        let row = at.and_then(|at| ROWS.get(at));
        row.filter(|row| row.since_minor <= minorversion).unwrap_or(&ILLEGAL)
    }

    /// What stands for an operation that has no number, or none of this minor version.
    pub fn illegal() -> &'static Row {
        &ILLEGAL
    }

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

    /// Whether the operation may answer this: RFC 8881 §15.2, RFC 7862 §11.2, RFC 8276 §8.4.5, and
    /// where we go beyond them.
    pub fn may_answer(&self, status: NfsStat) -> bool {
        EVERYWHERE.contains(&status)
            || self.statuses.contains(&status)
            || self.beyond.iter().any(|(ours, _)| *ours == status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINOR_MAX: u32 = 2;

    /// Every number of the RFCs has a row in 4.2, and 4.2's do not exist in 4.1.
    #[test]
    fn rows_follow_the_minor_version() {
        for op in OpNum::ALL.iter().filter(|o| **o != OpNum::ILLEGAL) {
            assert_eq!(Row::of(*op, MINOR_MAX).op, *op);
            assert_eq!(Row::of(*op, 1).is_illegal(), op.0 > 58, "{op}");
        }
        for op in [0, 1, 2, 76, OpNum::ILLEGAL.0, u32::MAX] {
            assert!(Row::of(OpNum(op), MINOR_MAX).is_illegal(), "{op}");
        }
    }

    /// No row says twice what it says already, and what goes beyond the RFCs has a reason.
    #[test]
    fn rows_are_lean() {
        for row in ROWS.iter().chain([&ILLEGAL]) {
            for (i, status) in row.statuses.iter().enumerate() {
                let before = &row.statuses[..i];
                assert!(!before.contains(status), "{} {status}", row.op);
            }
            for (status, why) in row.beyond {
                assert!(!row.statuses.contains(status), "{} {status}", row.op);
                assert!(!EVERYWHERE.contains(status), "{} {status}", row.op);
                assert!(!why.is_empty());
            }
        }
    }

    /// The RFC's own examples: READ may not say EXIST, LOOKUP may not say BAD_STATEID.
    #[test]
    fn rows_tell_apart() {
        let may_answer = |op, status| Row::of(op, MINOR_MAX).may_answer(status);
        assert!(may_answer(OpNum::OPEN, NfsStat::EXIST));
        assert!(!may_answer(OpNum::READ, NfsStat::EXIST));
        assert!(!may_answer(OpNum::LOOKUP, NfsStat::BAD_STATEID));
    }

    /// What no server executes has nothing to do with the export and changes nothing; a data
    /// server has no names.
    #[test]
    fn facts_agree() {
        for row in ROWS {
            let unbuilt = matches!(row.built_by, BuiltBy::Nobody | BuiltBy::Obsolete);
            let inert = (row.export, row.effect) == (ExportUse::Nothing, Effect::Nothing);
            assert!(!unbuilt || inert, "{}", row.op);
            let names = row.export == ExportUse::Walks || row.effect == Effect::Grows;
            assert!(!row.is_built_by(Server::Ds) || !names, "{}", row.op);
        }
    }
}
