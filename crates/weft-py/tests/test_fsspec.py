"""fsspec: its own abstract suites, and what they leave out."""

import fsspec
import pytest
from fsspec.tests import abstract

from weft.fsspec_fs import WeftFileSystem


class Fixtures(abstract.AbstractFixtures):
    """What the suites run on."""

    @pytest.fixture
    def fs(self, server):
        return WeftFileSystem(server=server)

    @pytest.fixture
    def fs_path(self, url):
        return "/" + url.rsplit("/", 1)[-1]

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    """Copies within."""


class TestGet(abstract.AbstractGetTests, Fixtures):
    """Copies out."""


class TestPut(abstract.AbstractPutTests, Fixtures):
    """Copies in."""


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    """Open files."""


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    """Whole files."""


@pytest.fixture
def fs(server):
    return WeftFileSystem(server=server)


def test_urls(url, server):
    """fsspec finds us by the URL, options and all, and paths and URLs turn into each other."""
    with fsspec.open(f"{url}/a b%25/f.txt?slots=8", "w") as file:
        file.write("there")
    fs, path = fsspec.core.url_to_fs(f"{url}/a%20b%25/f.txt")
    assert isinstance(fs, WeftFileSystem) and path.endswith("/a b%/f.txt")
    assert fs.cat(path) == b"there" and fs.unstrip_protocol(path) == f"{url}/a%20b%25/f.txt"
    assert fs._get_kwargs_from_urls(f"weft://{server}/x?slots=8") == {"server": server, "url_options": "?slots=8"}
    assert [p.rsplit("/", 1)[-1] for p in fs.glob(f"{path[:-5]}?.t*")] == ["f.txt"]


def test_host_and_port(fs, server):
    """A cluster is named as that of any other file system of fsspec, or as ours."""
    host, port = server.rsplit(":", 1)
    named = fsspec.filesystem("weft", host=host, port=int(port))
    assert named.fsid == fs.fsid and named.exists("/")
    assert fsspec.filesystem("weft", host=server).fsid == fs.fsid
    for both in {"host": host}, {"port": int(port)}:
        with pytest.raises(ValueError, match="not by both"):
            WeftFileSystem(server=server, **both)


def test_parts_of_files(fs, url):
    """Parts are read all at once, from either end; one that fails is its exception, or raised."""
    path = fs._strip_protocol(url)
    fs.pipe({f"{path}/a": b"0123456789", f"{path}/b": b"abcdef"})
    a, b, gone = f"{path}/a", f"{path}/b", f"{path}/gone"
    assert fs.cat_ranges([a, b, a, b, a], [1, 0, None, -2, 5], [3, 99, -8, None, 2]) == [b"12", b"abcdef", b"01", b"ef", b""]
    assert fs.cat_file(a, start=-3) == b"789" and fs.cat_file(b, 2, 4) == b"cd"
    one, other = fs.cat_ranges([a, gone], 0, 2)
    assert one == b"01" and isinstance(other, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([a, gone], 0, 2, on_error="raise")
    with pytest.raises(FileExistsError):
        fs.pipe_file(a, b"", mode="create")


def test_names(fs, url):
    """Listings, infos, moves and removals."""
    path = fs._strip_protocol(url)
    fs.pipe_file(f"{path}/d/e/f", b"123")
    fs.client.symlink("f", f"{path}/d/e/link")
    fs.client.symlink("nowhere", f"{path}/d/e/dangling")
    infos = {i["name"].rsplit("/", 1)[-1]: (i["type"], i["size"], i["islink"]) for i in fs.ls(f"{path}/d/e")}
    assert infos["f"] == ("file", 3, False) and infos["link"] == ("file", 3, True)
    assert infos["dangling"][0] == "other"
    assert fs.find(path)[-2:] == [f"{path}/d/e/f", f"{path}/d/e/link"]
    assert fs.modified(f"{path}/d/e/f") <= fs.created(f"{path}/d/e/f")
    fs.mv(f"{path}/d", f"{path}/moved")
    assert fs.isfile(f"{path}/moved/e/f") and not fs.exists(f"{path}/d")
    with pytest.raises(IsADirectoryError):
        fs.rm(f"{path}/moved")
    fs.rm(f"{path}/moved", recursive=True)
    assert fs.ls(path) == []
