//! Attributes of nodes and of the file system: GETATTR, SETATTR.

use std::time::Duration;

use weft_nfs::{AttrNo, Attrs, Bitmap, FileHandle, OpArgs, Stateid, ops::SetattrArgs};

use super::{Nodes, attrs_in, getattr, putfh};
use crate::{
    boxed::Spawned,
    error::ClientError,
    io::{Asked, FileIo, Told, attrs_wanted},
};

/// Attributes, and for how long nothing but this client changes them.
#[derive(Debug, Clone)]
pub struct Vouched {
    /// [`super::NODE_ATTRS`], as far as the server has them.
    pub attrs: Attrs,
    /// So long they stay true, unless a [`super::Watcher`] is told otherwise before; not at all if
    /// the file is not delegated.
    pub holds_for: Duration,
}

/// Room in the file system, in bytes and in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the file system.
    pub total_bytes: u64,
    /// Bytes that are not in use.
    pub free_bytes: u64,
    /// Bytes that this user may still write.
    pub available_bytes: u64,
    /// Files that there can be.
    pub total_files: u64,
    /// Files that can still be made.
    pub free_files: u64,
}

impl Nodes {
    /// Attributes of a node (RFC 8881 §18.7).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn getattr(&self, fh: &FileHandle, request: Bitmap) -> Result<Attrs, ClientError> {
        attrs_in(Some(self.mds.on_file(fh, getattr(request)).await?))
    }

    /// The same with what a delegation says of them: while one is held, the server is asked only
    /// for what this client has changed since it told (RFC 8881 §10.4).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn vouched_attrs(&self, fh: &FileHandle) -> Result<Vouched, ClientError> {
        if let Some(vouched) = self.attrs_known(fh) {
            return Ok(vouched);
        }
        let asked = Asked { losses: self.mds.losses(), moment: self.cluster.files.moment() };
        let attrs = self.getattr(fh, attrs_wanted()).await?;
        let told = Told::answered(attrs.clone(), asked);
        self.cluster.delegated.opened(fh, asked.moment, (None, told));
        let known = self.attrs_known(fh);
        Ok(known.unwrap_or(Vouched { attrs, holds_for: Duration::ZERO }))
    }

    /// What nobody else has changed since the server told it, nor this client.
    pub fn attrs_known(&self, fh: &FileHandle) -> Option<Vouched> {
        // First, so that it is not more than what the look at the delegation relied on.
        let holds_for = self.mds.believed_for();
        let told = self.cluster.delegated.told(&self.mds, fh)?;
        let is_true = !self.cluster.files.may_lack(fh, told.as_of);
        is_true.then(|| Vouched { attrs: Attrs::clone(&told.attrs), holds_for })
    }

    /// Sets attributes (RFC 8881 §18.30), a size under the stateid of an open if there is one; what
    /// [`super::NODE_ATTRS`] are after that.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn setattr(
        &self,
        fh: &FileHandle,
        stateid: Stateid,
        attrs: Attrs,
    ) -> Result<Attrs, ClientError> {
        let size = attrs.size;
        let set = OpArgs::Setattr(SetattrArgs { stateid, attrs: Box::new(attrs) });
        let Some(size) = size else { return self.set(fh, set).await };
        let (me, of) = (self.clone(), fh.clone());
        // What this client has open of it is settled first, and cut.
        match self.files.matching(Some(fh)).first() {
            Some(open) => open.truncate_by(size, async move { me.set(&of, set).await }).await,
            None => {
                let set = async move {
                    let done = me.set(&of, set).await;
                    me.cluster.files.truncated(&of, done.is_ok().then_some(size));
                    done
                };
                Spawned::new(set).await
            }
        }
    }

    async fn set(&self, fh: &FileHandle, set: OpArgs) -> Result<Attrs, ClientError> {
        match self.change_attrs(fh, set).await? {
            Some(attrs) => Ok(attrs),
            None => self.getattr(fh, attrs_wanted()).await,
        }
    }

    /// Has the server change attributes of a node, if only its times; what they are after that, if
    /// it tells at once. It goes on to its end whoever waits for it, and until then nobody knows
    /// what they are.
    pub(crate) fn change_attrs(&self, fh: &FileHandle, change: OpArgs) -> Spawned<Option<Attrs>> {
        let ops = vec![putfh(fh), change, getattr(attrs_wanted())];
        let (mds, changing) = (self.mds.clone(), self.cluster.changing(fh));
        Spawned::new(async move {
            let told = mds.compound_needing(2, ops).await?.into_iter().nth(2);
            let attrs = told.map(|told| attrs_in(Some(told))).transpose()?;
            if let Some(attrs) = &attrs {
                changing.done(attrs);
            }
            Ok(attrs)
        })
    }

    /// [`Nodes::setattr`] under an open, which is made again if the server has forgotten it.
    ///
    /// # Errors
    /// As there.
    pub async fn setattr_open(&self, io: &FileIo, attrs: Attrs) -> Result<Attrs, ClientError> {
        io.under_open(|stateid| self.setattr(io.fh(), stateid, attrs.clone())).await
    }

    /// Room in the file system that a node is in.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn space(&self, fh: &FileHandle) -> Result<Space, ClientError> {
        let request = Bitmap::of(&[
            AttrNo::FILES_FREE,
            AttrNo::FILES_TOTAL,
            AttrNo::SPACE_AVAIL,
            AttrNo::SPACE_FREE,
            AttrNo::SPACE_TOTAL,
        ]);
        let attrs = self.getattr(fh, request).await?;
        Ok(Space {
            total_bytes: attrs.space_total.unwrap_or(0),
            free_bytes: attrs.space_free.unwrap_or(0),
            available_bytes: attrs.space_avail.unwrap_or(0),
            total_files: attrs.files_total.unwrap_or(0),
            free_files: attrs.files_free.unwrap_or(0),
        })
    }
}
