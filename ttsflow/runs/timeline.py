"""What ran when on an engine that keeps count of it, as a small file beside a run's results."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ttsflow.errors import DataError

__all__ = ["FILE", "Moment", "Timeline", "read_timeline", "write_timeline"]

FILE = "timeline.csv"
#: Moments kept; beyond that every second one is dropped.
_MOST = 4096
#: Seconds and counts that are read: what a picture can be drawn of, and more than any run has.
_MOST_SECONDS, _MOST_COUNT = 1e15, 10**15


class Moment(NamedTuple):
    """The end of an event: seconds, sequences running and waiting, KV blocks in use and kept for later.

    ``evicted``, ``preempted``, ``decoded`` and ``read`` count from the beginning: blocks, sequences, tokens
    decoded, prompt tokens computed. ``verifying`` are candidates a verifier on the same device has before it.
    """

    seconds: float
    running: int
    waiting: int
    used: int
    cached: int
    evicted: int
    preempted: int
    decoded: int
    read: int
    verifying: int = 0


class Timeline:
    """The moments of a run, in order of time, thinned so that a long run stays small."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self._every = 1
        self._skipped = 0

    def due(self) -> bool:
        """Count an event; return whether its moment is wanted."""
        self._skipped += 1
        return self._skipped >= self._every

    def add(self, moment: Moment) -> None:
        """Keep a moment."""
        self._skipped = 0
        self.moments.append(moment)
        if len(self.moments) > _MOST:
            self.moments = self.moments[1::2]
            self._every *= 2


def write_timeline(folder: Path, moments: Sequence[Moment]) -> None:
    """Write the moments of a run to its folder, where there are any."""
    if moments:
        with (folder / FILE).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Moment._fields)
            writer.writerows(moments)


def read_timeline(folder: Path) -> list[Moment]:
    """Return the moments of a run. Raises ``DataError`` when there are none or a line is broken."""
    path = folder / FILE
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(
            f"{folder} holds no {FILE} that can be read; runs on engine=sim write one: {error}"
        ) from error
    if rows and tuple(rows[0]) != Moment._fields:
        raise DataError(f"{path}:1: is no timeline; its first line must be {','.join(Moment._fields)}")
    moments: list[Moment] = []
    for number, row in enumerate(rows[1:], 2):
        try:
            moments.append(_moment(row, moments[-1].seconds if moments else 0.0))
        except ValueError as error:
            raise DataError(f"{path}:{number}: is no moment of a timeline: {error}") from error
    if not moments:
        raise DataError(f"{path} is empty")
    return moments


def _moment(row: Sequence[str], before: float) -> Moment:
    """Return the moment in a line behind one at ``before``. Raises ``ValueError``."""
    if len(row) != len(Moment._fields):
        msg = f"{len(Moment._fields)} numbers are wanted, found {len(row)}"
        raise ValueError(msg)
    for name, text in zip(Moment._fields, row, strict=True):
        if len(text) > 40:
            msg = f"{name} has {len(text)} characters"
            raise ValueError(msg)
    seconds = float(row[0])
    if not (math.isfinite(seconds) and before <= seconds <= _MOST_SECONDS):
        msg = f"seconds are finite and never fall, found {row[0]} after {before:g}"
        raise ValueError(msg)
    counts = [int(text) for text in row[1:]]
    for name, count in zip(Moment._fields[1:], counts, strict=True):
        if not 0 <= count <= _MOST_COUNT:
            msg = f"{name} must lie between 0 and {_MOST_COUNT:,}, found {count}"
            raise ValueError(msg)
    return Moment(seconds, *counts)
