//! Open directories: their entries.
//!
//! An offset of the kernel's is the cookie of the entry that was given last. The protocol leaves
//! cookies 0, 1 and 2 to clients (RFC 8881 §18.23.3): 0 is the beginning, 1 is behind `.` and 2
//! behind `..`, which servers do not list.

use std::{sync::Arc, time::Instant};

use fuser::{Errno, FileAttr, FileType as Kind};
use tokio::sync::Mutex;
use weft_client::node::{NODE_ATTRS, Node, Nodes};
use weft_nfs::{
    AttrNo, Attrs, Bitmap, Component, FileType, NfsStat, Verifier,
    ops::{DirEntry, ReaddirOk},
};

use crate::{
    attr::file_attr,
    errno::{OrErrno, errno},
    names::count_unsent,
    slots::OpenDir,
    tree::Tree,
};

/// An entry for the kernel.
pub struct Entry<'a> {
    pub name: &'a [u8],
    /// Where to go on behind it.
    pub offset: u64,
    /// What it is. `.` and `..` are numbers only, which the kernel knows.
    pub attr: FileAttr,
    /// Whether the kernel may believe the attributes for a while.
    pub is_known: bool,
    /// What the kernel is told of, in which directory by which name.
    node: Option<(Node, (u64, &'a Component))>,
}

const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

impl Tree {
    /// Opens a directory.
    pub fn open_dir(&self, nodes: &Nodes, ino: u64) -> Result<u64, Errno> {
        let fh = self.inodes.handle(ino)?;
        let dir = OpenDir { fh, ino, nodes: nodes.clone(), page: Mutex::new(None) };
        Ok(self.dirs.insert(Arc::new(dir)))
    }

    /// Gives entries behind an offset, one after another, until `give` takes no more.
    pub async fn list(
        &self,
        number: u64,
        offset: u64,
        mut give: impl FnMut(Entry<'_>) -> bool,
    ) -> Result<(), Errno> {
        let dir = self.dirs.get(number).ok_or(Errno::EBADF)?;
        let above = self.inodes.parent_of(dir.ino);
        for (at, name, ino) in [(DOT, &b"."[..], dir.ino), (DOT_DOT, b"..", above)] {
            if offset < at && !give(dot(at, name, ino)) {
                return Ok(());
            }
        }
        let behind = if offset <= DOT_DOT { 0 } else { offset };
        let mut page = dir.page.lock().await;
        // A page's worth is enough for an answer.
        for entry in dir.behind(&mut page, behind).await? {
            if !give(self.entry(dir.ino, entry)?) {
                break;
            }
        }
        Ok(())
    }

    fn entry<'a>(&self, dir: u64, entry: &'a DirEntry) -> Result<Entry<'a>, Errno> {
        let attrs = entry.attrs.clone();
        let fh = attrs.filehandle.clone().ok_or(Errno::EIO)?;
        let mut node = Node { fh, attrs };
        let number = self.inodes.number(&node)?;
        let opens = self.inodes.opens(number);
        count_unsent(&mut node.attrs, &opens);
        let attr = file_attr(number, &node.attrs);
        Ok(Entry {
            name: &entry.name.0,
            offset: entry.cookie,
            attr,
            is_known: opens.is_empty() && is_whole(&node.attrs) && is_believed(attr.kind),
            node: Some((node, (dir, &entry.name))),
        })
    }

    /// The kernel is told of an entry, with its attributes.
    pub fn entry_told(&self, entry: &Entry<'_>) -> Result<(), Errno> {
        let Some((node, place)) = &entry.node else { return Ok(()) };
        let FileAttr { ino, kind, .. } = self.told(node, *place)?;
        if entry.is_known && kind != Kind::Directory {
            self.inodes.listed(ino.0, Instant::now());
        }
        Ok(())
    }

    /// The entry did not reach the kernel.
    pub fn entry_not_told(&self, entry: &Entry<'_>) {
        if entry.node.is_some() {
            self.forget(entry.attr.ino.0, 1);
        }
    }
}

fn dot(offset: u64, name: &[u8], ino: u64) -> Entry<'_> {
    let attrs = Attrs { file_type: Some(FileType::DIR), ..Attrs::default() };
    Entry { name, offset, attr: file_attr(ino, &attrs), is_known: false, node: None }
}

/// True if the kernel may believe a name from a list: a file is opened before anything is done with
/// it, and then asked for again.
fn is_believed(kind: Kind) -> bool {
    matches!(kind, Kind::Directory | Kind::RegularFile)
}

/// Whether the server told all attributes of an entry.
fn is_whole(attrs: &Attrs) -> bool {
    attrs.rdattr_error.is_none_or(|status| status == NfsStat::OK) && attrs.filehandle.is_some()
}

impl OpenDir {
    /// The entries behind a cookie: of the page that is there, or of the next one.
    async fn behind<'a>(
        &self,
        page: &'a mut Option<(u64, ReaddirOk)>,
        cookie: u64,
    ) -> Result<&'a [DirEntry], Errno> {
        let known = page.as_ref().and_then(|(start, page)| place_in(*start, page, cookie));
        let (from, entries) = match known {
            Some(from) => (from, page.as_ref()),
            None => {
                let verifier = match (cookie, page.as_ref()) {
                    (0, _) | (_, None) => Verifier::default(),
                    (_, Some((_, page))) => page.cookieverf,
                };
                *page = Some(self.next_page(cookie, verifier).await?);
                (0, page.as_ref())
            }
        };
        Ok(entries.and_then(|(_, page)| page.entries.get(from..)).unwrap_or_default())
    }
}

impl OpenDir {
    /// The entries behind a cookie, as many as come at once, and behind which they are: an answer
    /// without any is the end of the directory to the kernel.
    async fn next_page(
        &self,
        mut cookie: u64,
        mut verifier: Verifier,
    ) -> Result<(u64, ReaddirOk), Errno> {
        loop {
            let page = self.nodes.readdir(&self.fh, (cookie, verifier), wanted()).await;
            let mut page = page.or_errno()?;
            let last = page.entries.last().map(|entry| entry.cookie);
            self.complete(&mut page).await?;
            match last.filter(|_| page.entries.is_empty() && !page.eof) {
                Some(last) => (cookie, verifier) = (last, page.cookieverf),
                None => return Ok((cookie, page)),
            }
        }
    }

    /// Asks for entries whose attributes the server could not tell, one by one and for less: what
    /// has a name must be listed. What has lost its name meanwhile is left out.
    async fn complete(&self, page: &mut ReaddirOk) -> Result<(), Errno> {
        let mut gone = Vec::new();
        for entry in page.entries.iter_mut().filter(|entry| !is_whole(&entry.attrs)) {
            match self.nodes.lookup_asking(&self.fh, entry.name.clone(), least()).await {
                Ok(node) => {
                    let filehandle = Some(node.fh);
                    let rdattr_error = Some(NfsStat::DELAY);
                    entry.attrs = Attrs { filehandle, rdattr_error, ..node.attrs };
                }
                Err(e) if e.status() == Some(NfsStat::NOENT) => gone.push(entry.cookie),
                Err(e) => return Err(errno(&e)),
            }
        }
        page.entries.retain(|entry| !gone.contains(&entry.cookie));
        Ok(())
    }
}

/// What a server always knows of an entry, whichever data server is away.
fn least() -> Bitmap {
    let attrs = [AttrNo::TYPE, AttrNo::FSID, AttrNo::FILEID, AttrNo::MODE];
    Bitmap::of(&attrs).or(&Bitmap::of(&[AttrNo::OWNER, AttrNo::OWNER_GROUP, AttrNo::NUMLINKS]))
}

/// Where the entries behind a cookie are in a page that begins behind another one, if they are.
/// From the beginning everything is asked for anew: that is what `rewinddir` is for.
fn place_in(start: u64, page: &ReaddirOk, cookie: u64) -> Option<usize> {
    if cookie == 0 {
        return None;
    }
    let at = page.entries.iter().position(|e| e.cookie == cookie).map(|at| at + 1);
    let from = if start == cookie { Some(0) } else { at };
    from.filter(|from| *from < page.entries.len() || page.eof)
}

fn wanted() -> Bitmap {
    NODE_ATTRS.or(&Bitmap::of(&[AttrNo::RDATTR_ERROR, AttrNo::FILEHANDLE]))
}
