"""Many reads and writes at once, and processes that fork."""

import multiprocessing
import os
import threading

import numpy
import pytest

import weft


def test_many_files_into_one_array(client):
    """Parts of many files land in parts of one array, each at its place."""
    whole = numpy.random.default_rng(1).integers(0, 256, (40, 300_000), dtype=numpy.uint8)
    client.write_many([(f"f{i % 5}", i // 5 * 300_000, row) for i, row in enumerate(whole)])
    back = numpy.zeros_like(whole)
    got = client.read_many([(f"f{i % 5}", i // 5 * 300_000, back[i]) for i in range(40)])
    assert got == [300_000] * 40 and (back == whole).all()
    floats = numpy.zeros(1000)
    assert client.read_many([("f0", 0, floats)]) == [8000]
    assert floats.tobytes() == whole[0].tobytes()[:8000]


def test_many_parts_of_a_file(client):
    """More parts than are under way at a time; the last ones are short."""
    data = os.urandom((8 << 20) + 5)
    client.write_bytes("f", data)
    with client.open("f", buffering=0) as file:
        back = bytearray(len(data))
        parts = [(at, memoryview(back)[at : at + 100_000]) for at in range(0, len(data), 100_000)]
        assert sum(file.read_many(parts)) == len(data) and back == data
        assert file.read_many([(len(data) - 2, bytearray(9)), (len(data) + 5, bytearray(9)), (0, bytearray())]) == [2, 0, 0]


def test_failures_name_their_item(client):
    """The first item that fails is named; buffers that overlap or are read-only are refused."""
    client.write_bytes("f", b"12345")
    with pytest.raises(FileNotFoundError) as raised:
        client.read_many([("f", 0, bytearray(5)), ("gone", 0, bytearray(5))])
    assert raised.value.item == 1 and "gone" in raised.value.filename
    assert "item 1" in raised.value.__notes__[0]
    memory = memoryview(bytearray(10))
    with pytest.raises(ValueError, match="overlap"):
        client.read_many([("f", 0, memory[:5]), ("f", 0, memory[4:])])
    with pytest.raises(BufferError):
        client.read_many([("f", 0, b"12345")])
    with pytest.raises(BufferError):
        client.read_many([("f", 0, numpy.zeros((4, 4))[:, 1])])
    with pytest.raises(IsADirectoryError) as raised:
        client.mkdir("d")
        client.write_many([("g", 0, b"x"), ("d", 0, b"x")])
    assert raised.value.item == 1 and client.read_bytes("g") == b"x"


def test_threads_share_a_client(client):
    """Threads read through one client and one file at a time."""
    data = os.urandom(4 << 20)
    client.write_bytes("f", data)
    wrong = []
    with client.open("f", buffering=0) as file:

        def read(at):
            part = bytearray(1 << 20)
            if file.read_at(at, part) != len(part) or part != data[at : at + len(part)]:
                wrong.append(at)

        threads = [threading.Thread(target=read, args=(i << 19,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def _in_child(client, file, writing, answers):
    """What a child does with what it came with."""
    try:
        read = client.read_bytes("f"), file.read_at(1, bytearray(4))
        client.write_bytes("from-child", b"child")
        try:
            writing.write_at(0, b"no")
            refused = None
        except weft.Error as failure:
            refused = str(failure)
        file.close()
        answers.put((read, refused))
    except BaseException as failure:  # noqa: BLE001
        answers.put(repr(failure))
        raise


def test_after_a_fork(client):
    """A child connects anew and opens files for reading anew; a file for writing it is told it
    cannot use; and the parent goes on."""
    client.write_bytes("f", b"12345")
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with client.open("f", buffering=0) as file, client.open("w", "wb", buffering=0) as writing:
        writing.write(b"one")
        children = [
            context.Process(target=_in_child, args=(client, file, writing, answers)) for _ in range(2)
        ]
        for child in children:
            child.start()
        for child in children:
            read, refused = answers.get(timeout=60)
            assert read == (b"12345", 4) and "fork" in refused
        for child in children:
            child.join(60)
            assert child.exitcode == 0
        assert file.read_at(1, bytearray(9)) == 4
        writing.write(b"two")
    assert client.read_bytes("w") == b"onetwo" and client.read_bytes("from-child") == b"child"


def _spawned(client, answers):
    answers.put(client.read_bytes("f"))


def test_clients_travel_to_other_processes(client):
    """A client that is pickled connects where it arrives."""
    client.write_bytes("f", b"12345")
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    child = context.Process(target=_spawned, args=(client, answers))
    child.start()
    assert answers.get(timeout=60) == b"12345"
    child.join(60)
