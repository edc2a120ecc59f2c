"""Files of JSON lines that are whole at any moment, and reading those that a kill has left half."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ttsflow.errors import DataError

__all__ = ["LineFile", "numbered_lines", "read_lines", "replace_text", "replacing"]

_MOST_HELD = 1 << 20
"""Characters that wait to be written at most."""


def read_lines(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the records of a JSON lines file, and the numbers of lines that are none.

    A run that was killed may leave half a line. Raises ``DataError`` when the file cannot be read.
    """
    records, broken = [], []
    for number, record in numbered_lines(path):
        if record is None:
            broken.append(number)
        else:
            records.append(record)
    return records, broken


def numbered_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the number and the record of every line that is not empty, None for one that holds no record.

    Raises ``DataError`` when the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):  # the latter from thousands of brackets in each other
                    record = None
                if isinstance(record, dict):
                    yield number, record
                elif line.strip():
                    yield number, None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


class LineFile:
    """Appends whole lines to a file; one that could be written only in part is taken back."""

    def __init__(self, path: Path) -> None:
        """Open the file, which may hold lines. Raises ``OSError``."""
        self.path = path
        self._held: list[str] = []
        self._characters = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def write(self, line: str) -> None:
        """Take one line, without its end; it is written with the next ``flush``, or when many wait."""
        self._held.append(line)
        self._characters += len(line)
        if self._characters > _MOST_HELD:
            self.flush()

    def flush(self) -> None:
        """Hand all lines to the operating system. Raises ``OSError``, and the file is then as before."""
        if not self._held:
            return
        data = ("\n".join(self._held) + "\n").encode("utf-8", "replace")
        self._held, self._characters = [], 0
        size = os.fstat(self._file).st_size
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            raise type(error)(error.errno, error.strerror, str(self.path)) from error

    def close(self) -> None:
        """Write what waits and close the file; may be called twice. Raises ``OSError``."""
        if self._file < 0:
            return
        try:
            self.flush()
        finally:
            os.close(self._file)
            self._file = -1


def replace_text(path: Path, text: str) -> None:
    """Write a file in one move, so that a reader never sees half of it. Raises ``OSError``."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of ``path`` at the end, and is gone after an error."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
