//! Who goes by the size of a file that it is told, so that it must be the truth, and who need not:
//! RFC 8881 §10.4.3, §12.5.4.2. A client that has nothing of a file has no bytes of it and appends
//! nothing, and asks again when it opens the file; one that is alone with it knows better itself.

use weft_nfs::ClientId;

use crate::{ids::FileKey, state::State};

/// What the client gives back in the same breath as it asks: Linux has GETATTR before CLOSE and
/// DELEGRETURN, for what will be so behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetsGo {
    /// Nothing.
    Nothing,
    /// One open.
    Open,
    /// Its delegation.
    Delegation,
}

impl State {
    /// Whether the client may go by the size that it is told now. One that gives something back is
    /// judged by what it still holds behind that; of a read layout that is nothing, since it goes
    /// with the last open.
    pub fn relies_on_size(&self, client: ClientId, file: FileKey, lets_go: LetsGo) -> bool {
        if self.knows_size_best(client, file) {
            return false;
        }
        let (opens, delegated) =
            (self.opens_of_client(client, file), self.has_delegation(client, file));
        match lets_go {
            LetsGo::Nothing => opens > 0 || delegated || self.has_layout(client, file),
            LetsGo::Open => opens > 1 || delegated || self.has_rw_layout(client, file),
            LetsGo::Delegation => opens > 0 || self.has_rw_layout(client, file),
        }
    }
}
