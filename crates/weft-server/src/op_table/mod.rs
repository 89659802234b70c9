//! One row an operation: where it may stand, since when it exists (RFC 8881 §17, RFC 7862 §14,
//! RFC 8276 §8.4), what it may answer, what it has to do with the export, which server builds it. Dispatch reads the table: what a
//! server does not build is NOTSUPP. `docs/operations.md` is made from it.

mod export_use;
#[cfg(test)]
mod page;
mod statuses;

use weft_nfs::OpNum;

pub use export_use::{ExportUse, export_use};
pub use statuses::may_answer;

/// Where an operation may stand in a COMPOUND.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// After SEQUENCE.
    InSession,
    /// SEQUENCE itself: only first.
    Sequence,
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

impl Server {
    /// Whether it builds an operation that has a row.
    pub fn builds(self, op: OpNum) -> bool {
        match self {
            Server::Mds => !NOT_BUILT.contains(&op),
            Server::Ds => ON_DATA_SERVERS.contains(&op),
        }
    }
}

/// The newest minor version.
pub const MINOR_MAX: u32 = 2;

/// What no server here builds: 4.0's own operations, what pNFS files layouts have no use for, and
/// what `docs/deviations.md` and `docs/semantics.md` give the reasons for.
const NOT_BUILT: &[OpNum] = &[
    OpNum::DELEGPURGE,
    OpNum::OPENATTR,
    OpNum::OPEN_CONFIRM,
    OpNum::RENEW,
    OpNum::SETCLIENTID,
    OpNum::SETCLIENTID_CONFIRM,
    OpNum::RELEASE_LOCKOWNER,
    OpNum::GET_DIR_DELEGATION,
    OpNum::GETDEVICELIST,
    OpNum::SET_SSV,
    OpNum::WANT_DELEGATION,
    OpNum::COPY_NOTIFY,
    OpNum::READ_PLUS,
    OpNum::WRITE_SAME,
];

/// What a data server alone has: no namespace, no opens, no attributes (RFC 8881 §13.6).
const ON_DATA_SERVERS: &[OpNum] = &[
    OpNum::COMMIT,
    OpNum::PUTFH,
    OpNum::READ,
    OpNum::RESTOREFH,
    OpNum::SAVEFH,
    OpNum::WRITE,
    OpNum::BACKCHANNEL_CTL,
    OpNum::BIND_CONN_TO_SESSION,
    OpNum::EXCHANGE_ID,
    OpNum::CREATE_SESSION,
    OpNum::DESTROY_SESSION,
    OpNum::SEQUENCE,
    OpNum::TEST_STATEID,
    OpNum::DESTROY_CLIENTID,
    OpNum::RECLAIM_COMPLETE,
];

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Number.
    pub op: OpNum,
    /// First minor version that has it; 0 for those that 4.1 made obsolete too.
    pub since_minor: u32,
    /// Where it may stand.
    pub place: Place,
}

/// The row of an operation in this minor version; `None` is OP_ILLEGAL.
pub fn row(op: OpNum, minorversion: u32) -> Option<Row> {
    let since_minor = match op.0 {
        3..=39 => 0,
        40..=58 => 1,
        59..=75 => 2,
        _ => return None,
    };
    let place = match op {
        OpNum::SEQUENCE => Place::Sequence,
        OpNum::EXCHANGE_ID
        | OpNum::CREATE_SESSION
        | OpNum::DESTROY_SESSION
        | OpNum::DESTROY_CLIENTID => Place::AloneOrInSession,
        OpNum::BIND_CONN_TO_SESSION => Place::Alone,
        _ => Place::InSession,
    };
    (since_minor <= minorversion).then_some(Row { op, since_minor, place })
}

/// Most bytes of the successful result of an operation that changes something: OPEN's with a
/// read delegation (number, status, stateid, change, flags, bitmap, delegation), rounded up.
pub const CHANGE_RESULT_BYTES_MAX: usize = 128;

/// Whether a success of the operation changes names, attributes, data, opens or locks. It must
/// not be reported as too big for its reply once it is done (RFC 8881 §2.10.6.4).
pub fn changes(op: OpNum) -> bool {
    matches!(
        op,
        OpNum::ALLOCATE
            | OpNum::CLONE
            | OpNum::CLOSE
            | OpNum::COPY
            | OpNum::CREATE
            | OpNum::DEALLOCATE
            | OpNum::LINK
            | OpNum::LOCK
            | OpNum::LOCKU
            | OpNum::OPEN
            | OpNum::OPEN_DOWNGRADE
            | OpNum::REMOVE
            | OpNum::REMOVEXATTR
            | OpNum::RENAME
            | OpNum::SETATTR
            | OpNum::SETXATTR
            | OpNum::WRITE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of the RFCs has a row in 4.2, and 4.2's do not exist in 4.1.
    #[test]
    fn rows_follow_the_minor_version() {
        for op in OpNum::ALL.iter().filter(|o| **o != OpNum::ILLEGAL) {
            assert!(row(*op, 2).is_some(), "{op}");
            assert_eq!(row(*op, 1).is_some(), op.0 <= 58, "{op}");
        }
        assert!(row(OpNum::ILLEGAL, 2).is_none());
        assert!(row(OpNum(2), 2).is_none());
        assert!(row(OpNum(76), 2).is_none());
    }
}
