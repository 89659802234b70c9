//! What must hold before an operation is executed, whatever it is. Each check cites what asks for
//! it; their order is the order of the answers.

use weft_nfs::{NfsStat, OpArgs};

use super::{Compound, Role, reply};
use crate::op_table::{Position, Row};

/// Where an operation stands in its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// Operations before it.
    pub(super) index: u32,
    /// Operations of the request.
    pub(super) count: u32,
    /// Bytes of the results before it.
    pub(super) reply_bytes: usize,
}

/// Refuses what may not stand here, what this server does not execute, and what might be done but
/// not reported.
///
/// # Errors
/// NOT_ONLY_OP, SEQUENCE_POS, OP_NOT_IN_SESSION, NOTSUPP, REP_TOO_BIG, REP_TOO_BIG_TO_CACHE.
pub(super) fn admit<R: Role>(
    c: &Compound<R>,
    row: &Row,
    args: &OpArgs,
    at: Standing,
) -> Result<(), NfsStat> {
    own_session_last(c, args, at)?;
    position(row.position, c.session.is_some(), at)?;
    built::<R>(row)?;
    room_for_result(c, row, at.reply_bytes)
}

/// RFC 8881 §18.37.3: a COMPOUND destroys its own session last.
fn own_session_last<R: Role>(c: &Compound<R>, args: &OpArgs, at: Standing) -> Result<(), NfsStat> {
    let (OpArgs::DestroySession(a), Some(own)) = (args, &c.session) else { return Ok(()) };
    let is_last = at.index.saturating_add(1) == at.count;
    if a.sessionid == own.sessionid && !is_last { Err(NfsStat::NOT_ONLY_OP) } else { Ok(()) }
}

/// RFC 8881 §2.10.2.1, §18.46.3: SEQUENCE is first, and all but a few operations come after it.
/// Those few are alone if they come without (§18.34.3, §18.35.3, §18.36.3, §18.37.3, §18.50.3).
fn position(position: Position, in_session: bool, at: Standing) -> Result<(), NfsStat> {
    match position {
        Position::First if at.index > 0 => Err(NfsStat::SEQUENCE_POS),
        Position::First => Ok(()),
        Position::InSession if !in_session => Err(NfsStat::OP_NOT_IN_SESSION),
        Position::InSession => Ok(()),
        Position::AloneOrInSession if in_session => Ok(()),
        Position::Alone | Position::AloneOrInSession if in_session || at.count > 1 => {
            Err(NfsStat::NOT_ONLY_OP)
        }
        Position::Alone | Position::AloneOrInSession => Ok(()),
    }
}

/// RFC 8881 §15.1.1.5 (NOTSUPP), §17: optional operations, and those that 4.1 forbids.
fn built<R: Role>(row: &Row) -> Result<(), NfsStat> {
    if row.is_built_by(R::SERVER) { Ok(()) } else { Err(NfsStat::NOTSUPP) }
}

/// RFC 8881 §2.10.6.4: a change whose result might not fit the reply is refused before it is done.
fn room_for_result<R: Role>(c: &Compound<R>, row: &Row, bytes: usize) -> Result<(), NfsStat> {
    let Some(result) = row.result_bytes_reserved() else { return Ok(()) };
    reply::too_big(c, bytes + result).map_or(Ok(()), Err)
}
