"""Recorded samples as a source of trajectories: its settings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from ttsflow.engines.recorded_paths import RecordedPaths
from ttsflow.errors import ConfigError
from ttsflow.library import Library, check_count, library
from ttsflow.protocols import Capabilities
from ttsflow.recordings import Count

__all__ = ["RecordedSamples"]

#: Tokens that are left for a prompt where a context for all samples is advised.
_PROMPT = 4096


@dataclass(frozen=True, slots=True)
class RecordedSamples:
    """The samples of a file of recordings (None: those that come with the package), each played as it was.

    Sample number i of a problem is the i-th recorded one, or with ``shuffle`` the i-th of an order that this
    seed draws for every problem. With ``count`` words the tokens of a sample are the words of its text. A
    sample that was cut does not vote, also when an answer was recorded for it; with ``cut_votes`` it does.
    """

    path: str | None = None
    shuffle: int | None = None
    count: Count = "tokens"
    cut_votes: bool = False

    def __post_init__(self) -> None:
        if self.path is not None and not self.path.strip():
            raise ConfigError("is empty; null means the recordings of this package", "path")
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

    def check_limits(self, most: int, context: int) -> None:
        """Warn when the limit of a trajectory or the context of a model cuts samples."""
        sizes = [sample.tokens for _, sample in self._library("").samples]
        cut = sum(size > min(most, context) for size in sizes)
        if cut:
            advice = ["sampling=recorded"] * (max(sizes) > most)
            advice += [f"engine.context={max(sizes) + _PROMPT}"] * (max(sizes) > context)
            warnings.warn(
                f"{cut} of {len(sizes)} recorded samples have more than {min(most, context)} tokens and will "
                f"be cut; {' '.join(advice)} leaves them whole",
                stacklevel=2,
            )

    def open_paths(self) -> RecordedPaths:
        """Return the samples as paths. Raises ``DataError`` when the file cannot be read."""
        return RecordedPaths(
            self._library("engine"),
            shuffle=self.shuffle,
            cut_votes=self.cut_votes,
            current=lambda: self._library("engine"),
        )

    def _library(self, place: str) -> Library:
        try:
            return library(self.path, self.count)
        except ConfigError as error:
            raise error.below(place) from error
