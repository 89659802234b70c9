#!/usr/bin/env python3
"""What NFStest wants of ssh and tcpdump, between machines of a test network of our own (no authentication).

remote.py serve PORT [COMMAND...]   runs, for each connection, the command it names (or COMMAND, whatever it names)
ssh [-OPTION...] HOST COMMAND...    runs COMMAND on HOST, as ssh does
tcpdump OPTION... -w FILE ...       has $CAPTURE_HOST capture (its COMMAND), until it is ended, into FILE

The two sides exchange records: a letter and a length, then bytes. i: standard input (empty: its end; on it the
command of a capture is ended), o and e: output, x: exit status.
"""
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

PORT = 2222
CAPTURE_PORT = 2223


def send(sock, kind, data=b""):
    sock.sendall(kind + struct.pack(">I", len(data)) + data)


def receive(stream):
    head = stream.read(5)
    if len(head) < 5:
        return None, b""
    return head[:1], stream.read(struct.unpack(">I", head[1:])[0])


def serve_one(sock, fixed):
    stream = sock.makefile("rb")
    _, command = receive(stream)
    child = subprocess.Popen(fixed or ["/bin/sh", "-c", command.decode()], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def feed():
        while True:
            kind, data = receive(stream)
            if kind == b"i" and data:
                child.stdin.write(data)
                child.stdin.flush()
                continue
            if fixed or kind is None:
                child.terminate()
            else:
                child.stdin.close()
            if kind is None:
                return

    threading.Thread(target=feed, daemon=True).start()
    with selectors.DefaultSelector() as outputs:
        outputs.register(child.stdout, selectors.EVENT_READ, b"o")
        outputs.register(child.stderr, selectors.EVENT_READ, b"e")
        while outputs.get_map():
            for key, _ in outputs.select():
                data = os.read(key.fileobj.fileno(), 1 << 16)
                if data:
                    send(sock, key.data, data)
                else:
                    outputs.unregister(key.fileobj)
    send(sock, b"x", str(child.wait()).encode())
    sock.close()


def serve(port, fixed):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.create_server(("", port)) as listener:
        print("listening", flush=True)
        while True:
            sock, _ = listener.accept()

            def run(sock=sock):
                try:
                    serve_one(sock, fixed)
                except OSError:
                    pass
            threading.Thread(target=run, daemon=True).start()


def relay(sock, output):
    stream = sock.makefile("rb")
    while True:
        kind, data = receive(stream)
        if kind == b"o":
            output.write(data)
            output.flush()
        elif kind == b"e":
            sys.stderr.buffer.write(data)
            sys.stderr.flush()
        else:
            return int(data) if kind == b"x" and data else 255


def ssh(words):
    terminal = False
    while words[0].startswith("-"):
        terminal = terminal or words[0] == "-t"
        words = words[1:]
    command = " ".join(words[1:])
    if terminal:  # where all output is one
        command = "exec 2>&1; " + command
    sock = socket.create_connection((words[0].split("@")[-1], PORT))
    send(sock, b"c", command.encode())

    def feed():
        while True:
            data = os.read(0, 1 << 16)
            send(sock, b"i", data)
            if not data:
                return
    threading.Thread(target=feed, daemon=True).start()
    os._exit(relay(sock, sys.stdout.buffer))


def tcpdump(words):
    sock = socket.create_connection((os.environ["CAPTURE_HOST"], CAPTURE_PORT))
    send(sock, b"c", b"capture")

    def stop(*_):
        time.sleep(0.2)  # what is on its way
        send(sock, b"i")
    signal.signal(signal.SIGTERM, stop)
    with open(words[words.index("-w") + 1], "wb") as trace:
        relay(sock, trace)


name = os.path.basename(sys.argv[0])
if name == "ssh":
    ssh(sys.argv[1:])
elif name == "tcpdump":
    tcpdump(sys.argv[1:])
else:
    serve(int(sys.argv[2]), sys.argv[3:])
