"""mixed.py FILE ROUNDS: one process writes to pages by a mapping, another one to other bytes of the same
pages by `pwrite`, at the same time. Each finds what it wrote itself, at once and in the end."""

import mmap
import os
import sys

PAGES = 8
PAGE = 4096
MAPPED, WRITTEN = 64, 2048  # where in a page


def word_of(number):
    return b"%08d" % number


def write_mapped(path, stop):
    """Until the other process is done, which it tells by closing a pipe."""
    os.set_blocking(stop, False)
    fd = os.open(path, os.O_RDWR)
    mapping = mmap.mmap(fd, PAGES * PAGE)
    number = 0
    while True:
        number += 1
        for page in range(PAGES):
            mapping[page * PAGE + MAPPED : page * PAGE + MAPPED + 8] = word_of(number)
        if number % 16 == 0:
            mapping.flush()
        for page in range(PAGES):
            if mapping[page * PAGE + MAPPED : page * PAGE + MAPPED + 8] != word_of(number):
                sys.exit(f"{number}: what was written by mapping is not there, page {page}")
        try:
            if os.read(stop, 1) == b"":
                return
        except BlockingIOError:
            pass


def write_plain(path, rounds):
    fd, write_only = os.open(path, os.O_RDWR), os.open(path, os.O_WRONLY)
    for number in range(rounds):
        for page in range(PAGES):
            os.pwrite([fd, write_only][page % 2], word_of(number), page * PAGE + WRITTEN)
        for page in range(PAGES):
            if os.pread(fd, 8, page * PAGE + WRITTEN) != word_of(number):
                sys.exit(f"{number}: what was written by pwrite is not there, page {page}")


def main():
    path, rounds = sys.argv[1], int(sys.argv[2])
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, PAGES * PAGE)
    stop, running = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(running)
        write_mapped(path, stop)
        sys.exit(0)
    write_plain(path, rounds)
    os.close(running)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("the mapped one failed")
    again = os.open(path, os.O_RDONLY | os.O_DIRECT)
    held = mmap.mmap(-1, PAGES * PAGE)
    os.readv(again, [held])
    for page in range(PAGES):
        if held[page * PAGE + WRITTEN :][:8] != word_of(rounds - 1):
            sys.exit(f"in the end: what was written by pwrite is not there, page {page}")


main()
