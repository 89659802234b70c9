"""``weft://`` for fsspec, and so for pandas, PyArrow, Dask and whoever else uses it."""

import re
import stat as bits
from datetime import datetime, timezone
from urllib.parse import quote, unquote

from fsspec.spec import AbstractFileSystem

from ._client import connect

_URL = re.compile(r"weft://(?P<server>[^/?]*)(?P<path>/.*?)?(?P<options>\?[a-z_]+=.*)?", re.DOTALL)
_COPY_BYTES = 8 << 20


class WeftFileSystem(AbstractFileSystem):
    """Files of the cluster at ``server`` (``HOST[:PORT]``), or at ``host`` and ``port`` as other file
    systems of fsspec have it; other options are those of :func:`weft.connect`. With ``auto_mkdir``
    writing makes the directories above a file.

    In URLs ``%`` stands for itself as ``%25``, as in :func:`weft.connect`; paths are as they are. A
    write is visible to others when the file is closed. Transactions are not supported.
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

    def _linked(self, path, told):
        """What a link leads to, or the link itself if it leads nowhere."""
        if not told.is_symlink():
            return self._info(path, told)
        try:
            info = self._info(path, self.client.stat(path))
        except OSError:
            info = self._info(path, told)
        return {**info, "islink": True, "destination": self.client.readlink(path)}

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        return self._linked(path, self.client.lstat(path))

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        info = self.info(path)
        infos = [info]
        if info["type"] == "directory":
            entries = self.client.scandir(path)
            infos = [self._linked(e.path, e.stat(follow_symlinks=False)) for e in entries]
        return infos if detail else [i["name"] for i in infos]

    def exists(self, path, **kwargs):
        return self.client.exists(self._strip_protocol(path))

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
        for one in path if isinstance(path, list) else [path]:
            one = self._strip_protocol(one)
            if maxdepth is not None or (isinstance(one, str) and any(c in one for c in "*?[")):
                super().rm(one, recursive=recursive, maxdepth=maxdepth)
            elif not self.client.lstat(one).is_dir():
                self.client.remove(one)
            elif recursive:
                self.client.rmtree(one)
            else:
                raise IsADirectoryError(f"{one} is a directory: say recursive=True")

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

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        if not autocommit:
            raise NotImplementedError("weft has no transactions: write, then mv into place")
        path = self._strip_protocol(path)
        if "r" not in mode:
            self._make_room(path)
        return self.client.open(path, mode, block_size if isinstance(block_size, int) else -1)


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
