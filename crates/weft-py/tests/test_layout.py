"""A layout that one process exports, and others read by."""

import multiprocessing
import os

import pytest

import weft


def _read(url, layout, length, results):
    """What another process of the job does: it has the URL and the bytes, and nothing else."""
    with weft.connect(url) as client, client.open("model", layout=layout) as file:
        results.put(file.read() == bytes(range(256)) * (length // 256))


def _in_child(file, results):
    part = bytearray(4)
    results.put((file.read_at(1 << 20, part), bytes(part)))


def test_one_asks_and_all_read(client, url):
    """Processes read a file by the layout that one of them has asked for, whether that one has the
    file open or not; and a child that was forked has the layout along."""
    length = 5 << 20
    client.write_bytes("model", bytes(range(256)) * (length // 256))
    with client.open("model", buffering=0) as file:
        layout = file.export_layout()
    assert isinstance(layout, bytes) and len(layout) < 4096
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    ranks = [spawn.Process(target=_read, args=(url, layout, length, results)) for _ in range(2)]
    for rank in ranks:
        rank.start()
    assert all(results.get(timeout=60) for _ in ranks)
    for rank in ranks:
        rank.join(60)

    with client.open("model", layout=memoryview(layout), buffering=0) as file:
        assert file.export_layout() == layout
        fork = multiprocessing.get_context("fork")
        results = fork.Queue()
        child = fork.Process(target=_in_child, args=(file, results))
        child.start()
        assert results.get(timeout=60) == (4, b"\0\1\2\3")
        child.join(60)
        assert child.exitcode == 0


def test_misfits(client):
    """What is no layout of the file is an error that names the file; none is for writing."""
    client.write_bytes("a", os.urandom(1 << 20))
    client.write_bytes("b", os.urandom(1 << 20))
    client.write_bytes("small", b"small")
    with client.open("a", buffering=0) as file:
        layout = file.export_layout()
    for path, given, words in [
        ("a", b"nonsense", "not an exported layout"),
        ("a", layout[:-3], "damaged"),
        ("b", layout, "another file"),
    ]:
        with pytest.raises(OSError, match=words) as raised:
            client.open(path, layout=given)
        assert raised.value.filename.endswith(f"/{path}")
    with pytest.raises(ValueError, match="only for reading"):
        client.open("a", "r+b", layout=layout)
    with client.open("a", "r+b", buffering=0) as file, pytest.raises(OSError, match="for reading alone"):
        file.export_layout()
    with client.open("small", buffering=0) as file, pytest.raises(OSError, match="gives none"):
        file.export_layout()
