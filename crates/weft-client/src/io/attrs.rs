//! What is asked of a file beside what is done to it.

use weft_nfs::{AttrNo, Bitmap};

/// Attributes that [`crate::node::Node`]s come with.
pub const NODE_ATTRS: Bitmap = Bitmap::of(&[
    AttrNo::TYPE,
    AttrNo::CHANGE,
    AttrNo::SIZE,
    AttrNo::FSID,
    AttrNo::FILEID,
    AttrNo::MODE,
    AttrNo::NUMLINKS,
    AttrNo::OWNER,
    AttrNo::OWNER_GROUP,
    AttrNo::RAWDEV,
    AttrNo::SPACE_USED,
    AttrNo::TIME_ACCESS,
    AttrNo::TIME_METADATA,
    AttrNo::TIME_MODIFY,
]);

/// Those and what else is told with an OPEN: all that is kept of a file that is delegated.
pub(crate) fn attrs_wanted() -> Bitmap {
    NODE_ATTRS.or(&Bitmap::of(&[AttrNo::MDSTHRESHOLD]))
}
