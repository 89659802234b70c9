"""Locks of many processes against those of a local file system.

    against_local.py SEED STEPS LOCAL DIR...

Processes, some on each DIR (mounts of one file system), open, close, duplicate, lock and unlock
files by chance, and die. Each does the same with files in LOCAL, whose kernel knows what must come
of it: what it refuses must be refused on the mounts, and what it grants must be had there soon
(some locks end a moment after `close`). Nobody waits for a lock."""

import fcntl
import json
import os
import random
import signal
import struct
import sys
import time

AGENTS_PER_DIR = 3
SLOTS = 3
# Bytes of the file that locks are taken of.
BYTES = 8
# Time for a lock to be free whose last descriptor was closed.
SOON = 30
# Of descriptions (fcntl(2)): not in the module everywhere.
F_OFD_GETLK, F_OFD_SETLK = 36, 37
FLOCK = "hhqqi4x"
MODES = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}


class Files:
    """The descriptors that one process has of the files in a directory."""

    def __init__(self, root):
        self.root, self.fds = root, {}

    def open(self, slot, name, mode):
        self.close(slot)
        self.fds[slot] = os.open(os.path.join(self.root, name), MODES[mode])

    def dup(self, slot, to):
        if slot in self.fds:
            self.close(to)
            self.fds[to] = os.dup(self.fds[slot])

    def close(self, slot):
        if slot in self.fds:
            os.close(self.fds.pop(slot))

    def setlk(self, slot, how, kind, start, length):
        whole = struct.pack(FLOCK, kind, os.SEEK_SET, start, length, 0)
        fcntl.fcntl(self.fds[slot], how, whole)

    def getlk(self, slot, how, kind, start, length):
        asked = struct.pack(FLOCK, kind, os.SEEK_SET, start, length, 0)
        told = fcntl.fcntl(self.fds[slot], how, asked)
        return struct.unpack(FLOCK, told)[0] != fcntl.F_UNLCK

    def flock(self, slot, how):
        fcntl.flock(self.fds[slot], how | fcntl.LOCK_NB)

    def act(self, word, *rest):
        if rest and rest[0] not in self.fds and word not in ("open", "dup", "close"):
            return "no descriptor"
        try:
            return getattr(self, word)(*rest)
        except OSError as error:
            return error.strerror


def serve(sides, commands, answers):
    files = [Files(side) for side in sides]
    for line in commands:
        side, act = json.loads(line)
        answers.write(json.dumps(files[side].act(*act)) + "\n")
        answers.flush()


class Agent:
    """A process, with its files in LOCAL (side 0) and on a mount (side 1)."""

    def __init__(self, sides, others):
        (read, self.command), (self.answer, write) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for other in others:
                os.close(other.command), os.close(other.answer)
            os.close(self.command), os.close(self.answer)
            with os.fdopen(read) as commands, os.fdopen(write, "w") as answers:
                serve(sides, commands, answers)
            os._exit(0)
        os.close(read), os.close(write)
        self.answers = os.fdopen(self.answer, closefd=False)

    def act(self, side, act):
        os.write(self.command, (json.dumps([side, act]) + "\n").encode())
        return json.loads(self.answers.readline())

    def dies(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.answers.close()
        os.close(self.command), os.close(self.answer)


def act_by_chance(chance):
    slot = chance.randrange(SLOTS)
    word = chance.choice(["open", "open", "close", "dup", "get", "set", "set", "set", "unlock"])
    if word == "open":
        # flock(2) has a file of its own: to others' mounts it is a lock as the others are.
        name = chance.choice(["ranges", "ranges", "whole"])
        return "open", slot, name, chance.choice(["rw", "rw", "rw", "r", "w"])
    if word == "close":
        return "close", slot
    if word == "dup":
        return "dup", slot, (slot + chance.randrange(1, SLOTS)) % SLOTS
    start = chance.randrange(BYTES)
    length = chance.choice([0, chance.randrange(1, BYTES - start + 1)])
    of_description = chance.random() < 0.3
    if word == "get":
        how = F_OFD_GETLK if of_description else fcntl.F_GETLK
        return "getlk", slot, how, chance.choice([fcntl.F_RDLCK, fcntl.F_WRLCK]), start, length
    kinds = [fcntl.F_UNLCK] if word == "unlock" else [fcntl.F_RDLCK, fcntl.F_WRLCK]
    how = F_OFD_SETLK if of_description else fcntl.F_SETLK
    return "setlk", slot, how, chance.choice(kinds), start, length


def as_flock(act):
    """The same of a whole file."""
    kind = {fcntl.F_UNLCK: fcntl.LOCK_UN, fcntl.F_RDLCK: fcntl.LOCK_SH, fcntl.F_WRLCK: fcntl.LOCK_EX}
    return "flock", act[1], kind[act[3]]


def main():
    seed, steps, local, *dirs = sys.argv[1:]
    chance = random.Random(int(seed))
    for name in "ranges", "whole":
        for place in local, dirs[0]:
            with open(os.path.join(place, name), "w") as file:
                file.write("." * BYTES)
    # What was made on one mount may be looked for on another in vain for a second.
    time.sleep(2)
    places = [[local, place] for place in dirs for _ in range(AGENTS_PER_DIR)]
    agents = []
    for place in places:
        agents.append(Agent(place, agents))
    opened = {}
    counts = {"granted": 0, "refused": 0, "told": 0, "late": 0, "deaths": 0}
    history = []
    for step in range(int(steps)):
        index = chance.randrange(len(agents))
        agent = agents[index]
        if chance.random() < 0.01:
            history.append((index, "dies"))
            agent.dies()
            agents[index] = None
            agents[index] = Agent(places[index], [a for a in agents if a])
            opened = {key: value for key, value in opened.items() if key[0] != index}
            counts["deaths"] += 1
            continue
        act = act_by_chance(chance)
        key = index, act[1]
        if act[0] == "open":
            opened[key] = act[2:]
        elif act[0] == "close":
            opened.pop(key, None)
        elif act[0] == "dup" and key in opened:
            opened[index, act[2]] = opened[key]
        elif act[0] in ("setlk", "getlk"):
            name, mode = opened.get(key, ("none", "rw"))
            if name == "whole":
                if act[0] == "getlk":
                    continue
                act = as_flock(act)
                # An exclusive one needs a file open for writing, unlike a local one; a shared one
                # one that is open for reading.
                needs = {fcntl.LOCK_EX: "w", fcntl.LOCK_SH: "r", fcntl.LOCK_UN: ""}[act[2]]
                if needs not in mode:
                    continue
        history.append((index, *act))
        right = agent.act(0, act)
        found = agent.act(1, act)
        deadline = time.monotonic() + SOON
        if found != right and found in (os.strerror(11), True):
            counts["late"] += 1
            while found != right and time.monotonic() < deadline:
                time.sleep(0.01)
                found = agent.act(1, act)
        if found != right:
            print(f"step {step}: {right!r} is right, {found!r} was found; what came before:")
            for line in history[-60:]:
                print(*line)
            sys.exit(1)
        history[-1] += (right,)
        if act[0] == "flock" and right:
            # A local disk has taken away what the description had before it refused another kind.
            for side in 0, 1:
                agent.act(side, ("flock", act[1], fcntl.LOCK_UN))
        if act[0] in ("setlk", "flock"):
            counts["refused" if right else "granted"] += 1
        elif act[0] == "getlk":
            counts["told"] += 1
    for agent in agents:
        agent.dies()
    print(json.dumps(counts))


main()
