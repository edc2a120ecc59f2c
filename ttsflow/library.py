"""Files of recorded samples, read once and indexed: what engine, task and verifier look samples up in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import get_args

from ttsflow.errors import ConfigError, suggest
from ttsflow.files import named_path
from ttsflow.recordings import Count, Recording, Sample, read_recordings

__all__ = ["SHIPPED", "Library", "check_count", "library"]

#: The recordings that come with the package.
SHIPPED = Path(__file__).parent / "data" / "traces.jsonl.gz"


class Library:
    """The recordings of one file, by number and by id.

    ``samples`` are all samples in file order; a sample's place in it is its number. ``first`` is the
    number of each recording's first sample, by id.
    """

    def __init__(self, name: str, recordings: Sequence[Recording]) -> None:
        self.name = name
        self.recordings = {recording.id: recording for recording in recordings}
        self.samples = [(recording.id, sample) for recording in recordings for sample in recording.samples]
        self.first: dict[str, int] = {}
        number = 0
        for recording in recordings:
            self.first[recording.id] = number
            number += len(recording.samples)

    @cached_property
    def fewest(self) -> int:
        """Samples of the problem that has the fewest."""
        return min((len(recording.samples) for recording in self.recordings.values()), default=0)

    @cached_property
    def logprobs(self) -> int:
        """Top log-probabilities that every token of every sample has."""
        return min((len(e) for s in self._decoded for e in s.logprobs or [()]), default=0)

    @cached_property
    def certainty(self) -> bool:
        """Whether every token of every sample has its certainty."""
        return bool(self._decoded) and all(sample.certainties for sample in self._decoded)

    @property
    def _decoded(self) -> list[Sample]:
        return [sample for _, sample in self.samples if sample.tokens]


def library(path: str | None, count: Count = "tokens") -> Library:
    """Return the recordings of a file, or those that come with the package.

    A file that has not changed is read once. Raises ``DataError``.
    """
    file = SHIPPED if path is None else named_path(path, "path")
    try:
        facts = file.stat()
        stamp = (facts.st_mtime_ns, facts.st_size)
    except OSError:
        stamp = None  # reading it says what is wrong
    name = "the file of recordings in this package" if path is None else path
    return _library(name, str(file) if path is None else path, stamp, count)


@lru_cache(maxsize=8)
def _library(name: str, path: str, stamp: tuple[int, int] | None, count: Count) -> Library:
    del stamp
    return Library(name, read_recordings(path, count=count))


def check_count(count: str) -> None:
    """Raise ``ConfigError`` for a way of counting that does not exist."""
    if count not in get_args(Count):
        raise ConfigError(f"there is no count {count!r}. {suggest(str(count), get_args(Count))}", "count")
