//! The operations of a COMPOUND, decoded one at a time (RFC 8881 §16.2.3): each number once, one
//! operation ahead of its arguments, since some operations are judged by the one after them.

use weft_nfs::{NfsStat, OpArgs, OpNum};
use weft_xdr::{Decode, DecodeError, Reader};

use crate::op_table::Row;

/// One operation of a request.
pub(super) struct Operation {
    /// Its row; that of ILLEGAL if its number means nothing, or the request ends before it.
    pub(super) row: &'static Row,
    /// Its arguments.
    ///
    /// # Errors
    /// OP_ILLEGAL, BADXDR.
    pub(super) args: Result<OpArgs, NfsStat>,
    /// How many are before it.
    pub(super) index: u32,
}

/// The operations of a request that are not executed yet.
pub(super) struct Operations {
    args: Reader,
    minorversion: u32,
    /// How many operations the request has.
    count: u32,
    /// How many were taken.
    taken: u32,
    /// The next one; none after the last, and where the request ends before it.
    next: Option<&'static Row>,
}

impl Operations {
    /// So many operations of this minor version.
    pub(super) fn new(args: Reader, minorversion: u32, count: u32) -> Self {
        let mut operations = Operations { args, minorversion, count, taken: 0, next: None };
        operations.look_ahead();
        operations
    }

    /// How many operations the request has.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The row of the operation that the next [`Self::take`] returns.
    pub(super) fn next(&self) -> Option<&'static Row> {
        self.next
    }

    /// Takes the next operation; none after the last.
    pub(super) fn take(&mut self) -> Option<Operation> {
        if self.taken == self.count {
            return None;
        }
        let index = self.taken;
        self.taken += 1;
        let row = self.next.unwrap_or(Row::illegal());
        let args = match self.next {
            // What follows a number that this minor version does not have means nothing.
            Some(row) if row.is_illegal() => Err(NfsStat::OP_ILLEGAL),
            Some(row) => self.arguments(row.op).map_err(|error| {
                tracing::debug!(op = %row.op, %error, "malformed operation");
                NfsStat::BADXDR
            }),
            None => {
                tracing::debug!(index, "the request ends before this operation");
                Err(NfsStat::BADXDR)
            }
        };
        self.look_ahead();
        Some(Operation { row, args, index })
    }

    /// The arguments of the operation that is being taken. Bytes after the last one make it
    /// malformed, before it is executed (BADXDR, RFC 8881 §15.1.1.1). The arguments of one that is
    /// not built are not read, so nobody can tell.
    fn arguments(&mut self, op: OpNum) -> Result<OpArgs, DecodeError> {
        let args = OpArgs::decode_body(op, &mut self.args)?;
        if self.taken == self.count && !matches!(args, OpArgs::Unread(_)) {
            self.args.finish()?;
        }
        Ok(args)
    }

    fn look_ahead(&mut self) {
        self.next = None;
        if self.taken < self.count
            && let Ok(op) = OpNum::decode(&mut self.args)
        {
            self.next = Some(Row::of(op, self.minorversion));
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_xdr::{Encode, Writer};

    use super::*;

    fn operations(ops: &[OpArgs], count: u32, extra: &[u8]) -> Operations {
        let mut w = Writer::new();
        ops.iter().for_each(|op| op.encode(&mut w));
        w.raw(extra);
        Operations::new(Reader::new(w.into_bytes()), 1, count)
    }

    /// Each operation is known before its turn; a request that ends early has one more that is
    /// malformed and has no number.
    #[test]
    fn one_operation_ahead() {
        let mut all = operations(&[OpArgs::Putrootfh, OpArgs::Getfh], 3, &[]);
        let number = |row: Option<&Row>| row.map(|row| row.op);
        assert_eq!(number(all.next()), Some(OpNum::PUTROOTFH));
        let first = all.take().unwrap();
        assert_eq!((first.row.op, first.index), (OpNum::PUTROOTFH, 0));
        assert_eq!(number(all.next()), Some(OpNum::GETFH));
        assert!(matches!(all.take().unwrap().args, Ok(OpArgs::Getfh)));
        assert_eq!(number(all.next()), None);
        let missing = all.take().unwrap();
        assert_eq!((missing.row.op, missing.args.err()), (OpNum::ILLEGAL, Some(NfsStat::BADXDR)));
        assert!(all.take().is_none());
    }

    /// A number of a later minor version is ILLEGAL, whatever follows it; bytes behind the last
    /// operation make that one malformed, unless its arguments are not read.
    #[test]
    fn numbers_without_arguments() {
        let seek = OpArgs::Unread(OpNum::SEEK);
        let later = operations(&[seek], 1, &[1; 7]).take().unwrap();
        assert_eq!((later.row.op, later.args.err()), (OpNum::ILLEGAL, Some(NfsStat::OP_ILLEGAL)));
        let longer = operations(&[OpArgs::Getfh], 1, &[0; 4]).take().unwrap();
        assert_eq!((longer.row.op, longer.args.err()), (OpNum::GETFH, Some(NfsStat::BADXDR)));
        let unread = operations(&[OpArgs::Unread(OpNum::RENEW)], 1, &[0; 4]).take().unwrap();
        assert!(matches!(unread.args, Ok(OpArgs::Unread(OpNum::RENEW))));
    }
}
