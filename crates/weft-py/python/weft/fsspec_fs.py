"""``weft://`` for fsspec, and so for pandas, PyArrow, Dask and whoever else uses it."""

import re
import shutil
import stat as bits
import uuid
from datetime import datetime, timezone
from urllib.parse import quote, unquote

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from . import _exit, _file
from ._client import connect

_URL = re.compile(r"weft://(?P<server>[^/?]*)(?P<path>/.*?)?(?P<options>\?[a-z_]+=.*)?", re.DOTALL)
_COPY_BYTES = 8 << 20


class WeftFileSystem(AbstractFileSystem):
    """Files of the cluster at ``server`` (``HOST[:PORT]``), or at ``host`` and ``port`` as other file
    systems of fsspec have it; other options are those of :func:`weft.connect`. With ``auto_mkdir``
    writing makes the directories above a file.

    In URLs ``%`` stands for itself as ``%25``, as in :func:`weft.connect`; paths are as they are. A
    write is visible to others when the file is closed; within a transaction, when that ends: until
    then the bytes are in a file beside, which then takes the name.

    Links are followed where a path names them, and not where a tree is gone through: ``ls`` has links to
    directories as ``other``, as fsspec's local file system has, so that ``find``, ``walk``, ``glob``, ``du`` and
    copies end, and count everything once.
    """

    protocol = "weft"
    root_marker = "/"
    cachable = True

    def __init__(
        self, server=None, auto_mkdir=True, url_options="", host=None, port=None, **options
    ):
        server = _server(server, host, port)
        own = {k: options.pop(k) for k in list(options) if k in _FSSPEC_OPTIONS}
        super().__init__(server=server, auto_mkdir=auto_mkdir, **own)
        self.server = server
        self.auto_mkdir = auto_mkdir
        self.client = connect(f"weft://{server}/{url_options}", **options)

    @property
    def fsid(self):
        return f"weft://{self.server}"

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        path = _text(path)
        if match := _URL.fullmatch(path):
            path = unquote(match["path"] or "/")
        return "/" + path.strip("/") if path.startswith("/") else path.rstrip("/") or "/"

    @staticmethod
    def _get_kwargs_from_urls(path):
        match = _URL.fullmatch(path)
        if not match or not match["server"]:
            return {}
        options = {"url_options": match["options"]} if match["options"] else {}
        return {"server": match["server"], **options}

    def unstrip_protocol(self, name):
        return f"weft://{self.server}{quote(self._strip_protocol(name))}"

    def _info(self, path, told):
        kind = "directory" if told.is_dir() else "file" if told.is_file() else "other"
        return {
            "name": path,
            "size": 0 if told.is_dir() else told.st_size,
            "type": kind,
            "created": told.st_ctime,
            "mtime": told.st_mtime,
            "mode": bits.S_IMODE(told.st_mode),
            "ino": told.st_ino,
            "nlink": told.st_nlink,
            "owner": told.owner,
            "group": told.group,
            "islink": False,
        }

    def _entry(self, entry):
        """An entry of a directory: a link has the size of what it leads to, and is a file if that is
        one; a link to a directory is none, or who goes through a tree would go round and round."""
        told = entry.stat(follow_symlinks=False)
        if not told.is_symlink():
            return self._info(entry.path, told)
        info = {**self._info(entry.path, told), "size": 0}
        try:
            behind = self._info(entry.path, self.client.stat(entry.path))
        except OSError:
            behind = info
        if behind["type"] == "directory":
            behind = {**behind, "type": "other"}
        return self._linked(entry.path, behind)

    def _linked(self, path, behind):
        """The entry of a link, by what it leads to."""
        return {**behind, "islink": True, "destination": self.client.readlink(path)}

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        told = self.client.lstat(path)
        if not told.is_symlink():
            return self._info(path, told)
        return self._linked(path, self._info(path, self.client.stat(path)))

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        info = self.info(path)
        infos = [info]
        if info["type"] == "directory":
            infos = []
            for entry in self.client.scandir(path):
                try:
                    infos.append(self._entry(entry))
                except FileNotFoundError:  # removed meanwhile
                    pass
        return infos if detail else [i["name"] for i in infos]

    def du(self, path, total=True, maxdepth=None, withdirs=False, **kwargs):
        """Bytes of the files of a tree, by what their directories tell of them."""
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        sizes = {name: (info or self.info(name))["size"] for name, info in found.items()}
        return sum(sizes.values()) if total else sizes

    def exists(self, path, **kwargs):
        return self.client.exists(self._strip_protocol(path))

    def lexists(self, path, **kwargs):
        return self.client.lexists(self._strip_protocol(path))

    def islink(self, path):
        return self.client.is_symlink(self._strip_protocol(path))

    def symlink(self, src, dst, **kwargs):
        """Makes the link ``dst``, which leads to ``src``."""
        self.client.symlink(src, self._strip_protocol(dst))

    def chmod(self, path, mode):
        self.client.chmod(self._strip_protocol(path), mode)

    def created(self, path):
        """When the file's attributes last changed: servers keep no time of birth for clients."""
        return datetime.fromtimestamp(self.info(path)["created"], tz=timezone.utc)

    def modified(self, path):
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    def mkdir(self, path, create_parents=True, **kwargs):
        path = self._strip_protocol(path)
        if create_parents:
            self.client.makedirs(path)
        else:
            self.client.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        self.client.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path):
        self.client.rmdir(self._strip_protocol(path))

    def rm_file(self, path):
        self.client.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        """Removes files, links, what patterns match, and with ``recursive`` directories and all below
        them, never what is behind a link. A name that is there is meant as it is, whatever it has of a
        pattern. With ``maxdepth``, what lies deeper stays, and its directory cannot be removed. All is
        looked at before anything is removed."""
        directories, others = [], []
        for one in path if isinstance(path, (list, tuple, set)) else [path]:
            for name in self._meant(self._strip_protocol(one)):
                told = self.client.lstat(name)
                if not told.is_dir():
                    others.append(name)
                elif not recursive:
                    raise IsADirectoryError(f"{name} is a directory: say recursive=True")
                elif told.st_ino == self.client.lstat("/").st_ino:
                    raise ValueError("the root of a volume cannot be removed: name what is in it")
                else:
                    directories.append(name)
        tops = _tops(directories)
        for name in dict.fromkeys(others):
            if not _is_below(name, tops):
                self.client.remove(name)
        for name in tops:
            if maxdepth is None:
                self.client.rmtree(name)
            else:
                self._rm_to_depth(name, maxdepth)

    def _meant(self, path):
        """The names that a path or pattern stands for."""
        if not any(c in path for c in "*?[") or self.client.lexists(path):
            return [path]
        names = self.glob(path)
        if not names:
            raise FileNotFoundError(path)
        return names

    def _rm_to_depth(self, path, depth):
        if depth < 1:
            raise ValueError("maxdepth must be at least 1")
        for entry in self.client.scandir(path):
            if not entry.is_dir(follow_symlinks=False):
                self.client.remove(entry.path)
            elif depth > 1:
                self._rm_to_depth(entry.path, depth - 1)
            else:
                self.client.rmdir(entry.path)
        self.client.rmdir(path)

    def _make_room(self, path):
        if self.auto_mkdir:
            self.client.makedirs(self._parent(path), exist_ok=True)

    def mv_file(self, path1, path2, **kwargs):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        self._make_room(path2)
        self.client.rename(path1, path2)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        plain = isinstance(path1, str) and isinstance(path2, str) and maxdepth is None
        if not plain or any(c in path1 for c in "*?["):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        into = path2.endswith("/") or self.isdir(target)
        if into:
            target = f"{target.rstrip('/')}/{source.rsplit('/', 1)[-1]}"
        self.mv_file(source, target)

    def cp_file(self, path1, path2, **kwargs):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            self.client.makedirs(path2, exist_ok=True)
            return
        if self.client.exists(path2) and self.client.samefile(path1, path2):
            raise shutil.SameFileError(f"{path1} and {path2} are the same file")
        self._make_room(path2)
        part = memoryview(bytearray(_COPY_BYTES))
        with (
            self.client.open(path1, "rb", buffering=0) as source,
            self.client.open(path2, "wb", buffering=0) as target,
        ):
            while read := source.readinto(part):
                target.write(part[:read])

    def touch(self, path, truncate=True, **kwargs):
        path = self._strip_protocol(path)
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")
        else:
            self.client.utime(path)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        path = self._strip_protocol(path)
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(value)
            return
        self._make_room(path)
        if mode == "create":
            with self.client.open(path, "xb", buffering=0) as file:
                file.write(value)
        else:
            self.client.write_bytes(path, value)

    def _bounds(self, path, start, end):
        """Where a part of a file begins and ends; negative numbers count from the end."""
        if end is None or end < 0 or (start or 0) < 0:
            size = self.client.stat(path).st_size
            end = size if end is None else end if end >= 0 else max(size + end, 0)
            start = start if (start or 0) >= 0 else max(size + start, 0)
        return start or 0, max(end, start or 0)

    def cat_file(self, path, start=None, end=None, **kwargs):
        path = self._strip_protocol(path)
        if start is None and end is None:
            return self.client.read_bytes(path)
        start, end = self._bounds(path, start, end)
        return self._cat([(path, start, end)])[0]

    def _cat(self, ranges):
        """Parts of files, read all at once."""
        sizes = {path: self.client.stat(path).st_size for path in {path for path, _, _ in ranges}}
        room = [bytearray(max(min(end, sizes[path]) - start, 0)) for path, start, end in ranges]
        got = self.client.read_many(
            [(path, start, part) for (path, start, _), part in zip(ranges, room, strict=True)]
        )
        return [bytes(memoryview(part)[:read]) for part, read in zip(room, got, strict=True)]

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        """Parts of files, all in flight at once; one that fails is its exception, unless
        ``on_error`` is ``raise``."""
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError("paths, starts and ends must be equally many")
        paths = [self._strip_protocol(p) for p in paths]
        wanted = list(zip(paths, starts, ends, strict=True))
        try:
            return self._cat([(p, *self._bounds(p, s, e)) for p, s, e in wanted])
        except OSError:
            if on_error == "raise":
                raise
        return [self._or_failure(*one) for one in wanted]

    def _or_failure(self, path, start, end):
        try:
            return self.cat_file(path, start, end)
        except OSError as failure:
            return failure

    def open(self, path, mode="rb", *args, **kwargs):
        file = super().open(path, mode, *args, **kwargs)
        if "b" not in mode and "r" not in mode:
            _exit.opened(file)
        return file

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, cache_type=None, size=None, **kwargs):
        path = self._strip_protocol(path)
        if cache_type is not None and mode == "rb":
            return _Fetched(self, path, block_size or "default", cache_type, cache_options, size)
        if "r" not in mode:
            self._make_room(path)
        buffering = block_size if isinstance(block_size, int) else -1
        if autocommit or mode in ("r", "rb"):
            return self.client.open(path, mode, buffering)
        return _Deferred(self.client, path, mode)


class _Fetched(AbstractBufferedFile):
    """A file that is read through a cache of fsspec, such as ``blockcache`` puts in its place."""

    def __init__(self, fs, path, block_size, cache_type, cache_options, size):
        self._raw = fs.client.open(path, "rb", buffering=0)
        super().__init__(fs, path, "rb", block_size, cache_type=cache_type, cache_options=cache_options, size=size)

    def _fetch_range(self, start, end):
        part = bytearray(max(min(end, self.size) - start, 0))
        return bytes(memoryview(part)[: self._raw.read_at(start, part)])

    def close(self):
        self._raw.close()
        super().close()


class _Deferred(_file._Writer):
    """A file of a transaction: written beside its name, which it gets with ``commit``."""

    def __init__(self, client, path, mode):
        if mode not in ("w", "wb", "x", "xb"):
            raise NotImplementedError(f"mode {mode!r} in a transaction: only whole files are written there")
        self._client, self._path, self._new = client, path, "x" in mode
        if self._new and client.lexists(path):
            raise FileExistsError(f"{path} is there")
        self._beside = f"{path.rpartition('/')[0]}/.{uuid.uuid4().hex}.part"
        raw = client.open(self._beside, "xb", buffering=0)
        super().__init__(raw, _file.DEFAULT_BUFFER)
        self._around(raw)

    def commit(self):
        """Gives the file its name; a mode of ``x`` makes sure once more that nobody has it."""
        self.close()
        if self._new and self._client.lexists(self._path):
            self._client.remove(self._beside)
            raise FileExistsError(f"{self._path} is there")
        self._client.rename(self._beside, self._path)

    def discard(self):
        self.close()
        self._client.remove(self._beside)


def _tops(directories):
    """Directories that are below none of the others."""
    tops = set()
    for name in sorted(directories):
        if not _is_below(name, tops):
            tops.add(name)
    return sorted(tops)


def _is_below(name, directories):
    return any(name.startswith(directory.rstrip("/") + "/") for directory in directories)


_FSSPEC_OPTIONS = {
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}


def _server(server, host, port):
    """``HOST[:PORT]``, whichever way it is said."""
    if host is None and port is None:
        return "localhost" if server is None else server
    if server is not None:
        raise ValueError("say where the cluster is by server, or by host and port, not by both")
    host = "localhost" if host is None else host
    host = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    return host if port is None else f"{host}:{port}"


def _text(path):
    return path if isinstance(path, str) else path.__fspath__() if hasattr(path, "__fspath__") else str(path)
