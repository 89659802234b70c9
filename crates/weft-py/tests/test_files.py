"""Files as Python's own: what ``weft.connect(...).open`` gives, and what is known by path."""

import io
import os
import stat

import pytest

import weft


def test_files_are_python_files(client):
    """Modes, buffering and text work as ``open``'s do."""
    with client.open("a", "x") as file:
        file.write("erste\nzweite – Zeile\n")
    with pytest.raises(FileExistsError):
        client.open("a", "x")
    with client.open("a", "a") as file:
        file.write("dritte\n")
    with client.open("a", "r", encoding="utf-8") as file:
        assert file.readlines() == ["erste\n", "zweite – Zeile\n", "dritte\n"]
    with client.open("a", "r+b") as file:
        file.seek(-7, os.SEEK_END)
        assert file.read() == b"dritte\n"
        file.seek(0)
        file.write(b"E")
        file.truncate(5)
    assert client.read_bytes("a") == b"Erste"
    with client.open("a", "wb") as file:
        pass
    assert client.stat("a").st_size == 0
    for mode in ["", "rw", "bt", "q", "rr"]:
        with pytest.raises(ValueError):
            client.open("a", mode)


def test_raw_files(client):
    """Without a buffer there is a raw file: readinto lands in the caller's memory, positioned calls
    leave the position alone, and the end of the file ends a read."""
    data = os.urandom((9 << 20) + 17)
    with client.open("f", "wb", buffering=0) as file:
        assert isinstance(file, weft.File) and isinstance(file, io.RawIOBase)
        assert file.write(memoryview(data)) == len(data) == file.tell()
        file.commit()
        with pytest.raises(io.UnsupportedOperation):
            file.read(1)
    with client.open("f", "rb", buffering=0) as file:
        memory = bytearray(b"\xee" * (len(data) + 10))
        assert file.readinto(memory) == len(data) == file.tell()
        assert memory[:-10] == data and memory[-10:] == b"\xee" * 10
        assert file.readinto(memory) == 0
        part = bytearray(1 << 20)
        assert file.read_at(12345, part) == len(part)
        assert part == data[12345 : 12345 + len(part)] and file.tell() == len(data)
        assert file.seek(-4, os.SEEK_END) == len(data) - 4
        assert file.readall() == data[-4:]
        with pytest.raises(ValueError):
            file.seek(-1)
        with pytest.raises(BufferError):
            file.readinto(b"read-only")
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"")
    with pytest.raises(ValueError):
        file.read_at(0, part)


def test_holes_are_zeros(client):
    """What nobody wrote is zeros, also in memory that held something else."""
    with client.open("sparse", "wb", buffering=0) as file:
        file.write_at(0, b"begin")
        file.truncate(12 << 20)
        file.write_at((9 << 20) + 3, b"middle")
    memory = bytearray(b"\xee" * (12 << 20))
    with client.open("sparse", "rb", buffering=0) as file:
        assert file.readinto(memory) == 12 << 20
    wanted = bytearray(12 << 20)
    wanted[:5] = b"begin"
    wanted[(9 << 20) + 3 : (9 << 20) + 9] = b"middle"
    assert memory == wanted


def test_names_and_attributes(client):
    """Directories, links, attributes and times, by path."""
    client.makedirs("d/e/f")
    with pytest.raises(FileExistsError):
        client.makedirs("d/e")
    client.makedirs("d/e", exist_ok=True)
    client.write_bytes("d/file", b"12345", perm=0o600)
    client.symlink("file", "d/link")
    assert client.readlink("d/link") == "file"
    assert client.lstat("d/link").is_symlink() and client.stat("d/link").st_size == 5
    assert sorted(client.listdir("d")) == ["e", "file", "link"]
    kinds = {e.name: (e.is_dir(), e.is_file(), e.is_symlink()) for e in client.scandir("d")}
    assert kinds == {"e": (True, False, False), "file": (False, True, False), "link": (False, True, True)}
    client.chmod("d/file", 0o640)
    client.utime("d/file", ns=(1_000_000_001, -5))
    told = client.stat("d/file")
    assert stat.S_IMODE(told.st_mode) == 0o640 and stat.S_ISREG(told.st_mode)
    assert (told.st_atime_ns, told.st_mtime_ns) == (1_000_000_001, -5)
    client.truncate("d/file", 2)
    assert client.read_bytes("d/file") == b"12"
    client.rename("d/file", "d/e/moved")
    assert [(t.rsplit("/", 1)[-1], d, f) for t, d, f in client.walk("d")] == [
        ("d", ["e"], ["link"]),
        ("e", ["f"], ["moved"]),
        ("f", [], []),
    ]
    name = os.fsdecode(b"d/\xff%20#?")
    client.write_bytes(name, b"odd")
    assert client.read_bytes(name) == b"odd" and name[2:] in client.listdir("d")
    client.rmtree("d")
    assert not client.exists("d") and not client.is_dir("d") and not client.is_file("d")


def test_failures_are_pythons_own(client):
    """Failures are Python's exceptions, with number and path; what it has none for is weft.Error."""
    client.mkdir("d")
    client.write_bytes("d/f", b"")
    for failing, kind in [
        (lambda: client.open("gone"), FileNotFoundError),
        (lambda: client.stat("gone"), FileNotFoundError),
        (lambda: client.open("d", "w"), IsADirectoryError),
        (lambda: client.remove("d"), IsADirectoryError),
        (lambda: client.rmdir("d/f"), NotADirectoryError),
        (lambda: client.listdir("d/f"), NotADirectoryError),
        (lambda: client.mkdir("d"), FileExistsError),
        (lambda: client.rmdir("d"), weft.Error),
    ]:
        with pytest.raises(kind) as raised:
            failing()
        assert type(raised.value) is kind and isinstance(raised.value, OSError)
        assert raised.value.errno and raised.value.filename
    for url, said in [
        ("nfs://h/", "weft://HOST/PATH"),
        ("weft://h/?layouts=maybe", "true or false"),
        ("weft://h/?speed=9", "minorversion"),
    ]:
        with pytest.raises(ValueError, match=said):
            weft.connect(url)
    with pytest.raises(ValueError, match="from 1 to 256"):
        weft.connect("weft://h/", slots=0)
    with pytest.raises(OSError, match="127.0.0.1:1"):
        weft.connect("weft://127.0.0.1:1/", patience=0)


def test_a_closed_client(url):
    """A client that is closed says so; options in the URL and beside it are the same."""
    with weft.connect(url + "?slots=9", slots=7, layouts=False) as client:
        assert "slots=7" in client.url and "layouts=false" in client.url
        client.write_bytes("f", b"x")
    assert client.closed
    with pytest.raises(OSError, match="closed"):
        client.read_bytes("f")
