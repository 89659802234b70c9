//! One row an operation, with what the servers make of it: where it may stand, which server
//! executes it, what it has to do with the export, what it changes, and what it may answer. What
//! the protocol says of it (number, minor version, repeatable or not) is in `weft_nfs::OpNum` and
//! `weft_nfs::OpArgs`. An operation has its types there, its row here, and its handler.
//!
//! Dispatch finds the row of each operation once and hands it on. `docs/operations.md` is made
//! from the table.

#[cfg(test)]
mod page;
mod row;
mod rows;

pub use row::{BuiltBy, Effect, ExportUse, Position, Row, Server};

#[cfg(test)]
mod tests {
    use weft_nfs::{NfsStat, OpNum};

    use super::{
        BuiltBy, Effect, ExportUse, Row, Server,
        rows::{EVERYWHERE, ILLEGAL, ROWS},
    };

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
