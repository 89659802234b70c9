"""databases.py ENGINE PATH WORKER COUNT: one of several processes that use a database at once.

Each makes COUNT transactions; in each it adds a record, removes an old one of its own, and counts both in
a record that all share. After each it reads everything in one transaction: what it finds must be what the
shared record says, byte for byte. ENGINE is `sqlite-MODE` (a journal mode of SQLite) or `lmdb`. COUNT 0
makes the database; `check` in place of it looks at what all have left, and prints how many there were.
"""

import hashlib
import sys

KEPT = 12  # records of each process
SECONDS = 120  # that a process may wait for the others


def value_of(worker, number):
    """What a record holds: some bytes, or some pages."""
    seed = f"{worker}/{number}".encode()
    length = 40 + int.from_bytes(hashlib.sha256(seed).digest()[:2], "big") % 9000
    return (seed + b"." * length)[:length] + hashlib.sha256(seed).digest()


def judge(engine, found, live):
    """Compares records, as (worker, number, value), with how many there should be."""
    if len(found) != live:
        sys.exit(f"{engine}: {len(found)} records, counted {live}")
    for worker, number, value in found:
        if value != value_of(worker, number):
            sys.exit(f"{engine}: record {worker}/{number} holds other bytes")


def sqlite(mode, path, worker, count):
    import sqlite3

    db = sqlite3.connect(path, timeout=SECONDS, isolation_level=None)
    if count == 0:
        db.execute(f"PRAGMA journal_mode={mode}")
        db.execute("CREATE TABLE records (worker, number, value, PRIMARY KEY (worker, number))")
        db.execute("CREATE TABLE counted (made, live)")
        db.execute("INSERT INTO counted VALUES (0, 0)")

    def read():
        db.execute("BEGIN")
        made, live = db.execute("SELECT made, live FROM counted").fetchone()
        found = db.execute("SELECT worker, number, value FROM records").fetchall()
        db.execute("COMMIT")
        judge("SQLite", found, live)
        return made

    for number in range(count or 0):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO records VALUES (?, ?, ?)", (worker, number, value_of(worker, number)))
        old = db.execute("DELETE FROM records WHERE worker = ? AND number = ?", (worker, number - KEPT))
        db.execute("UPDATE counted SET made = made + 1, live = live + ?", (1 - old.rowcount,))
        db.execute("COMMIT")
        read()
    if count is None:
        said = db.execute("PRAGMA integrity_check").fetchone()[0]
        if said != "ok":
            sys.exit(f"SQLite: {said}")
    return read()


def lmdb(path, worker, count):
    import lmdb as engine

    env = engine.open(path, map_size=64 << 20, subdir=False, max_readers=32)

    def read():
        with env.begin() as txn:
            made, live = [int(txn.get(name, b"0")) for name in (b"made", b"live")]
            found = []
            for key, value in txn.cursor():
                if b"/" in key:
                    parts = key.decode().split("/")
                    found.append((int(parts[0]), int(parts[1]), bytes(value)))
        judge("LMDB", found, live)
        return made

    for number in range(count or 0):
        with env.begin(write=True) as txn:
            txn.put(f"{worker}/{number}".encode(), value_of(worker, number))
            old = txn.delete(f"{worker}/{number - KEPT}".encode())
            for name, more in ((b"made", 1), (b"live", 0 if old else 1)):
                txn.put(name, str(int(txn.get(name, b"0")) + more).encode())
        read()
    return read()


def main():
    engine, path, worker, count = sys.argv[1:]
    count = None if count == "check" else int(count)
    if engine == "lmdb":
        print(lmdb(path, int(worker), count))
    else:
        print(sqlite(engine.removeprefix("sqlite-"), path, int(worker), count))


main()
