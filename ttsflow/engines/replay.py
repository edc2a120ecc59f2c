"""Recorded samples as an engine: its settings."""

from __future__ import annotations

from dataclasses import dataclass

from ttsflow.engines.replay_live import ReplayEngine
from ttsflow.errors import ConfigError
from ttsflow.library import Library, check_count, library
from ttsflow.protocols import Capabilities
from ttsflow.recordings import Count

__all__ = ["Replay"]


#: A token a day: more is a slip, and would overflow the clock.
_MOST_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Replay:
    """Plays back recorded samples on a virtual clock, so that a strategy costs seconds and no model.

    ``path`` is a file of recordings (None: those that come with the package). ``seats`` sequences grow at
    once, one token each in ``token_seconds``. Sample number i of a problem is the i-th recorded one, or
    with ``shuffle`` the i-th of an order that this seed draws for every problem. With ``count`` words the
    tokens of a sample are the words of its text. A sample that was cut does not vote, also when an answer
    was recorded for it; with ``cut_votes`` it does, as in published tables that only look at answers.
    """

    path: str | None = None
    seats: int = 64
    token_seconds: float = 0.02
    shuffle: int | None = None
    count: Count = "tokens"
    cut_votes: bool = False

    def __post_init__(self) -> None:
        if self.path is not None and not self.path.strip():
            raise ConfigError("is empty; null means the recordings of this package", "path")
        if self.seats < 1:
            raise ConfigError(f"at least 1 sequence must fit, got {self.seats}", "seats")
        if not 0 < self.token_seconds <= _MOST_SECONDS:
            raise ConfigError(
                f"must lie above 0 and up to {_MOST_SECONDS:g}, got {self.token_seconds}", "token_seconds"
            )
        check_count(self.count)

    @property
    def capabilities(self) -> Capabilities:
        """What every sample of the file has. Raises ``DataError`` when it cannot be read."""
        recorded = self._library("engine")
        return Capabilities(logprobs=recorded.logprobs, token_prompts=False, certainty=recorded.certainty)

    @property
    def source(self) -> tuple[str | None, str]:
        """The file it reads and how; task and verifier must read the same."""
        return self.path, self.count

    @property
    def most_samples(self) -> int:
        """Samples that every problem of the file has. Raises ``DataError`` when it cannot be read."""
        return self._library("engine").fewest

    def check(self) -> None:
        """Raise ``DataError`` when the file cannot be read."""
        self._library("")

    def open(self) -> ReplayEngine:
        """Return the engine. Raises ``DataError`` when the file cannot be read."""
        return ReplayEngine(
            self._library("engine"),
            self.capabilities,
            current=lambda: self._library("engine"),
            seats=self.seats,
            token_seconds=self.token_seconds,
            shuffle=self.shuffle,
            cut_votes=self.cut_votes,
        )

    def _library(self, place: str) -> Library:
        try:
            return library(self.path, self.count)
        except ConfigError as error:
            raise error.below(place) from error
