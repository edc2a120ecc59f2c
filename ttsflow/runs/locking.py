"""One process at a time on a folder; the kernel frees what a killed process held."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from ttsflow.errors import ConfigError

__all__ = ["LOCK", "Holder", "Lock", "Locked", "hold", "holder"]

LOCK = ".lock"

_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}
_TRIES = 4
_PAUSE = 0.05
"""Seconds between two tries: someone may just be looking who holds it, which takes no time."""


class Locked(ConfigError):
    """Another process is at work on the folder."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a folder, since when (seconds since 1970), and how far it has come.

    ``done`` problems have a result, ``kept`` of them from before; ``seconds`` is the time of the run so far,
    that of its earlier parts included.
    """

    pid: int = 0
    host: str = ""
    since: float = 0.0
    done: int = 0
    kept: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.pid:
            return "another process"
        since = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"process {self.pid} on {self.host}, at work since {since}"


class Lock:
    """A folder that is held. ``before`` is the last holder, where it was ended without a chance to let go."""

    def __init__(self, folder: Path, file: int, before: Holder | None) -> None:
        self.folder = folder
        self.before = before
        self._file = file
        self._own = Holder(os.getpid(), socket.gethostname(), time.time())
        self.tell(0, 0, before.seconds if before is not None else 0.0)

    def tell(self, done: int, kept: int, seconds: float) -> None:
        """Say how far the work is. A disk that is full is no reason to end it."""
        own = self._own
        now = Holder(own.pid, own.host, own.since, done, kept, seconds)
        data = (json.dumps(asdict(now)) + "\n").encode()
        with contextlib.suppress(OSError):
            os.pwrite(self._file, data, 0)
            os.ftruncate(self._file, len(data))


_held: set[int] = set()


def _let_go_in_child() -> None:
    """Close locks in a forked child, which would hold them on when its parent is killed."""
    while _held:
        with contextlib.suppress(OSError):
            os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go_in_child)


@contextmanager
def hold(folder: Path, what: str) -> Iterator[Lock]:
    """Hold a folder, which is made if need be, for the length of a block.

    Raises ``Locked`` when another process, or another part of this one, does, and ``OSError`` for a folder
    that cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    file = _taken(path)
    if file is None:
        raise Locked(f"{folder} is in use by {_read(path)}; one process at a time works on {what}.")
    _held.add(file)
    try:
        yield Lock(folder, file, _known(path))
    finally:
        _held.discard(file)
        # The file goes before the lock does, so that nobody takes one that is about to go.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(file)


def holder(folder: Path) -> Holder | None:
    """Return who holds a folder now; None when nobody does."""
    path = folder / LOCK
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(path)
    finally:
        os.close(file)
    return None


def _taken(path: Path) -> int | None:
    """Return a locked file, None where it stays another's."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have removed it between the two lines above.
            if os.fstat(file).st_ino == path.stat().st_ino:
                return file
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError as error:
            if error.errno in _NO_LOCKS:
                warnings.warn(
                    f"{path.parent} is on a file system without locks: see to it yourself that no two "
                    "processes work on it.",
                    stacklevel=3,
                )
                return file
            os.close(file)
            raise
        os.close(file)
    return None


def _known(path: Path) -> Holder | None:
    found = _read(path)
    return found if found.pid else None


def _read(path: Path) -> Holder:
    """Return what a lock says; one that was being written says nothing."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return Holder(**{field.name: said[field.name] for field in fields(Holder)})
    except (OSError, ValueError, TypeError, KeyError):
        return Holder()
