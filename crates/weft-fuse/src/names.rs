//! Names and attributes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fuser::{Errno, FileAttr};
use weft_client::{
    io::FileIo,
    node::{NODE_ATTRS, Node, Nodes, OpenOptions, OpenedName, Space, Vouched},
};
use weft_nfs::{
    Attrs, Component, FileHandle, FileType, SpecData, Stateid, access, ops::CreateType,
};

use crate::{
    attr::{decode_device, file_attr},
    errno::{OrErrno, is_stale},
    opening::{Found, Held, options_of},
    retries::Thread,
    tree::{Creation, Tree},
};

/// Lookups of a name that others keep replacing.
const LOOKS_MAX: u32 = 16;

impl Tree {
    /// Looks a name up for a thread. What others replace meanwhile is looked up again: the kernel
    /// does that for a thread once, and an open of what was found may need it.
    pub async fn lookup(
        &self,
        (nodes, thread): (&Nodes, Thread),
        parent: u64,
        name: Component,
    ) -> Result<FileAttr, Errno> {
        let dir = self.inodes.handle(parent)?;
        let mut looks = 0;
        loop {
            let asked_at = Instant::now();
            let node = match self.retries.under_way(thread, asked_at) {
                Some(flags) => {
                    let how = (thread, flags);
                    self.find_again((nodes, how), &dir, (parent, &name)).await?
                }
                None => nodes.lookup(&dir, name.clone()).await.or_errno()?,
            };
            looks += 1;
            match self.found((nodes, asked_at), node, (parent, &name)).await {
                Err(e) if is_stale(&e) && looks < LOOKS_MAX => {}
                answer => return answer,
            }
        }
    }

    /// The kernel is told what was found. What is written here counts, as in `getattr`.
    async fn found(
        &self,
        (nodes, asked_at): (&Nodes, Instant),
        mut node: Node,
        place: (u64, &Component),
    ) -> Result<FileAttr, Errno> {
        let number = self.inodes.number(&node)?;
        let opens = self.inodes.opens(number);
        if !opens.is_empty() {
            flush(&opens).await;
            node.attrs = nodes.getattr(&node.fh, NODE_ATTRS).await.or_errno()?;
            count_unsent(&mut node.attrs, &opens);
        }
        if self.inodes.has_changed(number, node.attrs.change, asked_at) {
            opens.iter().for_each(|io| io.forget_kept());
        }
        self.told(&node, place)
    }

    /// Looks a name up for a thread that was told ESTALE, and keeps what it finds for its next
    /// request: a file is open until then, if the caller may open it, and a link has been read.
    async fn find_again(
        &self,
        (nodes, (thread, flags)): (&Nodes, (Thread, i32)),
        dir: &FileHandle,
        place: (u64, &Component),
    ) -> Result<Node, Errno> {
        let asked_at = Instant::now();
        let (node, found) = match self.find_open(nodes, flags, dir, place).await {
            Some((node, io)) => {
                let attrs = node.attrs.clone();
                (node, Found::File(Box::new(Held { io, flags, attrs, asked_at })))
            }
            None => self.find_unopened(nodes, dir, place.1).await?,
        };
        self.retries.found(thread, self.inodes.number(&node)?, found);
        Ok(node)
    }

    /// Opens what has a name, if that is a file that the caller may open so. One that is probably
    /// delegated is looked up, and opened without a request.
    async fn find_open(
        &self,
        nodes: &Nodes,
        flags: i32,
        dir: &FileHandle,
        place: (u64, &Component),
    ) -> Option<(Node, Arc<FileIo>)> {
        if self.inodes.is_probably_dir(place) {
            return None;
        }
        let options = options_of(flags);
        let probably = self.inodes.probably(place);
        if probably.is_some_and(|fh| nodes.attrs_known(&fh).is_some()) {
            let node = nodes.lookup(dir, place.1.clone()).await.ok()?;
            if let Ok(opened) = nodes.open_node(&node.fh, options).await {
                return Some((node, opened.io));
            }
        }
        let opened = nodes.open(dir, place.1.clone(), options).await.ok()?;
        Some((opened.node, opened.io))
    }

    /// Looks up a name that cannot be opened. The target of a link is read while the link still has
    /// the name.
    async fn find_unopened(
        &self,
        nodes: &Nodes,
        dir: &FileHandle,
        name: &Component,
    ) -> Result<(Node, Found), Errno> {
        let mut looks = 0;
        loop {
            let node = nodes.lookup(dir, name.clone()).await.or_errno()?;
            if node.attrs.file_type != Some(FileType::LNK) {
                return Ok((node, Found::Other));
            }
            looks += 1;
            match nodes.readlink(&node.fh).await.or_errno() {
                Ok(target) => return Ok((node, Found::Link(target))),
                Err(e) if is_stale(&e) && looks < LOOKS_MAX => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Attributes, and for how long they may be believed.
    pub async fn getattr(&self, nodes: &Nodes, ino: u64) -> Result<(FileAttr, Duration), Errno> {
        let fh = self.inodes.handle(ino)?;
        let is_believed = !self.valid.is_zero();
        if let Some(known) = nodes.attrs_known(&fh).filter(|_| is_believed) {
            return Ok(self.vouched(ino, &known));
        }
        let asked_at = Instant::now();
        if let Some(recent) = self.recent.get(ino, asked_at) {
            return Ok((self.with_mode_noted(recent.0), recent.1));
        }
        // What was written and has not left counts: in size and times.
        let opens = self.inodes.opens(ino);
        flush(&opens).await;
        let known = match is_believed {
            true => nodes.vouched_attrs(&fh).await,
            false => {
                let attrs = nodes.getattr(&fh, NODE_ATTRS).await;
                attrs.map(|attrs| Vouched { attrs, holds_for: Duration::ZERO })
            }
        };
        let mut known = known.or_errno()?;
        count_unsent(&mut known.attrs, &opens);
        // The kernel drops its bytes by the times; it is not to be given the same again.
        if self.inodes.has_changed(ino, known.attrs.change, asked_at) {
            opens.iter().for_each(|io| io.forget_kept());
        }
        Ok(self.vouched(ino, &known))
    }

    /// As the kernel is told them: it believes them for as long as the client does, and is told
    /// when that ends before ([`crate::telling`]).
    fn vouched(&self, ino: u64, known: &Vouched) -> (FileAttr, Duration) {
        let attr = self.with_mode_noted(file_attr(ino, &known.attrs));
        (attr, self.valid.max(known.holds_for))
    }

    /// Sets attributes. What was written before is durable first, if that can be, so that nothing
    /// that arrives later changes what is set now; to cut a file sees to that itself, and to what
    /// need not arrive any more.
    pub async fn setattr(
        &self,
        nodes: &Nodes,
        (ino, file): (u64, Option<u64>),
        attrs: Attrs,
    ) -> Result<FileAttr, Errno> {
        let fh = self.inodes.handle(ino)?;
        let (size, opens) = (attrs.size, self.inodes.opens(ino));
        if attrs.time_modify_set.is_some() && self.inodes.may_have_mapped_writes(ino) {
            // The kernel sends what was written through mappings: later that would set the time.
            self.forget_pages(ino).await;
        }
        for io in opens.iter().filter(|_| size.is_none()) {
            match io.commit_for_others().await {
                Err(e) if e.is_no_room() => {
                    tracing::debug!(ino, "what is set may be changed by what is to arrive: {e}");
                }
                done => done.or_errno()?,
            }
        }
        let open = file.and_then(|number| self.files.get(number));
        self.recent.forget(ino);
        let set = match open.filter(|open| open.is_writable && size.is_some()) {
            // In its opener's name, who may have lost the right since.
            Some(open) => open.nodes.setattr_open(&open.io, attrs).await,
            None => nodes.setattr(&fh, Stateid::ANONYMOUS, attrs).await,
        };
        // Again, for an answer of before that arrived meanwhile.
        self.recent.forget(ino);
        let mut set = set.or_errno()?;
        if size.is_some() {
            self.written(ino);
        }
        count_unsent(&mut set, &opens);
        Ok(self.with_mode_noted(file_attr(ino, &set)))
    }

    /// Target of a link, for a thread.
    pub async fn readlink(
        &self,
        (nodes, thread): (&Nodes, Thread),
        ino: u64,
    ) -> Result<Bytes, Errno> {
        if let Some(Found::Link(target)) = self.retries.what(thread, ino, Instant::now()) {
            return Ok(target);
        }
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
        let made = nodes.create(&dir, name.clone(), objtype, attrs).await;
        let (node, change) = self.in_dir(parent, made)?;
        self.dir_told(parent, change);
        self.told(&node, (parent, &name))
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
        let opened = nodes.open(&dir, name.clone(), options).await;
        let OpenedName { node, io, change } = self.in_dir(parent, opened)?;
        self.dir_told(parent, change);
        io.close().await.or_errno()?;
        self.told(&node, (parent, &name))
    }

    pub async fn remove(&self, nodes: &Nodes, parent: u64, name: Component) -> Result<(), Errno> {
        let dir = self.inodes.handle(parent)?;
        let file = self.inodes.probably((parent, &name));
        let removed = nodes.remove(&dir, name.clone(), file.as_ref()).await;
        self.recent.forget_files();
        let change = self.in_dir(parent, removed)?;
        self.inodes.name_removed((parent, &name));
        self.dir_told(parent, change);
        Ok(())
    }

    pub async fn rename(
        &self,
        nodes: &Nodes,
        (from, oldname): (u64, Component),
        (to, newname): (u64, Component),
    ) -> Result<(), Errno> {
        let (source, target) = (self.inodes.handle(from)?, self.inodes.handle(to)?);
        let (old, new) = (oldname.clone(), newname.clone());
        let file = self.inodes.probably((from, &old));
        let renamed = nodes.rename((&source, oldname), (&target, newname), file.as_ref()).await;
        self.recent.forget_all();
        let (source, target) = self.in_dir(to, renamed)?;
        self.inodes.name_removed((to, &new));
        self.inodes.renamed((from, &old), (to, &new));
        if from == to {
            // One change of one directory, told once for each end.
            self.dir_told(from, source);
        } else {
            self.dir_told(from, source);
            self.dir_told(to, target);
        }
        Ok(())
    }

    pub async fn link(
        &self,
        nodes: &Nodes,
        ino: u64,
        (parent, newname): (u64, Component),
    ) -> Result<FileAttr, Errno> {
        let (fh, dir) = (self.inodes.handle(ino)?, self.inodes.handle(parent)?);
        let opens = self.inodes.opens(ino);
        flush(&opens).await;
        let linked = nodes.link(&fh, &dir, newname.clone()).await;
        self.recent.forget_files();
        let (mut attrs, change) = self.in_dir(parent, linked)?;
        count_unsent(&mut attrs, &opens);
        self.dir_told(parent, change);
        self.told(&Node { fh, attrs }, (parent, &newname))
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

/// Sends what was written through these opens and has not left. What cannot leave stays, and who
/// wrote it hears why: a file with such data is looked at, opened and removed as any other.
pub async fn flush(opens: &[Arc<FileIo>]) {
    for io in opens {
        if let Err(e) = io.flush().await {
            tracing::debug!(fh = ?io.fh(), "not sent: {e}");
        }
    }
}

/// A file that is being written here may have more bytes than the server knows of. All its opens
/// know that.
pub fn count_unsent(attrs: &mut Attrs, opens: &[Arc<FileIo>]) {
    if let Some(io) = opens.first() {
        attrs.size = attrs.size.map(|size| size.max(io.reaches()));
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
