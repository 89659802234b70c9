"""Open files, as Python's ``io`` has them."""

import io
import os

from . import _exit

DEFAULT_BUFFER = 1 << 20
_MODES = frozenset("rwxab+t")


def flags(mode):
    """What a mode means: ``(read, write), create, exclusive, truncate``.

    >>> flags("rb")
    ((True, False), False, False, False)
    >>> flags("w+b")
    ((True, True), True, False, True)
    """
    letters = set(mode)
    kinds = letters & set("rwxa")
    if len(letters) != len(mode) or not letters <= _MODES or len(kinds) != 1:
        raise ValueError(f"invalid mode: {mode!r}")
    if {"b", "t"} <= letters:
        raise ValueError("can't have text and binary mode at once")
    (kind,) = kinds
    read = kind == "r" or "+" in letters
    write = kind != "r" or "+" in letters
    return (read, write), kind != "r", kind == "x", kind == "w"


class _Unclosed:
    """A file that nobody refers to any more is closed, with a warning, as Python's own are. Only the
    outermost does that: what is inside is closed by it, after it got what the outer one holds, in
    whatever order Python's collector finds the two."""

    _inside = False
    _process = None

    def _opened(self):
        self._process = os.getpid()
        _exit.opened(self)

    def __del__(self):
        try:
            if self._inside or self.closed or self._process != os.getpid():
                return
        except ValueError:  # it never was whole, or was taken apart
            return
        _exit.unclosed(self)
        self.close()


class _Wrapper(_Unclosed):
    """What is wrapped around a file, or around what is wrapped around it."""

    def _around(self, inner):
        inner._inside = True
        self._opened()
        return self

    def detach(self):
        inner = super().detach()
        inner._inside = False
        return inner


class _Buffered(_Wrapper):
    @property
    def size(self):
        """Bytes in the file, without those that wait here to be written."""
        return self.raw.size


class _Reader(_Buffered, io.BufferedReader):
    pass


class _Writer(_Buffered, io.BufferedWriter):
    pass


class _Both(_Buffered, io.BufferedRandom):
    pass


class _Text(_Wrapper, io.TextIOWrapper):
    pass


class File(_Unclosed, io.RawIOBase):
    """An open file without a buffer; ``read_at``, ``write_at`` and ``read_many`` leave the position
    alone, and may be called by several threads.

    ``flush`` makes nothing durable, as everywhere in Python: ``commit`` does, and ``close``.
    """

    def __init__(self, inner, name, mode):
        (self._reads, self._writes), *_ = flags(mode)
        self._inner = inner
        self._appends = "a" in mode
        self._position = inner.size() if self._appends else 0
        self.name = name
        self.mode = mode if "b" in mode else mode.replace("t", "") + "b"
        self._opened()

    def __repr__(self):
        return f"<weft.File name={self.name!r} mode={self.mode!r}>"

    @property
    def size(self):
        """Bytes in the file."""
        self._check()
        return self._inner.size()

    def readable(self):
        self._check()
        return self._reads

    def writable(self):
        self._check()
        return self._writes

    def seekable(self):
        self._check()
        return True

    def _check(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _require(self, allowed, verb):
        self._check()
        if not allowed:
            raise io.UnsupportedOperation(f"not open to {verb}")

    def readinto(self, buffer):
        """Reads into any writable buffer, which the bytes land in without a copy."""
        read = self.read_at(self._position, buffer)
        self._position += read
        return read

    def readall(self):
        """All bytes up to the end."""
        self._require(self._reads, "read")
        rest = bytearray(max(self._inner.size() - self._position, 0))
        del rest[self.readinto(rest) :]
        return bytes(rest)

    def write(self, buffer):
        self._require(self._writes, "write")
        if self._appends:
            self._position = self._inner.size()
        written = self._inner.write_at(self._position, buffer)
        self._position += written
        return written

    def read_at(self, offset, buffer):
        """Fills a buffer from an offset on; returns how many bytes it got, fewer than it has room
        for only at the end of the file."""
        self._require(self._reads, "read")
        return self._inner.read_at(offset, buffer)

    def write_at(self, offset, buffer):
        """Writes all of a buffer at an offset."""
        self._require(self._writes, "write")
        return self._inner.write_at(offset, buffer)

    def read_many(self, items):
        """Fills buffers, given as ``(offset, buffer)``, all at once; returns how many bytes each
        got. A failure has the number of its item as ``item``."""
        self._require(self._reads, "read")
        return self._inner.read_many(list(items))

    def seek(self, offset, whence=os.SEEK_SET):
        self._check()
        starts = {os.SEEK_SET: lambda: 0, os.SEEK_CUR: lambda: self._position, os.SEEK_END: self._inner.size}
        if whence not in starts:
            raise ValueError(f"invalid whence: {whence!r}")
        position = starts[whence]() + offset
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        self._position = position
        return position

    def tell(self):
        self._check()
        return self._position

    def truncate(self, size=None):
        self._require(self._writes, "write")
        size = self._position if size is None else size
        self._inner.truncate(size)
        return size

    def commit(self):
        """Makes what was written durable, and visible to others."""
        self._check()
        self._inner.commit()

    def export_layout(self):
        """The layout to read the file by, as bytes for ``open(..., layout=)`` of other processes:
        one asks for it, all use it. The file must be open for reading alone. Who has the bytes can
        read the file, whatever its mode says, until a right to it is taken away or it is removed."""
        self._check()
        return self._inner.export_layout()

    def close(self):
        """Makes what was written durable, and closes."""
        if not self.closed:
            try:
                super().close()
            finally:
                self._inner.close()


def wrapped(raw, mode, buffering, encoding, errors, newline):
    """A raw file as its mode and buffering want it."""
    binary = "b" in mode
    if buffering == 0:
        if not binary:
            raise ValueError("can't have unbuffered text I/O")
        return raw
    if binary and encoding is not None:
        raise ValueError("binary mode doesn't take an encoding argument")
    size = DEFAULT_BUFFER if buffering in (-1, 1) else buffering
    if raw.readable() and raw.writable():
        buffered = _Both(raw, size)._around(raw)
    elif raw.writable():
        buffered = _Writer(raw, size)._around(raw)
    else:
        buffered = _Reader(raw, size)._around(raw)
    if binary:
        return buffered
    text = _Text(buffered, encoding, errors, newline, line_buffering=buffering == 1)._around(buffered)
    text.mode = mode
    return text
