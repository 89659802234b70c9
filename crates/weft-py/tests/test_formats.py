"""What people keep in files: tables, arrays, checkpoints."""

import numpy
import pandas
import pyarrow.dataset
import pyarrow.parquet
from safetensors.numpy import load, save_file

from weft.fsspec_fs import WeftFileSystem


def test_parquet(url):
    """A table goes out through pandas and comes back through PyArrow, whole, by column and by
    partition."""
    table = pandas.DataFrame({"n": range(200_000), "part": [i % 3 for i in range(200_000)]})
    table["x"] = table["n"] * 0.5
    table.to_parquet(f"{url}/table.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(f"{url}/table.parquet"), table)
    fs = WeftFileSystem(server=url.split("/")[2])
    path = fs._strip_protocol(url)
    x = pyarrow.parquet.read_table(f"{path}/table.parquet", columns=["x"], filesystem=fs)
    assert x.num_rows == 200_000 and x.column_names == ["x"]
    table.to_parquet(f"{url}/parts", partition_cols=["part"])
    parts = pyarrow.dataset.dataset(f"{path}/parts", filesystem=fs, partitioning="hive")
    assert parts.count_rows() == 200_000
    assert parts.to_table(filter=pyarrow.dataset.field("part") == 1).num_rows == 66_667


def test_checkpoints(client, tmp_path):
    """A checkpoint of tensors goes in whole, and each tensor comes out into memory of its own."""
    rng = numpy.random.default_rng(2)
    tensors = {f"layer{i}": rng.standard_normal((300, 1000), dtype=numpy.float32) for i in range(8)}
    save_file(tensors, tmp_path / "model.safetensors")
    client.write_bytes("model.safetensors", (tmp_path / "model.safetensors").read_bytes())
    back = load(client.read_bytes("model.safetensors"))
    assert all((back[name] == tensor).all() for name, tensor in tensors.items())
    client.write_many([(f"shards/{name}", 0, tensor) for name, tensor in tensors.items() if client.makedirs("shards", exist_ok=True) is None])
    room = {name: numpy.empty_like(tensor) for name, tensor in tensors.items()}
    got = client.read_many([(f"shards/{name}", 0, array) for name, array in room.items()])
    assert got == [1_200_000] * 8
    assert all((room[name] == tensor).all() for name, tensor in tensors.items())
    with client.open("array.npy", "wb") as file:
        numpy.save(file, tensors["layer0"])
    with client.open("array.npy") as file:
        assert (numpy.load(file) == tensors["layer0"]).all()
