//! Requests of the kernel: each is answered in its caller's name, beside all others.

use std::{
    ffi::OsStr,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use tokio::runtime::Handle;
use weft_client::{begun::begin, node::Nodes};
use weft_nfs::{Attrs, ops::CreateType};

use crate::{
    attr::{owner, set_time},
    callers::Callers,
    errno::is_stale,
    locks::{LockCall, Told},
    opening::{O_APPEND, O_RDONLY},
    retries::Thread,
    space::Place,
    tree::{Creation, Tree, component},
    xattrs::key_of,
};

/// Inode numbers are never used twice.
const GENERATION: Generation = Generation(0);
/// Requests of the kernel that it has under way without anybody waiting for each.
const BACKGROUND_MAX: u16 = 128;
/// Bytes of one request to write, and of one to read: a WRITE and a READ of ours.
const IO_BYTES_MAX: u32 = 1 << 20;
/// What `statfs` counts in.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of a name, as servers have it.
const NAME_BYTES_MAX: u32 = 255;

/// The file system as FUSE drives it.
pub struct WeftFs {
    pub tree: Arc<Tree>,
    pub nodes: Nodes,
    pub callers: Callers,
    pub runtime: Handle,
}

/// What a request works with.
struct Call {
    tree: Arc<Tree>,
    nodes: Nodes,
    thread: Thread,
}

impl WeftFs {
    /// What a request of this caller works with.
    fn call(&self, request: &Request) -> Call {
        let nodes = self.nodes.acting_for(self.callers.credential(request));
        Call { tree: self.tree.clone(), nodes, thread: (request.pid(), request.uid()) }
    }

    fn answer(&self, answer: impl Future<Output = ()> + Send + 'static) {
        begin(&self.runtime, answer);
    }
}

impl Call {
    /// Answer to a thread that asked by a path. On ESTALE the kernel looks the path up once more.
    fn told<T>(&self, answer: Result<T, Errno>) -> Result<T, Errno> {
        self.told_to_open(answer, O_RDONLY)
    }

    /// Answer to an open with these flags, as [`Call::told`].
    fn told_to_open<T>(&self, answer: Result<T, Errno>, flags: i32) -> Result<T, Errno> {
        if answer.as_ref().is_err_and(is_stale) {
            self.tree.retries.begin(self.thread, flags, Instant::now());
        }
        answer
    }

    fn entry(&self, reply: ReplyEntry, answer: Result<FileAttr, Errno>) {
        match answer {
            Ok(attr) => {
                let (attr_ttl, entry_ttl) = (self.tree.valid, self.tree.name_holds(attr.kind));
                reply.entry_with_ttls(&attr_ttl, &entry_ttl, &attr, GENERATION);
            }
            Err(e) => reply.error(e),
        }
    }

    fn attr(&self, reply: ReplyAttr, answer: Result<FileAttr, Errno>) {
        match answer {
            Ok(attr) => reply.attr(&self.tree.valid, &attr),
            Err(e) => reply.error(e),
        }
    }
}

fn empty(reply: ReplyEmpty, answer: Result<(), Errno>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

fn data(reply: ReplyData, answer: Result<Bytes, Errno>) {
    match answer {
        Ok(bytes) => reply.data(&bytes),
        Err(e) => reply.error(e),
    }
}

/// A value or a list of names: its size first, if that is what is asked for.
fn xattr(reply: ReplyXattr, room: u32, answer: Result<impl AsRef<[u8]>, Errno>) {
    match answer.as_ref().map(AsRef::as_ref) {
        Ok(bytes) => match u32::try_from(bytes.len()) {
            Ok(size) if room == 0 => reply.size(size),
            Ok(size) if size <= room => reply.data(bytes),
            Ok(_) | Err(_) => reply.error(Errno::ERANGE),
        },
        Err(e) => reply.error(*e),
    }
}

impl Filesystem for WeftFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // What a kernel does not have of these is done without.
        for wanted in [
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_POSIX_LOCKS,
            InitFlags::FUSE_FLOCK_LOCKS,
        ] {
            if config.add_capabilities(wanted).is_err() {
                tracing::debug!(?wanted, "this kernel does not have it");
            }
        }
        let maps = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.tree.maps_direct.store(maps, Ordering::Relaxed);
        // The nearest that it takes is as good.
        let _ = config.set_max_write(IO_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        if let Err(most) = config.set_max_readahead(IO_BYTES_MAX) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (call, name) = (self.call(request), component(name));
        self.answer(async move {
            let answer = call.tree.lookup((&call.nodes, call.thread), parent.0, name).await;
            if answer.is_err() {
                call.tree.retries.end(call.thread);
            }
            call.entry(reply, call.told(answer));
        });
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.tree.forget(ino.0, nlookup);
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let call = self.call(request);
        self.answer(async move {
            match call.told(call.tree.getattr(&call.nodes, ino.0).await) {
                Ok((attr, valid)) => reply.attr(&valid, &attr),
                Err(e) => reply.error(e),
            }
        });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let attrs = Attrs {
            mode: mode.map(|mode| mode & 0o7777),
            owner: uid.map(owner),
            owner_group: gid.map(owner),
            size,
            time_access_set: atime.map(set_time),
            time_modify_set: mtime.map(set_time),
            ..Attrs::default()
        };
        let call = self.call(request);
        self.answer(async move {
            let which = (ino.0, fh.map(|fh| fh.0));
            let answer = call.tree.setattr(&call.nodes, which, attrs).await;
            call.attr(reply, call.told(answer));
        });
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let call = self.call(request);
        self.answer(async move {
            let answer = call.tree.readlink((&call.nodes, call.thread), ino.0).await;
            data(reply, call.told(answer));
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let (call, name) = (self.call(request), component(name));
        self.answer(async move {
            let creation = Creation { mode, umask };
            let answer = call.tree.mknod(&call.nodes, (parent.0, name), creation, rdev).await;
            call.entry(reply, answer);
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (call, name) = (self.call(request), component(name));
        self.answer(async move {
            let creation = Some(Creation { mode, umask });
            let (place, kind) = ((parent.0, name), CreateType::Directory);
            let answer = call.tree.create(&call.nodes, place, kind, creation).await;
            call.entry(reply, answer);
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (call, name) = (self.call(request), component(name));
        self.answer(
            async move { empty(reply, call.tree.remove(&call.nodes, parent.0, name).await) },
        );
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (call, name) = (self.call(request), component(link_name));
        let kind = CreateType::Link(component(target.as_os_str()).0);
        self.answer(async move {
            let answer = call.tree.create(&call.nodes, (parent.0, name), kind, None).await;
            call.entry(reply, answer);
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL); // the protocol has none of them
        }
        let call = self.call(request);
        let (from, to) = ((parent.0, component(name)), (newparent.0, component(newname)));
        self.answer(async move { empty(reply, call.tree.rename(&call.nodes, from, to).await) });
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let (call, place) = (self.call(request), (newparent.0, component(newname)));
        self.answer(async move {
            let answer = call.tree.link(&call.nodes, ino.0, place).await;
            call.entry(reply, answer);
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let call = self.call(request);
        self.answer(async move {
            let answer = call.tree.open((&call.nodes, call.thread), ino.0, flags.0).await;
            match call.told_to_open(answer, flags.0) {
                Ok((number, how)) => reply.opened(FileHandle(number), how),
                Err(e) => reply.error(e),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (call, place) = (self.call(request), (parent.0, component(name)));
        self.answer(async move {
            let creation = Creation { mode, umask };
            match call.tree.create_file(&call.nodes, place, creation, flags).await {
                Ok((attr, number, how)) => {
                    // Its name and its attributes for as long as each other.
                    let ttl = call.tree.name_holds(attr.kind);
                    reply.created(&ttl, &attr, GENERATION, FileHandle(number), how);
                }
                Err(e) => reply.error(e),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (tree, place) = (self.tree.clone(), Place { ino: ino.0, file: fh.0, offset });
        self.answer(async move { data(reply, tree.read(place, size).await) });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        kind: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel's requests are no longer than what it was told, far below 4 GiB.
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let place = Place { ino: ino.0, file: fh.0, offset };
        let (tree, data) = (self.tree.clone(), Bytes::copy_from_slice(data));
        // Pages that were mapped have their place, however the file is open.
        let is_page = kind.contains(WriteFlags::FUSE_WRITE_CACHE);
        let appends = flags.0 & O_APPEND != 0 && !is_page;
        let takes_set_id = kind.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        self.answer(async move {
            let written = tree.write(place, data, appends).await;
            if takes_set_id {
                tree.set_id_may_be_gone(place.ino).await;
            }
            match written {
                Ok(()) => reply.written(len),
                Err(e) => reply.error(e),
            }
        });
    }

    fn flush(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let tree = self.tree.clone();
        self.answer(async move {
            let committed = tree.flush(fh.0).await;
            let unlocked = tree.unlock_owner(ino.0, lock_owner.0).await;
            empty(reply, committed.and(unlocked));
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        let tree = self.tree.clone();
        self.answer(async move { empty(reply, tree.fsync(fh.0).await) });
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let tree = self.tree.clone();
        // Registered before this thread reads the kernel's next request.
        let unlocking = tree.unlocking_through(ino.0, fh.0);
        self.answer(async move {
            // The kernel does not wait for this answer, but counts the request as in the background
            // until then, and write-back, for which an unlock may wait, needs a place there.
            reply.ok();
            tree.release(ino.0, fh.0).await;
            drop(unlocking);
        });
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let call = self.call(request);
        match call.tree.open_dir(&call.nodes, ino.0) {
            Ok(number) => reply.opened(FileHandle(number), fuser::FopenFlags::empty()),
            Err(e) => reply.error(e),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let tree = self.tree.clone();
        self.answer(async move {
            let listed = tree.list(fh.0, offset, |entry| {
                let FileAttr { ino, kind, .. } = entry.attr;
                !reply.add(ino, entry.offset, kind, name_of(entry.name))
            });
            match listed.await {
                Ok(()) => reply.ok(),
                Err(e) => reply.error(e),
            }
        });
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let tree = self.tree.clone();
        self.answer(async move {
            let listed = tree.list(fh.0, offset, |entry| {
                if tree.entry_told(&entry).is_err() {
                    return false;
                }
                let valid = if entry.is_known { tree.valid } else { Duration::ZERO };
                let (attr, name) = (&entry.attr, name_of(entry.name));
                let full = reply.add(attr.ino, entry.offset, name, &valid, attr, GENERATION);
                if full {
                    tree.entry_not_told(&entry);
                }
                !full
            });
            match listed.await {
                Ok(()) => reply.ok(),
                Err(e) => reply.error(e),
            }
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        drop(self.tree.dirs.remove(fh.0));
        reply.ok();
    }

    /// What changed in a directory was durable when it was answered.
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let call = self.call(request);
        self.answer(async move {
            match call.tree.space(&call.nodes, ino.0).await {
                Ok(space) => {
                    let blocks = |bytes: u64| bytes / BLOCK_BYTES;
                    let block = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
                    reply.statfs(
                        blocks(space.total_bytes),
                        blocks(space.free_bytes),
                        blocks(space.available_bytes),
                        space.total_files,
                        space.free_files,
                        block,
                        NAME_BYTES_MAX,
                        block,
                    );
                }
                Err(e) => reply.error(e),
            }
        });
    }

    fn access(&self, request: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let call = self.call(request);
        self.answer(async move {
            let allowed = call.tree.access(&call.nodes, ino.0, mask.bits()).await;
            empty(reply, call.told(allowed));
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let key = match key_of(name) {
            Ok(key) => key,
            Err(e) => return reply.error(e),
        };
        let (call, value) = (self.call(request), Bytes::copy_from_slice(value));
        self.answer(async move {
            let set = call.tree.setxattr(&call.nodes, ino.0, (key, value), flags);
            empty(reply, call.told(set.await));
        });
    }

    fn getxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let key = match key_of(name) {
            Ok(key) => key,
            Err(e) => return reply.error(e),
        };
        let call = self.call(request);
        self.answer(async move {
            let value = call.tree.getxattr(&call.nodes, ino.0, key).await;
            xattr(reply, size, call.told(value));
        });
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let call = self.call(request);
        self.answer(async move {
            let keys = call.tree.listxattr(&call.nodes, ino.0).await;
            xattr(reply, size, call.told(keys));
        });
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let key = match key_of(name) {
            Ok(key) => key,
            Err(e) => return reply.error(e),
        };
        let call = self.call(request);
        self.answer(async move {
            let removed = call.tree.removexattr(&call.nodes, ino.0, key).await;
            empty(reply, call.told(removed));
        });
    }

    fn getlk(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let tree = self.tree.clone();
        let (ino, file, owner) = (ino.0, fh.0, lock_owner.0);
        let call = LockCall { ino, file, owner, start, end, kind, pid };
        self.answer(async move {
            match tree.lock_in_the_way(call).await {
                Ok(Told { start, end, kind, pid }) => reply.locked(start, end, kind, pid),
                Err(e) => reply.error(e),
            }
        });
    }

    fn setlk(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let (tree, waits) = (self.tree.clone(), sleep.then(|| request.pid()));
        let (ino, file, owner) = (ino.0, fh.0, lock_owner.0);
        let call = LockCall { ino, file, owner, start, end, kind, pid };
        self.answer(async move { empty(reply, tree.set_lock(call, waits).await) });
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let tree = self.tree.clone();
        self.answer(async move {
            match tree.seek((ino.0, fh.0), offset, whence).await {
                Ok(offset) => reply.offset(offset),
                Err(e) => reply.error(e),
            }
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let tree = self.tree.clone();
        let place = Place { ino: ino.0, file: fh.0, offset };
        self.answer(async move { empty(reply, tree.allocate(place, length, mode).await) });
    }

    fn copy_file_range(
        &self,
        _: &Request,
        ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let tree = self.tree.clone();
        let from = Place { ino: ino_in.0, file: fh_in.0, offset: offset_in };
        let to = Place { ino: ino_out.0, file: fh_out.0, offset: offset_out };
        self.answer(async move {
            match tree.copy(from, to, len).await {
                Ok(copied) => reply.written(copied),
                Err(e) => reply.error(e),
            }
        });
    }
}

fn name_of(bytes: &[u8]) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}
