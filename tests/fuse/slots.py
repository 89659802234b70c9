"""slots.py FILE SECONDS: two threads write to slots of their own in the same pages, one through opens to
write only and one through opens to read and write, a third one reads. They open the file again and again.
Each finds the bytes that it wrote last, whatever the others do to the same page."""

import os
import random
import sys
import threading
import time

PAGES = 2
SLOT = 256
SLOTS = PAGES * 4096 // SLOT

path, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
failures = []


def read_again(slot):
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.pread(fd, SLOT, slot * SLOT)
    finally:
        os.close(fd)


def write(own, flags):
    rng = random.Random(own)
    fd, written, number = None, {}, 0
    while time.monotonic() < end and not failures:
        if fd is None or rng.random() < 0.05:
            if fd is not None:
                os.close(fd)
            fd = os.open(path, flags)
        number += 1
        slot = rng.randrange(own, SLOTS, 2)
        written[slot] = (b"%d.%d." % (own, number)).ljust(SLOT, b"%c" % (97 + number % 26))
        os.pwrite(fd, written[slot], slot * SLOT)
        if flags == os.O_RDWR:
            found = os.pread(fd, SLOT, slot * SLOT)
        elif rng.random() < 0.3:
            found = read_again(slot)
        else:
            continue
        if found != written[slot]:
            failures.append(f"slot {slot}: wrote {written[slot][:12]}, found {found[:12]}")
    os.close(fd)
    for slot, bytes_ in written.items():
        if read_again(slot) != bytes_:
            failures.append(f"slot {slot}: {bytes_[:12]} is not there in the end")


def read():
    while time.monotonic() < end and not failures:
        for slot in range(SLOTS):
            read_again(slot)


with open(path, "wb") as made:
    made.write(bytes(PAGES * 4096))
threads = [
    threading.Thread(target=write, args=(0, os.O_WRONLY)),
    threading.Thread(target=write, args=(1, os.O_RDWR)),
    threading.Thread(target=read),
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("; ".join(failures) or None)
