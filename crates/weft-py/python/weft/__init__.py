"""Files of a Weft cluster, without a mount.

>>> import weft
>>> with weft.connect("weft://fs.example.org/") as client:  # doctest: +SKIP
...     client.write_bytes("/hello", b"hello")
...     with client.open("/hello") as file:
...         print(file.read())

Reads land in the caller's memory (``readinto``, ``read_many``), many at once, and other threads
run meanwhile. Do not touch memory that a call reads into before the call returns.
"""

from ._client import Client, DirEntry, Stat, connect
from ._file import File
from ._weft import Error, __version__

__all__ = ["Client", "DirEntry", "Error", "File", "Stat", "__version__", "connect"]
