"""closed.py FILE TIMES: a lock that belongs to an open file ends when that is closed: whoever asks next has
it. `flock` and locks of open file descriptions, by turns."""

import fcntl
import os
import struct
import sys

F_OFD_SETLK = 37


def lock(fd, by_flock):
    if by_flock:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.fcntl(fd, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 10, 0))


def main():
    path, denied = sys.argv[1], 0
    for number in range(int(sys.argv[2])):
        first, second = [os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2)]
        lock(first, number % 2)
        os.close(first)
        try:
            lock(second, number % 2)
        except BlockingIOError:
            denied += 1
        os.close(second)
    print(denied)


main()
