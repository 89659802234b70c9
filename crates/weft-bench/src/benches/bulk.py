"""Reads a file into one array, in parts that are read at once: bulk.py URL PATH BYTES TOGETHER PART

TOGETHER bytes at a time are read by one call of read_many, in parts of PART bytes. Prints what it took as JSON:
seconds, and processor seconds of this process.
"""

import json
import sys
import time

import numpy
import weft

url, path = sys.argv[1:3]
total, together, part = map(int, sys.argv[3:])
client = weft.connect(url)
memory = numpy.ones(together, dtype=numpy.uint8)
parts = [memory[at : at + part] for at in range(0, together, part)]
started, cpu = time.monotonic(), time.process_time()
for start in range(0, total, together):
    read = client.read_many(
        [(path, start + n * part, into) for n, into in enumerate(parts)]
    )
    if sum(read) != together:
        sys.exit(f"{sum(read)} bytes were read, not {together}")
print(json.dumps({"wall_s": time.monotonic() - started, "cpu_s": time.process_time() - cpu}))
client.close()
