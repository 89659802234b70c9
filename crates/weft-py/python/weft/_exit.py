"""What is open when Python ends is closed then: no bytes are lost, and nobody waits for the lease of a
program that is gone."""

import atexit
import gc
import io
import itertools
import os
import sys
import warnings
import weakref

_numbers = itertools.count()
_files = weakref.WeakValueDictionary()
_clients = weakref.WeakSet()
_child = None


def opened(file):
    """A file, or what is wrapped around one, is open from now on; wrappers come after what they wrap."""
    _files[next(_numbers)] = file


def connected(client):
    """A client is connected, or will be."""
    _clients.add(client)
    _tell_multiprocessing()


def unclosed(file):
    """Python warns of files that nobody closed; so does this."""
    warnings.warn(f"unclosed file {file!r}", ResourceWarning, stacklevel=3, source=file)


def close_all():
    """Closes all files, the newest first, so that wrappers hand on what they hold, and then all
    clients; what fails is raised when all has been tried."""
    failures = []
    files = [file for _, file in sorted(_files.items(), reverse=True)]
    try:
        for wrapper in _wrappers_of(files):
            _tried(wrapper.flush, failures)
        for file in files:
            if not file.closed:
                unclosed(file)
                _tried(file.close, failures)
        for client in list(_clients):
            _tried(client.close, failures)
    finally:
        files.clear()
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("files or clients of weft could not be closed", failures)


def _wrappers_of(files):
    """Text files that others have wrapped around ours, as fsspec does: what they hold is not in ours yet."""
    if all(file.closed for file in files):
        return []
    ours = {id(file) for file in files}
    texts = [o for o in gc.get_objects() if isinstance(o, io.TextIOWrapper)]
    return [text for text in texts if id(getattr(text, "buffer", None)) in ours and not text.closed]


def _tried(call, failures):
    try:
        call()
    except Exception as failure:
        failures.append(failure)


def _tell_multiprocessing():
    """Children of multiprocessing end without ``atexit``; they have something of their own."""
    global _child
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _child == os.getpid():
        return
    from multiprocessing import util

    _child = os.getpid()
    util.Finalize(None, close_all, exitpriority=-100)


def _in_child():
    """Files that came along with a fork are the parent's to close; a client may connect anew."""
    _files.clear()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_clients, lambda _: _tell_multiprocessing())


atexit.register(close_all)
os.register_at_fork(after_in_child=_in_child)
