"""Clients: paths to files and what is known of them."""

import errno
import os
import posixpath
import stat as bits
from dataclasses import dataclass

from . import _exit, _file, _weft


@dataclass(frozen=True, slots=True)
class Stat:
    """What is known of a file; the names are those of ``os.stat_result``."""

    st_mode: int
    st_ino: int
    st_nlink: int
    st_size: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_blocks: int
    change: int
    owner: str
    group: str

    @classmethod
    def _of(cls, told):
        return cls(
            told["mode"],
            told["ino"],
            told["nlink"],
            told["size"],
            told["atime_ns"],
            told["mtime_ns"],
            told["ctime_ns"],
            -(-told["space"] // 512),
            told["change"],
            told["owner"],
            told["group"],
        )

    st_atime = property(lambda self: self.st_atime_ns / 1e9)
    st_mtime = property(lambda self: self.st_mtime_ns / 1e9)
    st_ctime = property(lambda self: self.st_ctime_ns / 1e9)

    def is_dir(self):
        return bits.S_ISDIR(self.st_mode)

    def is_file(self):
        return bits.S_ISREG(self.st_mode)

    def is_symlink(self):
        return bits.S_ISLNK(self.st_mode)


class DirEntry:
    """A name of a directory, with what came with it: looking at it asks nobody, but for links."""

    __slots__ = ("_client", "_stat", "name", "path")

    def __init__(self, client, directory, name, told):
        self._client = client
        self._stat = None if told is None else Stat._of(told)
        self.name = name
        self.path = posixpath.join(directory, name)

    def __repr__(self):
        return f"<weft.DirEntry {self.name!r}>"

    def __fspath__(self):
        return self.path

    def stat(self, *, follow_symlinks=True):
        """As it was in the listing; asked for when it was not told there, and of links."""
        if self._stat is None or (follow_symlinks and self._stat.is_symlink()):
            return self._client.stat(self.path, follow_symlinks=follow_symlinks)
        return self._stat

    def _is(self, what, follow_symlinks):
        try:
            return what(self.stat(follow_symlinks=follow_symlinks))
        except FileNotFoundError:
            return False

    def is_dir(self, *, follow_symlinks=True):
        return self._is(Stat.is_dir, follow_symlinks)

    def is_file(self, *, follow_symlinks=True):
        return self._is(Stat.is_file, follow_symlinks)

    def is_symlink(self):
        return self._is(Stat.is_symlink, False)


# What says that nothing is there that could be reached by a path.
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM}


def _umask():
    """The umask of this process, without setting it: other threads may be making files."""
    try:
        with open("/proc/self/status", "rb", buffering=0) as status:
            return int(status.read(4096).split(b"\nUmask:", 1)[1].split(None, 1)[0], 8)
    except (OSError, IndexError, ValueError):
        umask = os.umask(0o077)
        os.umask(umask)
        return umask


def _failure(number, path):
    return OSError(number, os.strerror(number), os.fsdecode(path))


class Client:
    """A client of a cluster. Threads may share it.

    A child of ``fork`` (multiprocessing, data loaders) connects anew by itself, with what this one
    connected with, and opens files for reading anew; a file for writing it cannot use.
    """

    def __init__(self, url, **options):
        self._inner = _weft.Client(url, [(name, _text(value)) for name, value in options.items()])
        _exit.connected(self)

    def __repr__(self):
        return f"weft.connect({self._inner.url!r})"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        return connect, (self._inner.url,)

    @property
    def url(self):
        """The URL, with all options."""
        return self._inner.url

    @property
    def closed(self):
        return self._inner.closed

    def close(self):
        """Says goodbye to the servers. Files must be closed before. When Python ends, files and clients
        that are open are closed."""
        self._inner.close()

    def _path(self, path):
        """Relative paths begin at the path of the URL."""
        return os.path.join(os.fsencode(self._inner.root), os.fsencode(path))

    def open(self, path, mode="rb", buffering=-1, encoding=None, errors=None, newline=None, *, perm=0o666, layout=None):
        """Opens a file, as ``open`` does; the mode is binary reading unless said otherwise, and a
        new file gets the permissions ``perm`` less the umask. ``buffering=0`` gives a :class:`File` itself.

        ``layout`` is what :meth:`File.export_layout` gave another client: the file is read without
        asking for its own. Only from whom you trust with the file: it says which servers are asked."""
        mode = mode if {"b", "t"} & set(mode) else mode + "t"
        access, create, exclusive, truncate = _file.flags(mode)
        if layout is None:
            inner = self._inner.open(self._path(path), access, perm & ~_umask() if create else None, (exclusive, truncate))
        elif access == (True, False):
            inner = self._inner.open_with_layout(self._path(path), layout)
        else:
            raise ValueError("layout is only for reading")
        raw = _file.File(inner, os.fsdecode(path), mode)
        try:
            return _file.wrapped(raw, mode, buffering, encoding, errors, newline)
        except BaseException:
            raw.close()
            raise

    def read_bytes(self, path):
        """A whole file."""
        return self._inner.read_bytes(self._path(path))

    def write_bytes(self, path, data, *, perm=0o666):
        """Makes or replaces a file, durably."""
        self._inner.write_bytes(self._path(path), perm & ~_umask(), data)

    def read_many(self, items):
        """Fills buffers, given as ``(path, offset, buffer)``, all at once; returns how many bytes
        each got, fewer than its length only at the end of a file. A failure has the number of its
        item as ``item``; what the other buffers then hold is not said."""
        return self._inner.read_many([(self._path(path), at, buffer) for path, at, buffer in items])

    def write_many(self, items):
        """Writes buffers, given as ``(path, offset, buffer)``, all at once and durably; files that
        are not there are made. A failure has the number of its item as ``item``."""
        items = [(self._path(path), at, data) for path, at, data in items]
        perm = 0o644 & ~_umask()
        if perm != 0o644:  # new files are made with 0o644 there
            for path, item in {path: item for item, (path, _, _) in reversed(list(enumerate(items)))}.items():
                try:
                    self._inner.open(path, (False, True), perm, (False, False)).close()
                except OSError as error:
                    error.item = item
                    raise
        self._inner.write_many(items)

    def stat(self, path, *, follow_symlinks=True):
        return Stat._of(self._inner.stat(self._path(path), follow_symlinks))

    def lstat(self, path):
        return self.stat(path, follow_symlinks=False)

    def _known(self, path, follow_symlinks=True):
        """What is known of a file; None if none can be reached by the path: that a server does not
        answer is a failure."""
        if b"\0" in os.fsencode(path):  # no path at all
            return None
        try:
            return self.stat(path, follow_symlinks=follow_symlinks)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise

    def exists(self, path):
        return self._known(path) is not None

    def lexists(self, path):
        return self._known(path, False) is not None

    def is_dir(self, path):
        known = self._known(path)
        return known is not None and known.is_dir()

    def is_file(self, path):
        known = self._known(path)
        return known is not None and known.is_file()

    def is_symlink(self, path):
        known = self._known(path, False)
        return known is not None and known.is_symlink()

    def samefile(self, one, other):
        """Whether two paths lead to one file."""
        return self.stat(one).st_ino == self.stat(other).st_ino

    def scandir(self, path="."):
        """Entries of a directory, with their attributes, from one pass over it."""
        whole = self._path(path)
        entries = self._inner.list(whole)
        return iter([DirEntry(self, os.fsdecode(whole), os.fsdecode(name), told) for name, told in entries])

    def listdir(self, path="."):
        return [entry.name for entry in self.scandir(path)]

    def walk(self, top=".", *, topdown=True, onerror=None):
        """As ``os.walk``; links to directories are not followed."""
        try:
            entries = list(self.scandir(top))
        except OSError as error:
            if onerror is not None:
                onerror(error)
            return
        top = os.fsdecode(self._path(top))
        directories = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        files = [e.name for e in entries if e.name not in set(directories)]
        if topdown:
            yield top, directories, files
        for name in directories:
            yield from self.walk(posixpath.join(top, name), topdown=topdown, onerror=onerror)
        if not topdown:
            yield top, directories, files

    def mkdir(self, path, perm=0o777):
        self._inner.mkdir(self._path(path), perm & ~_umask())

    def makedirs(self, path, perm=0o777, exist_ok=False):
        if not exist_ok and self.exists(path):
            raise _failure(errno.EEXIST, path)
        self._inner.mkdir_all(self._path(path), perm & ~_umask())

    def remove(self, path):
        """Removes a file or link. The protocol has one operation for all: what it is is looked at
        before, and may be something else a moment later."""
        if self.lstat(path).is_dir():
            raise _failure(errno.EISDIR, path)
        self._inner.remove(self._path(path))

    unlink = remove

    def rmdir(self, path):
        """Removes an empty directory; the same holds."""
        if not self.lstat(path).is_dir():
            raise _failure(errno.ENOTDIR, path)
        self._inner.remove(self._path(path))

    def rmtree(self, path):
        """Removes a directory and all below it, but nothing behind links; a link itself is refused, as
        ``shutil.rmtree`` does, and so is the root of the volume."""
        if not os.fsencode(path):
            raise _failure(errno.ENOENT, path)
        known = self.lstat(path)
        if not known.is_dir():
            raise _failure(errno.ENOTDIR, path)
        if known.st_ino == self.lstat("/").st_ino:
            raise _failure(errno.EBUSY, path)
        for top, directories, files in self.walk(path, topdown=False):
            for name in files + directories:
                self._inner.remove(os.fsencode(posixpath.join(top, name)))
        self.rmdir(path)

    def rename(self, source, target):
        """Gives a file another name; what has that name is replaced, as ``os.replace`` does."""
        self._inner.rename(self._path(source), self._path(target))

    replace = rename

    def symlink(self, target, path):
        self._inner.symlink(os.fsencode(target), self._path(path))

    def readlink(self, path):
        return os.fsdecode(self._inner.readlink(self._path(path)))

    def truncate(self, path, size):
        self._inner.truncate(self._path(path), size)

    def chmod(self, path, mode):
        self._inner.chmod(self._path(path), mode)

    def utime(self, path, times=None, *, ns=None):
        """Sets times of access and modification, in seconds or nanoseconds; now, without them."""
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        if times is not None:
            ns = tuple(int(t * 1_000_000_000) for t in times)
        self._inner.utime(self._path(path), ns)


def _text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def connect(url, **options):
    """A client of the cluster of a URL, ``weft://HOST[:PORT]/PATH?OPTION=VALUE&...``; options may be
    given here too: minorversion, layouts, eager, slots, patience, data_server_patience,
    cache, cache_bytes, gather_below, read_ahead, delegations, local."""
    return Client(url, **options)
