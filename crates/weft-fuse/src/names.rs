//! Names and attributes.

use bytes::Bytes;
use fuser::{Errno, FileAttr};
use weft_client::node::{NODE_ATTRS, Node, Nodes, OpenOptions, Space};
use weft_nfs::{Attrs, Component, SpecData, Stateid, access, ops::CreateType};

use crate::{
    attr::{decode_device, file_attr},
    errno::OrErrno,
    tree::{Creation, Tree},
};

impl Tree {
    pub async fn lookup(
        &self,
        nodes: &Nodes,
        parent: u64,
        name: Component,
    ) -> Result<FileAttr, Errno> {
        let dir = self.inodes.handle(parent)?;
        let node = nodes.lookup(&dir, name).await.or_errno()?;
        self.told(&node)
    }

    pub async fn getattr(&self, nodes: &Nodes, ino: u64) -> Result<FileAttr, Errno> {
        let fh = self.inodes.handle(ino)?;
        // What was written and has not left counts: in size and times.
        for io in self.inodes.opens(ino) {
            io.flush().await.or_errno()?;
        }
        let attrs = nodes.getattr(&fh, NODE_ATTRS).await;
        Ok(file_attr(ino, &attrs.or_errno()?))
    }

    /// Sets attributes. What was written before is durable first, so that nothing that arrives
    /// later changes what is set now.
    pub async fn setattr(
        &self,
        nodes: &Nodes,
        (ino, file): (u64, Option<u64>),
        attrs: Attrs,
    ) -> Result<FileAttr, Errno> {
        let fh = self.inodes.handle(ino)?;
        let opens = self.inodes.opens(ino);
        for io in &opens {
            io.commit().await.or_errno()?;
        }
        let open = file.and_then(|number| self.files.get(number));
        let stateid = match (&open, attrs.size) {
            (Some(open), Some(_)) => open.io.io_stateid(),
            _ => Stateid::ANONYMOUS,
        };
        let size = attrs.size;
        // The size of an open file is set in its opener's name, who may have lost the right since.
        let nodes = match (&open, size) {
            (Some(open), Some(_)) => &open.nodes,
            _ => nodes,
        };
        let set = nodes.setattr(&fh, stateid, attrs).await.or_errno()?;
        if let Some(size) = size {
            opens.iter().for_each(|io| io.set_size(size));
        }
        Ok(file_attr(ino, &set))
    }

    pub async fn readlink(&self, nodes: &Nodes, ino: u64) -> Result<Bytes, Errno> {
        let fh = self.inodes.handle(ino)?;
        nodes.readlink(&fh).await.or_errno()
    }

    pub async fn create(
        &self,
        nodes: &Nodes,
        (parent, name): (u64, Component),
        objtype: CreateType,
        creation: Option<Creation>,
    ) -> Result<FileAttr, Errno> {
        let dir = self.inodes.handle(parent)?;
        let attrs = creation.map_or_else(Attrs::default, Creation::attrs);
        let made = nodes.create(&dir, name, objtype, attrs).await;
        self.told(&made.or_errno()?)
    }

    /// `mknod`: a regular file is made by opening it.
    pub async fn mknod(
        &self,
        nodes: &Nodes,
        (parent, name): (u64, Component),
        creation: Creation,
        rdev: u32,
    ) -> Result<FileAttr, Errno> {
        let (major, minor) = decode_device(rdev);
        let device = SpecData { major, minor };
        let objtype = match creation.mode & FORMAT {
            FORMAT_FIFO => CreateType::Fifo,
            FORMAT_SOCKET => CreateType::Socket,
            FORMAT_CHAR => CreateType::Char(device),
            FORMAT_BLOCK => CreateType::Block(device),
            0 | FORMAT_FILE => return self.make_file(nodes, (parent, name), creation).await,
            _ => return Err(Errno::EINVAL),
        };
        self.create(nodes, (parent, name), objtype, Some(creation)).await
    }

    async fn make_file(
        &self,
        nodes: &Nodes,
        (parent, name): (u64, Component),
        creation: Creation,
    ) -> Result<FileAttr, Errno> {
        let dir = self.inodes.handle(parent)?;
        let options = OpenOptions {
            write: true,
            create: Some(creation.mode & 0o7777),
            umask: Some(creation.umask),
            exclusive: true,
            ..OpenOptions::default()
        };
        let (node, io) = nodes.open(&dir, name, options).await.or_errno()?;
        io.close().await.or_errno()?;
        self.told(&node)
    }

    pub async fn remove(&self, nodes: &Nodes, parent: u64, name: Component) -> Result<(), Errno> {
        let dir = self.inodes.handle(parent)?;
        nodes.remove(&dir, name).await.map(drop).or_errno()
    }

    pub async fn rename(
        &self,
        nodes: &Nodes,
        (from, oldname): (u64, Component),
        (to, newname): (u64, Component),
    ) -> Result<(), Errno> {
        let (source, target) = (self.inodes.handle(from)?, self.inodes.handle(to)?);
        let renamed = nodes.rename((&source, oldname), (&target, newname)).await;
        renamed.or_errno()
    }

    pub async fn link(
        &self,
        nodes: &Nodes,
        ino: u64,
        (parent, newname): (u64, Component),
    ) -> Result<FileAttr, Errno> {
        let (fh, dir) = (self.inodes.handle(ino)?, self.inodes.handle(parent)?);
        let attrs = nodes.link(&fh, &dir, newname).await.or_errno()?;
        self.told(&Node { fh, attrs })
    }

    /// Whether the caller may do all that the mask says, as `access(2)` asks it.
    pub async fn access(&self, nodes: &Nodes, ino: u64, mask: i32) -> Result<(), Errno> {
        let fh = self.inodes.handle(ino)?;
        let wanted = rights_of(mask);
        let told = nodes.access(&fh, wanted).await.or_errno()?;
        // Of a directory not all of these mean something: then the server does not tell.
        let refused = told.supported & wanted & !told.granted;
        if refused == 0 { Ok(()) } else { Err(Errno::EACCES) }
    }

    pub async fn space(&self, nodes: &Nodes, ino: u64) -> Result<Space, Errno> {
        let fh = self.inodes.handle(ino)?;
        nodes.space(&fh).await.or_errno()
    }
}

/// `S_IFMT` and what it takes, `include/uapi/linux/stat.h`.
const FORMAT: u32 = 0o170_000;
const FORMAT_FIFO: u32 = 0o010_000;
const FORMAT_CHAR: u32 = 0o020_000;
const FORMAT_BLOCK: u32 = 0o060_000;
const FORMAT_FILE: u32 = 0o100_000;
const FORMAT_SOCKET: u32 = 0o140_000;

/// `R_OK`, `W_OK`, `X_OK` as rights of ACCESS.
fn rights_of(mask: i32) -> u32 {
    let mut wanted = 0;
    if mask & 4 != 0 {
        wanted |= access::READ;
    }
    if mask & 2 != 0 {
        wanted |= access::MODIFY | access::EXTEND;
    }
    if mask & 1 != 0 {
        wanted |= access::EXECUTE | access::LOOKUP;
    }
    wanted
}
