"""The file of a pool of samples: SQLite in WAL mode, so that several processes read and write it at once."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ttsflow.errors import ConfigError
from ttsflow.files import named_path

__all__ = ["VERSION", "check_place", "check_pool", "opened", "pool_path", "transaction"]

#: Version of the format.
VERSION = 1

_MARK = int.from_bytes(b"ttsp", "big")
_WAIT_SECONDS = 20.0
_LEAST_FREE = 1 << 20

_SCHEMA = """
CREATE TABLE models(id INTEGER PRIMARY KEY, digest BLOB UNIQUE NOT NULL, name TEXT, settings TEXT);
CREATE TABLE prompts(id INTEGER PRIMARY KEY, digest BLOB UNIQUE NOT NULL, tokens BLOB);
CREATE TABLE samplings(id INTEGER PRIMARY KEY, settings TEXT UNIQUE NOT NULL);
CREATE TABLE samples(
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, top INTEGER NOT NULL, certain INTEGER NOT NULL,
    whole INTEGER NOT NULL, length INTEGER NOT NULL, stop TEXT,
    model INTEGER NOT NULL, prompt INTEGER NOT NULL, sampling INTEGER NOT NULL, seed INTEGER NOT NULL,
    problem TEXT, path TEXT, written REAL NOT NULL,
    tokens BLOB NOT NULL, text TEXT, logprobs BLOB, certainties BLOB);
CREATE UNIQUE INDEX samples_by_key ON samples(key, top, certain);
CREATE INDEX samples_by_model ON samples(model, whole, length, written, prompt, sampling);
"""


def pool_path(asked: str) -> Path:
    """Return the path of a pool that a setting names. Raises ``ConfigError``."""
    if not asked.strip():
        raise ConfigError(
            "the name of a file is wanted, such as samples.pool; null is no pool.", "engine.pool"
        )
    return named_path(asked, "engine.pool", ConfigError)


def check_pool(asked: str) -> None:
    """Raise ``ConfigError`` for a pool that cannot be used; makes no file."""
    path = pool_path(asked)
    check_place(path)
    if path.exists():
        opened(path).close()


def check_place(path: Path) -> None:
    """Raise ``ConfigError`` where no file can be written."""
    if path.is_dir():
        raise _refused(f"{path} is a folder; name a file in it, such as {path / 'samples.pool'}.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise _refused(f"the folder {folder} does not exist; make it first.")
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE:
        raise _refused(f"no space is left for {path}: {free} bytes are free on its disk.")


def opened(path: Path, *, writes: bool = True) -> sqlite3.Connection:
    """Return an open pool, a new one where there is no file. Raises ``ConfigError``.

    With ``writes`` one that cannot be written is refused.
    """
    connection = None
    try:
        connection = sqlite3.connect(
            path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        _prepare(connection, path, writes=writes)
    except ConfigError:
        if connection is not None:
            connection.close()
        raise
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise _refused(f"{path} cannot be used as a pool of samples: {error}. {_advice(error)}") from error
    return connection


def _advice(error: sqlite3.Error) -> str:
    text = str(error)
    if "readonly" in text or "unable to open" in text:
        return "The file and its folder have to be writable."
    if "locked" in text:
        return "Another process has been writing all the time; wait for it."
    if "full" in text or "I/O" in text:
        return "Make room on its disk."
    return "Name another file, and keep or delete this one."


def _prepare(connection: sqlite3.Connection, path: Path, *, writes: bool) -> None:
    """Check whose file it is, and make the tables of a new one."""
    connection.execute("PRAGMA synchronous = NORMAL")
    if _is_new(connection, path):
        _into_wal(connection)
        with transaction(connection):
            if _is_new(connection, path):
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_MARK}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
    if writes:
        # A file or folder that cannot be written refuses this; a mere beginning it would let pass.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("ROLLBACK")


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a file is empty. Raises ``ConfigError`` for one that is no pool of this version."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if mark == _MARK and version == VERSION:
        return False
    if mark == _MARK:
        raise _refused(
            f"{path} is a pool of version {version}, and this ttsflow reads version {VERSION}. Name another "
            "file, or use the ttsflow that wrote it (`ttsflow pool FILE --export OUT.jsonl` of that one)."
        )
    if tables or version or mark:
        raise _refused(f"{path} is a database of something else; name another file.")
    return True


def _into_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; SQLite does not wait by itself when another process does the same."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _refused(message: str) -> ConfigError:
    return ConfigError(message, "engine.pool")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all or nothing. It begins as a writer, so that nothing has to be tried again midway."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
