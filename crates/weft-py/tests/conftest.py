"""A cluster of its own for a run of the tests: ``weft up`` with four data servers."""

import itertools
import json
import os
import subprocess

import pytest

import weft

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """HOST:PORT of a cluster; WEFT_PROGRAM says which program it is made of."""
    program = os.environ["WEFT_PROGRAM"]
    directory = tmp_path_factory.mktemp("cluster")
    config = directory / "mds.toml"
    config.write_text('[export]\nroot_squash = false\n')
    up = [program, "up", "--dir", directory / "data", "--listen", "127.0.0.1:0", "--config", config, "--json"]
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert line, "weft up has not started: see above"
        yield json.loads(line)["mds"]
        process.terminate()
        process.wait(60)


@pytest.fixture
def url(server):
    """A folder of its own for each test."""
    path = f"/test-{next(_numbers)}"
    with weft.connect(f"weft://{server}/") as client:
        client.mkdir(path)
    return f"weft://{server}{path}"


@pytest.fixture
def client(url):
    with weft.connect(url, patience=20) as client:
        yield client
