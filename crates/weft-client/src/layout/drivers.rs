//! The drivers of a client, and which of them its server has a use for.

use std::sync::Arc;

use tokio::sync::OnceCell;
use weft_nfs::{
    AttrNo, Bitmap, FileHandle, LayoutType, OpArgs, OpNum, OpOk, attr::ThresholdItem,
    ops::GetattrArgs,
};

use super::plan::{LayoutDriver, LayoutError};
use crate::{error::ClientError, session::Session};

/// Layout types understood, preferred first. The server is asked for no others than it announces.
#[derive(Debug, Default)]
pub struct Drivers {
    all: Vec<Arc<dyn LayoutDriver>>,
    announced: OnceCell<Vec<u32>>,
}

impl Drivers {
    /// These, preferred first.
    pub fn new(all: Vec<Arc<dyn LayoutDriver>>) -> Drivers {
        Drivers { all, announced: OnceCell::new() }
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The one of a type, whatever the server announces.
    pub fn of_type(&self, layout_type: LayoutType) -> Option<&Arc<dyn LayoutDriver>> {
        self.all.iter().find(|d| d.layout_type() == layout_type)
    }

    /// Those of types that the server announces (`fs_layout_types`, RFC 8881 §5.12.1), which it is
    /// asked for once: about the file that is the first to want a layout, since what it says of its
    /// root need not hold for a file system below it.
    ///
    /// # Errors
    /// Those of GETATTR, in which case it is asked again; [`LayoutError`] if there are none.
    pub async fn usable(
        &self,
        mds: &Session,
        fh: &FileHandle,
    ) -> Result<Vec<Arc<dyn LayoutDriver>>, ClientError> {
        let announced = self.announced.get_or_try_init(|| announced(mds, fh)).await?;
        let is_usable = |d: &&Arc<dyn LayoutDriver>| announced.contains(&d.layout_type().0);
        let usable: Vec<_> = self.all.iter().filter(is_usable).cloned().collect();
        if usable.is_empty() {
            return Err(LayoutError::new("the server announces no layout type of ours").into());
        }
        Ok(usable)
    }

    /// The entry of the most preferred driver that has one.
    pub fn threshold<'a>(&self, items: &'a [ThresholdItem]) -> Option<&'a ThresholdItem> {
        let of = |d: &Arc<dyn LayoutDriver>| {
            items.iter().find(|item| item.layout_type == d.layout_type().0)
        };
        self.all.iter().find_map(of)
    }
}

async fn announced(mds: &Session, fh: &FileHandle) -> Result<Vec<u32>, ClientError> {
    let getattr = GetattrArgs { request: Bitmap::of(&[AttrNo::FS_LAYOUT_TYPES]) };
    match mds.on_file(fh, OpArgs::Getattr(getattr)).await? {
        // A server that has no such attribute announces nothing.
        OpOk::Getattr(ok) => Ok(ok.attrs.fs_layout_types.map_or_else(Vec::new, |types| types.0)),
        _ => Err(ClientError::unexpected(OpNum::GETATTR)),
    }
}
