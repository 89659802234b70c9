//! Which layout type a volume's files are given by: one, since Linux takes flexfiles wherever it
//! is offered both (`set_pnfs_layoutdriver`). ADR 31.

use weft_nfs::LayoutType;

use super::placement::Striping;

/// The layout type of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LayoutKind {
    /// LAYOUT4_NFSV4_1_FILES: files are striped.
    #[default]
    Files,
    /// LAYOUT4_FLEX_FILES: each new file is whole on one data server.
    FlexFiles,
}

impl LayoutKind {
    /// Its number on the wire.
    pub fn wire(self) -> LayoutType {
        match self {
            LayoutKind::Files => LayoutType::NFSV4_1_FILES,
            LayoutKind::FlexFiles => LayoutType::FLEX_FILES,
        }
    }

    /// How new files are striped, where this is asked for: Linux before 6.18 takes no flexfiles
    /// layout with stripes.
    pub(crate) fn stripes(self, wanted: Striping) -> Striping {
        match self {
            LayoutKind::Files => wanted,
            LayoutKind::FlexFiles => Striping { width: 1, ..wanted },
        }
    }
}
