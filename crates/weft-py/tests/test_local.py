"""The file system of fsspec against its own for local files: the same calls on the same tree, call by call."""

import os
import stat
import subprocess

import fsspec
import pyarrow
import pyarrow.dataset
import pytest
from fsspec.implementations.local import LocalFileSystem

from weft.fsspec_fs import WeftFileSystem

WORK = b"a year's work"
FILES = {"file": WORK, "dir/one": b"1", "dir/sub/two": b"22", "archive/kept": b"kept", "scratch/data": b"..."}
LINKS = {"soft": "file", "dir/up": "..", "scratch/link": "../archive", "dangling": "nowhere", "loop": "loop"}
LONG, DEEP, NUL = "x" * 300, "d/" * 3000 + "f", "nul\0nul"
NAMES = ["", "file", "hard", "soft", "dir", "dir/", "dir/up", "dir/up/file", "dangling", "loop", "loop/below", "file/below", "gone", LONG, DEEP, NUL]


def _tree(fs, top, link, symlink):
    for name, data in FILES.items():
        fs.pipe_file(f"{top}/{name}", data)
    for name, target in LINKS.items():
        symlink(target, f"{top}/{name}")
    link(f"{top}/file", f"{top}/hard")


def _weft_link(server):
    def link(source, target):
        program, environment = os.environ["WEFT_PROGRAM"], {**os.environ, "WEFT_SERVER": server}
        subprocess.run([program, "ln", source, target], check=True, env=environment)

    return link


@pytest.fixture
def weft_tree(server, url):
    fs = WeftFileSystem(server=server)
    top = fs._strip_protocol(url)
    _tree(fs, top, _weft_link(server), fs.client.symlink)
    return fs, top


@pytest.fixture
def trees(weft_tree, tmp_path):
    local = LocalFileSystem(auto_mkdir=True)
    _tree(local, str(tmp_path), os.link, os.symlink)
    return weft_tree, (local, str(tmp_path))


def _state(fs, top):
    """All that is below a directory: kinds, modes, bytes, and where links lead."""
    state = {}
    if isinstance(fs, LocalFileSystem):
        list_, lstat, readlink = os.listdir, os.lstat, os.readlink
    else:
        list_, lstat, readlink = fs.client.listdir, fs.client.lstat, fs.client.readlink

    def look(path):
        for name in list_(path):
            one = f"{path}/{name}"
            mode = lstat(one).st_mode
            if stat.S_ISLNK(mode):
                state[one[len(top) :]] = readlink(one)
            elif stat.S_ISDIR(mode):
                state[one[len(top) :]] = oct(mode)
                look(one)
            else:
                state[one[len(top) :]] = (oct(mode), fs.cat_file(one))

    look(top)
    return state


def _plain(value, top):
    """What a call has told, without where the tree is."""
    if isinstance(value, str):
        return value.replace(top, "")
    if isinstance(value, dict):
        return {_plain(k, top): _plain(v, top) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, top) for v in value]
    return value


def _outcome(call, fs, top):
    try:
        told = _plain(call(fs, top), top)
    except (OSError, ValueError) as failure:
        told = "refused: not found" if isinstance(failure, FileNotFoundError) else "refused"
    return told, _state(fs, top)


def _info(info):
    return info["type"], info["size"] if info["type"] == "file" else None, info["islink"], info.get("destination")


def _in_transaction(fs, top, fails):
    try:
        with fs.transaction:
            fs.pipe_file(f"{top}/new", b"new")
            with fs.open(f"{top}/file", "wb") as file:
                file.write(b"other")
            seen = fs.exists(f"{top}/new"), fs.cat_file(f"{top}/hard")
            if fails:
                raise KeyError
    except KeyError:
        pass
    return seen


CALLS = {
    **{f"exists {n[:9]!r} {len(n)}": lambda fs, t, n=n: fs.exists(f"{t}/{n}") for n in NAMES},
    **{f"isfile {n[:9]!r} {len(n)}": lambda fs, t, n=n: fs.isfile(f"{t}/{n}") for n in NAMES if n != NUL},
    **{f"isdir {n[:9]!r} {len(n)}": lambda fs, t, n=n: fs.isdir(f"{t}/{n}") for n in NAMES if n != NUL},
    **{f"islink {n}": lambda fs, t, n=n: fs.islink(f"{t}/{n}") for n in NAMES[1:13] if not n.endswith("/")},
    **{f"lexists {n[:9]!r} {len(n)}": lambda fs, t, n=n: fs.lexists(f"{t}/{n}") for n in NAMES if n != NUL},
    **{f"info {n}": lambda fs, t, n=n: _info(fs.info(f"{t}/{n}")) for n in NAMES[1:13]},
    **{f"ls {n}": lambda fs, t, n=n: sorted((i["name"], _info(i)) for i in fs.ls(f"{t}/{n}", detail=True)) for n in NAMES[1:13] if n not in ("soft", "dir/up")},  # links to files are files here
    "find": lambda fs, t: fs.find(t),
    "find directories": lambda fs, t: fs.find(f"{t}/dir", withdirs=True),
    "find to a depth": lambda fs, t: fs.find(t, maxdepth=2),
    "find from a link": lambda fs, t: fs.find(f"{t}/scratch/link"),
    "walk": lambda fs, t: sorted((p, sorted(d), sorted(f)) for p, d, f in fs.walk(t)),
    "walk upwards": lambda fs, t: sorted((p, sorted(d), sorted(f)) for p, d, f in fs.walk(t, topdown=False)),
    "glob **": lambda fs, t: fs.glob(f"{t}/**"),
    "glob **/one": lambda fs, t: fs.glob(f"{t}/dir/**/one"),
    "glob */*": lambda fs, t: fs.glob(f"{t}/*/*"),
    "glob behind a link": lambda fs, t: fs.glob(f"{t}/scratch/link/*"),
    "du": lambda fs, t: fs.du(f"{t}/archive", total=False),
    **{
        f"cp {a} {b}": lambda fs, t, a=a, b=b: fs.cp_file(f"{t}/{a}", f"{t}/{b}")
        for a, b in [
            ("file", "file"), ("hard", "file"), ("file", "hard"), ("soft", "file"), ("file", "soft"), ("soft", "hard"),
            ("dir/up/file", "file"), ("file", "new"), ("soft", "new/new"), ("dir/one", "file"), ("dir/one", "soft"),
            ("gone", "new"), ("dangling", "new"), ("dir", "new"), ("dir", "dir"),
        ]
    },
    "copy": lambda fs, t: fs.copy(f"{t}/dir", f"{t}/new", recursive=True),
    "copy onto itself": lambda fs, t: fs.copy(f"{t}/file", f"{t}/file"),
    **{f"rm {n}": lambda fs, t, n=n: fs.rm(f"{t}/{n}") for n in [*NAMES[1:4], "dir", *NAMES[6:13], LONG]},
    **{f"rm -r {n}": lambda fs, t, n=n: fs.rm(f"{t}/{n}", recursive=True) for n in ["file", "soft", "dir", "dir/up", "scratch/link", "scratch", "dangling", "loop", "gone"]},
    "rm -r of several": lambda fs, t: fs.rm([f"{t}/scratch", f"{t}/dir", f"{t}/soft"], recursive=True),
    "rm -r of nothing": lambda fs, t: fs.rm("", recursive=True),
    **{f"rm_file {n}": lambda fs, t, n=n: fs.rm_file(f"{t}/{n}") for n in ["file", "soft", "dir", "dir/up", "dangling", "loop", "gone"]},
    **{f"rmdir {n}": lambda fs, t, n=n: fs.rmdir(f"{t}/{n}") for n in ["file", "dir", "dir/up", "scratch/link", "gone"]},
    **{f"mv {n}": lambda fs, t, n=n: fs.mv(f"{t}/{n}", f"{t}/new") for n in ["file", "soft", "dir", "dir/up", "dangling", "loop", "gone"]},
    "mkdir": lambda fs, t: fs.mkdir(f"{t}/new/new"),
    "mkdir again": lambda fs, t: fs.mkdir(f"{t}/dir"),
    "makedirs": lambda fs, t: fs.makedirs(f"{t}/new/new"),
    "makedirs again": lambda fs, t: fs.makedirs(f"{t}/dir/sub"),
    "touch": lambda fs, t: fs.touch(f"{t}/file", truncate=False),
    "touch new": lambda fs, t: fs.touch(f"{t}/new"),
    "touch and empty": lambda fs, t: fs.touch(f"{t}/file", truncate=True),
    "chmod": lambda fs, t: fs.chmod(f"{t}/file", 0o640),
    "size of an open file": lambda fs, t: fs.open(f"{t}/soft").size,
    "read_block": lambda fs, t: fs.read_block(f"{t}/file", 2, 5, b" "),
    "head and tail": lambda fs, t: (fs.head(f"{t}/file", 3), fs.tail(f"{t}/file", 3)),
    "transaction": lambda fs, t: _in_transaction(fs, t, False),
    "transaction that fails": lambda fs, t: _in_transaction(fs, t, True),
    "invalidate_cache": lambda fs, t: fs.invalidate_cache(t),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_a_call_does_what_it_does_locally(call, trees):
    """What a call tells, whether it is refused, and what is there afterwards are the same."""
    ours, locals_ = (_outcome(call, *tree) for tree in trees)
    assert ours == locals_


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o027, 0o077], ids=oct)
def test_the_umask_holds(umask, trees):
    """Files and directories get the modes that they get locally, by every call that makes some."""

    def make(fs, top):
        fs.pipe_file(f"{top}/below/piped", b"1")
        fs.makedirs(f"{top}/made/made")
        fs.mkdir(f"{top}/dir/made")
        fs.touch(f"{top}/touched")
        fs.cp_file(f"{top}/file", f"{top}/copied")
        with fs.open(f"{top}/opened", "w") as file:
            file.write("text")
        _in_transaction(fs, top, False)

    before = os.umask(umask)
    try:
        ours, locals_ = (_outcome(make, *tree) for tree in trees)
        client, top = trees[0][0].client, trees[0][1]
        client.write_many([(f"{top}/many", 0, b"1"), (f"{top}/file", 0, b"A")])
        assert stat.S_IMODE(client.stat(f"{top}/many").st_mode) == 0o644 & ~umask
    finally:
        os.umask(before)
    # fsspec asks for the umask of its transactions once, and keeps it
    for state in (ours[1], locals_[1]):
        state["/new"] = state["/file"] = state["/hard"] = None
    assert ours == locals_


@pytest.mark.parametrize(
    "call",
    [
        lambda fs, t: fs.rm(f"{t}/scratch/*", recursive=True),
        lambda fs, t: fs.rm(f"{t}/scratch/**", recursive=True),
        lambda fs, t: fs.rm(f"{t}/scr*", recursive=True),
        lambda fs, t: fs.rm(f"{t}/scratch", recursive=True, maxdepth=3),
        lambda fs, t: fs.rm([f"{t}/scratch"], recursive=True),
        lambda fs, t: fs.rm(f"{t}/scratch/*"),
    ],
    ids=["pattern", "stars", "top", "depth", "list", "not recursive"],
)
def test_removals_end_at_links(call, weft_tree):
    """Patterns and depths, which local removals do not know, remove links and nothing behind them."""
    fs, top = weft_tree
    call(fs, top)
    assert not fs.lexists(f"{top}/scratch/link") and not fs.exists(f"{top}/scratch/data")
    assert fs.cat_file(f"{top}/archive/kept") == b"kept"


def test_removals_look_first(weft_tree):
    """A removal that is refused has removed nothing; a name that is there is meant itself."""
    fs, top = weft_tree
    before = _state(fs, top)
    for path in "", "/", "weft:///", f"{top}/..":
        with pytest.raises((ValueError, OSError)):
            fs.rm(path, recursive=True)
    for call in (
        lambda: fs.rm(f"{top}/*"),
        lambda: fs.rm([f"{top}/file", f"{top}/gone"]),
        lambda: fs.rm(f"{top}/none*"),
        lambda: fs.client.rmtree(f"{top}/scratch/link"),
        lambda: fs.client.rmtree("/"),
        lambda: fs.client.rmtree(""),
    ):
        with pytest.raises(OSError):
            call()
    assert _state(fs, top) == before
    fs.pipe({f"{top}/a*": b"", f"{top}/ab": b""})
    fs.rm(f"{top}/a*")
    assert fs.exists(f"{top}/ab") and not fs.exists(f"{top}/a*")
    with pytest.raises(OSError):
        fs.rm(f"{top}/dir", recursive=True, maxdepth=1)
    assert fs.cat_file(f"{top}/dir/sub/two") == b"22"


def test_trees_with_a_circle_come_out(weft_tree, tmp_path):
    """A tree with a link to what is above it is counted once, and copied out."""
    fs, top = weft_tree
    assert fs.du(f"{top}/dir") == 3
    fs.get(f"{top}/dir", str(tmp_path / "out"), recursive=True)
    assert (tmp_path / "out/sub/two").read_bytes() == b"22" and os.listdir(tmp_path / "out/up") == []


def test_caches_of_fsspec(server, weft_tree, tmp_path):
    """Blocks of a file come through fsspec's cache, which wants sizes of open files."""
    _, top = weft_tree
    with fsspec.open(f"blockcache::weft://{server}{top}/file", blockcache={"cache_storage": str(tmp_path)}) as file:
        file.seek(2)
        assert file.read(4) == WORK[2:6] and file.size == len(WORK)
    assert any(tmp_path.iterdir())


def test_datasets_of_pyarrow(weft_tree):
    """PyArrow writes and reads datasets, within a transaction too."""
    fs, top = weft_tree
    table = pyarrow.table({"n": list(range(100)), "part": [i % 2 for i in range(100)]})
    for name in "plain", "within":
        kwargs = {"format": "parquet", "partitioning": ["part"], "filesystem": fs}
        if name == "within":
            with fs.transaction:
                pyarrow.dataset.write_dataset(table, f"{top}/{name}", **kwargs)
        else:
            pyarrow.dataset.write_dataset(table, f"{top}/{name}", **kwargs)
        assert pyarrow.dataset.dataset(f"{top}/{name}", filesystem=fs).count_rows() == 100
