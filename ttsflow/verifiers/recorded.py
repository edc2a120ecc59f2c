"""Scores that were recorded with the samples, such as those of a reward model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttsflow.engines.recorded_paths import sample_number
from ttsflow.errors import ConfigError
from ttsflow.library import Library, check_count, library
from ttsflow.ops import Verdict
from ttsflow.protocols import EnginePart
from ttsflow.recordings import Count
from ttsflow.types import Candidate, Problem

__all__ = ["Recorded"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Gives every recorded sample that an engine plays the scores that were recorded with it in ``path``.

    A sample without any has a missing score: it does not vote by weight and is never the best, but it is
    not failed. ``path`` (None: the recordings of this package) and ``count`` are those of the engine, which
    is ``replay``, or ``sim`` with recorded paths.
    """

    path: str | None = None
    count: Count = "tokens"

    def __post_init__(self) -> None:
        check_count(self.count)

    @property
    def source(self) -> tuple[str | None, str]:
        """The file it reads and how; the engine must read the same."""
        return self.path, self.count

    def check_beside(self, engine: EnginePart) -> None:
        """Refuse an engine that plays no recorded samples."""
        if getattr(engine, "source", None) is None:
            raise ConfigError(
                "it has the scores of recorded samples, and this engine plays none; set engine=replay, or "
                "engine=sim 'engine.paths={use: recorded}'.",
                "use",
            )

    def open(self) -> RecordedScores:
        """Return the working verifier. Raises ``DataError`` when no sample of the file has a score."""
        try:
            recorded = library(self.path, self.count)
        except ConfigError as error:
            raise error.below("verifier") from error
        if not any(sample.scores for _, sample in recorded.samples):
            raise ConfigError(
                f"{recorded.name} holds no scores; set `path` to a file that does, or take another verifier.",
                "verifier.path",
            )
        return RecordedScores(recorded)


class RecordedScores:
    """Looks scores up; a candidate of another file or engine is a ``ConfigError``."""

    def __init__(self, recorded: Library) -> None:
        self._library = recorded
        self._ready: dict[str, Verdict] = {}

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Look up the scores of a candidate, which are returned by the next step."""
        if id in self._ready:
            raise ValueError(f"{id!r} is already waiting for its scores")
        number = sample_number(candidate.tokens[0]) if candidate.tokens else -1
        samples = self._library.samples
        if not 0 <= number < len(samples) or samples[number][0] != problem.id:
            raise ConfigError(
                f"the sample {candidate.path} of the problem {problem.id!r} is none of {self._library.name}; "
                "this verifier needs an engine that plays the samples of the same path.",
                "verifier.path",
            )
        self._ready[id] = Verdict(id, samples[number][1].scores or (None,))

    def step(self) -> list[Verdict]:
        """Return the verdicts in the order of submission."""
        ready, self._ready = self._ready, {}
        return list(ready.values())

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget queued candidates; unknown ids are ignored."""
        for name in ids:
            self._ready.pop(name, None)

    def close(self) -> None:
        """Forget everything; may be called twice."""
        self._ready.clear()
