"""Signals while a call waits for a server."""

import signal
import socket
import subprocess
import sys
import time

import pytest

import weft


@pytest.fixture
def silent():
    """HOST:PORT of something that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "127.0.0.1:%d" % listener.getsockname()[1]


def test_ctrl_c_ends_a_wait(silent):
    """A program that waits for a server is ended by Ctrl-C, as any other."""
    # What is started in the background of a shell ignores the signal.
    script = f"""import signal, weft
signal.signal(signal.SIGINT, signal.default_int_handler)
print('waits', flush=True)
weft.connect('weft://{silent}/')"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waits:
        assert waits.stdout.readline() == "waits\n"
        time.sleep(0.5)
        assert waits.poll() is None
        waits.send_signal(signal.SIGINT)
        _, said = waits.communicate(timeout=20)
    assert waits.returncode != 0
    assert said.endswith("KeyboardInterrupt\n")


def test_a_handler_uses_files(client, silent):
    """A handler that runs while a call waits may use files, and what it raises ends the call; one
    that raises nothing does not."""
    client.write_bytes("note", b"before")
    seen = []

    def handler(number, frame):
        seen.append(client.read_bytes("note"))
        client.write_bytes("note", b"after")
        if len(seen) == 2:
            raise LookupError("enough")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3, 0.5)
        with pytest.raises(LookupError, match="enough"):
            weft.connect(f"weft://{silent}/", patience=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [b"before", b"after"]
