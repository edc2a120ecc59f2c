"""Recorded samples as an engine: its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttsflow.engines.recorded_samples import RecordedSamples
from ttsflow.engines.replay_live import ReplayEngine
from ttsflow.errors import ConfigError
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

    virtual: ClassVar[bool] = True
    unpooled: ClassVar[str] = (
        "this engine plays recorded samples as it is; engines with a model have a pool, such as engine=vllm."
    )

    def __post_init__(self) -> None:
        _ = self.samples
        if self.seats < 1:
            raise ConfigError(f"at least 1 sequence must fit, got {self.seats}", "seats")
        if not 0 < self.token_seconds <= _MOST_SECONDS:
            raise ConfigError(
                f"must lie above 0 and up to {_MOST_SECONDS:g}, got {self.token_seconds}", "token_seconds"
            )

    @property
    def samples(self) -> RecordedSamples:
        """The samples it plays."""
        return RecordedSamples(self.path, self.shuffle, self.count, self.cut_votes)

    @property
    def capabilities(self) -> Capabilities:
        """What every sample of the file has. Raises ``DataError`` when it cannot be read."""
        return self.samples.capabilities

    @property
    def source(self) -> tuple[str | None, str]:
        """The file it reads and how; task and verifier must read the same."""
        return self.samples.source

    @property
    def most_samples(self) -> int:
        """Samples that every problem of the file has. Raises ``DataError`` when it cannot be read."""
        return self.samples.most_samples

    def check(self) -> None:
        """Raise ``DataError`` when the file cannot be read."""
        self.samples.check()

    def open(self) -> ReplayEngine:
        """Return the engine. Raises ``DataError`` when the file cannot be read."""
        return ReplayEngine(
            self.samples.open_paths(), self.capabilities, seats=self.seats, token_seconds=self.token_seconds
        )
