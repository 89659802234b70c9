//! One open of a file: its stateid, and opening again when the server has lost it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_nfs::{OpArgs, OpOk, Seqid, Stateid, ops::*, share};

use super::{FileIo, Opened, layout::LayoutState};
use crate::{error::ClientError, limits};

/// What is known of an open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) opened: Opened,
    stateid: Mutex<Stateid>,
    reopens: Mutex<u32>,
}

impl Open {
    pub(super) fn new(opened: Opened) -> Open {
        Open { stateid: Mutex::new(opened.stateid), reopens: Mutex::new(0), opened }
    }

    /// The stateid as the server gave it.
    pub(super) fn lock_stateid(&self) -> MutexGuard<'_, Stateid> {
        self.stateid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stateid as I/O sends it: seqid 0 means the current one (RFC 8881 §8.2.2).
    pub(super) fn io_stateid(&self) -> Stateid {
        Stateid { seqid: Seqid(0), ..*self.lock_stateid() }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.opened.access & share::ACCESS_WRITE != 0
    }

    fn count_reopen(&self) -> Result<(), ClientError> {
        let mut reopens = self.reopens.lock().unwrap_or_else(PoisonError::into_inner);
        if *reopens >= limits::REOPENS_MAX {
            return Err(ClientError::Invalid("the server keeps dropping our open"));
        }
        *reopens += 1;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn for_tests() -> Open {
        Open::new(Opened {
            fh: weft_nfs::FileHandle(bytes::Bytes::new()),
            stateid: Stateid::ANONYMOUS,
            owner: weft_nfs::StateOwner {
                clientid: weft_nfs::ClientId(0),
                owner: weft_nfs::Opaque(bytes::Bytes::new()),
            },
            access: share::ACCESS_WRITE,
            size: 0,
            thresholds: super::Thresholds::default(),
        })
    }
}

impl FileIo {
    /// Opens the file again by its handle, after the server has lost our state (§8.4.2). A layout
    /// of before the loss went with it.
    pub(super) async fn reopen(&self, open: &Open) -> Result<(), ClientError> {
        open.count_reopen()?;
        let mut state = self.file.gate.write().await;
        let args = OpArgs::Open(OpenArgs {
            seqid: Seqid(0),
            share_access: open.opened.access,
            share_deny: share::DENY_NONE,
            owner: open.opened.owner.clone(),
            openhow: None,
            claim: OpenClaim::Fh,
        });
        match self.cluster.mds.on_file(self.fh(), args).await? {
            OpOk::Open(ok) => *open.lock_stateid() = ok.stateid,
            _ => return Err(ClientError::Protocol("OPEN answered with something else")),
        }
        let losses = self.cluster.mds.losses();
        if !matches!(&*state, LayoutState::Held(held) if held.losses == losses) {
            *state = LayoutState::None;
        }
        Ok(())
    }
}
