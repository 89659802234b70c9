"""Does with the Python package what the judge of the pairs test asks for by TCP: as tests/guest/hand.c,
where the acts are described.

    hand.py HOST PORT NAME URL WORKERS      WORKERS threads that share a client, each with a connection
"""

import contextlib
import errno
import os
import socket
import sys
import threading
import zlib

import weft

BLOCK = 65536
PERIOD = 1048573
PIECE = 1 << 20


def made_base():
    x, base = 0x9E3779B97F4A7C15, bytearray(PERIOD)
    for at in range(PERIOD):
        x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
        base[at] = x >> 32 & 255
    return bytes(base)


BASE = made_base()


def pattern(seed, length):
    start = seed * 7919 % (1 << 64) % PERIOD
    return (BASE[start:] + BASE * (length // PERIOD + 1))[:length]


def told(size, mode, mtime, data):
    sums = "".join(f"{zlib.crc32(data[at : at + BLOCK]):08x}," for at in range(0, len(data), BLOCK))
    return f" {size} {mode:o} {mtime} {sums} = {len(data)}"


class Hand:
    def __init__(self, client):
        self.client, self.file, self.name = client, None, None

    def act(self, one):
        words = one[1:].split()
        return getattr(self, "do_" + one[0])(*words) or ""

    def do_o(self, flags, mode, name):
        if flags == "rd":
            raise OSError(errno.EINVAL, "no direct reads")
        python = {"r": "rb", "b": "r+b", "wct": "wb", "wcx": "xb"}[flags]
        self.name = name
        self.file = self.client.open(name, python, buffering=0, perm=int(mode, 8))

    def do_w(self, at, length, seed):
        self.put(int(at), pattern(int(seed), int(length)))

    def do_e(self, length, seed):
        self.put(self.file.seek(0, os.SEEK_END), pattern(int(seed), int(length)))

    def put(self, at, data):
        self.file.write_at(at, data)

    def do_t(self, length):
        self.file.truncate(int(length))

    def do_s(self):
        self.file.commit()

    def do_c(self):
        file, self.file = self.file, None
        file.close()

    def do_r(self, _how):
        facts = self.client.stat(self.name)
        size = self.file.seek(0, os.SEEK_END)
        self.file.seek(0)
        return told(size, facts.st_mode & 0o7777, facts.st_mtime_ns // 10**9, self.file.readall())

    def do_R(self, at, length, times):
        seen = []
        for _ in range(int(times)):
            place = bytearray(int(length))
            got = self.file.read_at(int(at), place)
            total = got if got < len(place) else zlib.crc32(place)
            if total not in seen:
                seen.append(total)
        return " " + "".join(f"{total:08x}," for total in seen)

    def do_N(self, source, target):
        self.client.rename(source, target)

    def do_U(self, name):
        self.client.remove(name)

    def do_S(self, name):
        self.client.stat(name)

    def do_L(self, name):
        for entry in self.client.scandir(name):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                entry.stat(follow_symlinks=False)

    def do_M(self, mode, name):
        self.client.chmod(name, int(mode, 8))

    def do_T(self, seconds, name):
        self.client.utime(name, (int(seconds), int(seconds)))


def serve(client, judge, name):
    hand = Hand(client)
    judge.sendall(f"{name}\n".encode())
    for line in judge.makefile("r"):
        answer, index = "ok", 0
        for one in line.strip().split(";"):
            if one == "q":
                return
            if not one:
                continue
            try:
                answer += hand.act(one)
            except OSError as e:
                if e.errno != errno.ENOENT:
                    print(f"hand.py: {one}: {e}", file=sys.stderr)
                answer = f"err {index} {e.errno or errno.EIO}"
                break
            index += 1
        judge.sendall(answer.encode() + b"\n")


def main():
    host, port, name, url, workers = sys.argv[1:]
    os.umask(0)
    client = weft.connect(url)
    threads = []
    for _ in range(int(workers)):
        judge = socket.create_connection((host, int(port)))
        judge.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threads.append(threading.Thread(target=serve, args=(client, judge, name)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
