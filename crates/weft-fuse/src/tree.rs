//! What is mounted.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use fuser::{Errno, FileAttr};
use weft_client::node::Node;
use weft_nfs::{Attrs, Component, attr::ModeUmask};

use crate::{
    attr::file_attr,
    inodes::Inodes,
    slots::{OpenDir, OpenFile, Slots},
};

/// What is mounted, and what the kernel has open of it.
pub struct Tree {
    pub inodes: Inodes,
    pub files: Slots<OpenFile>,
    pub dirs: Slots<OpenDir>,
    /// Whether the kernel can map files that it does not cache otherwise.
    pub maps_direct: AtomicBool,
}

/// Mode and umask of what a program makes.
#[derive(Debug, Clone, Copy)]
pub struct Creation {
    pub mode: u32,
    pub umask: u32,
}

impl Creation {
    /// As attributes: the server applies the umask, unless a list of the directory says otherwise
    /// (RFC 8275).
    pub fn attrs(self) -> Attrs {
        let Creation { mode, umask } = self;
        let mode_umask = Some(ModeUmask { mode: mode & 0o7777, umask });
        Attrs { mode_umask, ..Attrs::default() }
    }
}

/// A name as the kernel gives it.
pub fn component(name: &OsStr) -> Component {
    Component(Bytes::copy_from_slice(name.as_bytes()))
}

impl Tree {
    /// Of a file system with this root; nothing is open.
    pub fn new(root: &Node) -> Tree {
        Tree {
            inodes: Inodes::new(root),
            files: Slots::default(),
            dirs: Slots::default(),
            maps_direct: AtomicBool::new(false),
        }
    }

    /// Whether large files are read and written past the kernel's page cache: only if it keeps
    /// what it has cached for others in step with that, which those kernels do that also map such
    /// files.
    pub fn goes_direct(&self) -> bool {
        self.maps_direct.load(Ordering::Relaxed)
    }

    /// The kernel is told of a node.
    pub fn told(&self, node: &Node) -> Result<FileAttr, Errno> {
        let number = self.inodes.remember(node)?;
        Ok(file_attr(number, &node.attrs))
    }
}
