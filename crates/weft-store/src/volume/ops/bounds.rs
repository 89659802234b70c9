//! How long the objects of a file are at least (ADR 10).

use crate::types::Inode;
use crate::volume::tx::Tx;

/// What a client sees of the file stays.
pub(super) fn raise_bounds(tx: &mut Tx<'_>, inode: &mut Inode, lengths: &[u64]) {
    let Some(placement) = &inode.placement else { return };
    let raised = inode.bounds.raised(placement, inode.size, lengths);
    if raised != inode.bounds {
        inode.bounds = raised;
        tx.put_inode(inode);
    }
}
