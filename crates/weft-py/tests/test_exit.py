"""Programs that end without closing anything: their bytes are there, and nobody waits for their lease."""

import gc
import os
import subprocess
import sys
import time

import pytest

import weft

HEAD = "import sys, fsspec, weft; c = weft.connect({url!r})\n"
ENDS = {
    "bytes": "f = c.open('f', 'wb'); f.write(b'x' * 100)",
    "text": "f = c.open('f', 'w'); f.write('x' * 100)",
    "both": "f = c.open('f', 'w+b'); f.write(b'x' * 100)",
    "cycle": "f = c.open('f', 'wb'); f.write(b'x' * 100); l = [f]; l.append(l)",
    "exit": "f = c.open('f', 'wb'); f.write(b'x' * 100); sys.exit(0)",
    "failure": "f = c.open('f', 'wb'); f.write(b'x' * 100); raise SystemExit(0) from KeyError()",
    "fsspec": "f = fsspec.open({url!r} + '/f', 'w').open(); f.write('x' * 100)",
    "file system": "f = fsspec.url_to_fs({url!r})[0].open({url!r} + '/f', 'w'); f.write('x' * 100)",
    "function": "def g():\n  f = c.open('f', 'w'); f.write('x' * 100)\ng()",
    "child": "import multiprocessing\ndef g():\n  f = c.open('f', 'w'); f.write('x' * 100); globals()['k'] = f\n"
    "p = multiprocessing.get_context('fork').Process(target=g); p.start(); p.join()",
    "fork": "import os\nf = c.open('f', 'w'); f.write('x' * 100)\npid = os.fork()\nif pid: os.waitpid(pid, 0)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_bytes_are_there_at_the_end(end, client, url):
    """A file that nobody closed is closed, and another client replaces it at once: nothing of the
    program is left at the servers."""
    done = subprocess.run([sys.executable, "-c", (HEAD + end).replace("{url!r}", repr(url))], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    start = time.monotonic()
    assert client.read_bytes("f") == b"x" * 100
    client.write_bytes("f", b"mine")
    client.rename("f", "g")
    assert time.monotonic() - start < 5


def test_what_cannot_be_written_is_told(url):
    """A file that cannot be closed any more at the end is told of."""
    program = HEAD.format(url=url) + "f = c.open('f', 'wb'); f.write(b'x'); c.close()\nc = weft.connect(c.url); g = c.open('g', 'wb'); g.write(b'x')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    with weft.connect(url) as client:
        assert client.read_bytes("g") == b"x"
        assert client.read_bytes("f") == b"x" or "closed" in done.stderr


@pytest.mark.parametrize("mode", ["wb", "w", "w+b"])
def test_python_warns_of_unclosed_files(mode, client):
    """A file that is given up, alone or in a circle, is closed with the warning that Python has for it,
    whichever of its layers the collector finds first."""
    data = "x" * 100 if mode == "w" else b"x" * 100
    for circle in False, True:
        file = client.open(f"f{circle}", mode)
        file.write(data)
        if circle:
            file = [file, getattr(file, "buffer", file), getattr(file, "raw", None)]
            file.append(file)
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del file
            gc.collect()
        assert client.read_bytes(f"f{circle}") == b"x" * 100
    file = client.open("detached", "wb")
    raw = file.detach()
    raw.write(b"x")
    with pytest.warns(ResourceWarning, match="unclosed file"):
        del raw, file
        gc.collect()
    assert client.read_bytes("detached") == b"x"


def test_open_files_know_their_size(client):
    """All files know how long they are, whatever is around them."""
    client.write_bytes("f", b"12345")
    with client.open("f") as file, client.open("f", buffering=0) as raw, client.open("f", "r+b") as both:
        assert file.size == raw.size == both.size == os.stat_result([5] * 10).st_size
