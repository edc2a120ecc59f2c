"""The stage that prunes the pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.lineage import Path
from ttsflow.ops import Note
from ttsflow.strategies.flow import Steps
from ttsflow.types import Candidate, State

__all__ = ["Select"]


@dataclass(frozen=True, slots=True)
class Select:
    """Keeps the best candidates.

    ``keep`` keeps that many of the whole pool. ``into`` with ``copies`` is the choice of a search:
    only active candidates compete, the best ``into / copies`` survive and each stands ``copies``
    times in the new pool (so that the next step gives it as many children); candidates that have
    ended stay aside and remain.

    ``by`` score prefers high scores, ``by`` tokens short trajectories; ``prefer`` turns that round.
    Equal ones are taken in sample order. With ``answered`` only finished candidates with an answer
    are eligible.
    """

    by: Literal["score", "tokens"] = "score"
    keep: int | None = None
    into: int | None = None
    copies: int = 1
    prefer: Literal["most", "least"] | None = None
    answered: bool = False

    def __post_init__(self) -> None:
        if (self.keep is None) == (self.into is None):
            raise ConfigError("set exactly one of `keep` and `into`.", "keep")
        if self.keep is not None and self.keep < 1:
            raise ConfigError(f"at least one candidate must be kept, got {self.keep}.", "keep")
        if self.copies < 1:
            raise ConfigError(f"a survivor stands at least once in the pool, got {self.copies}.", "copies")
        if self.into is None:
            if self.copies != 1:
                raise ConfigError("only `into` makes copies.", "copies")
        elif self.into < self.copies:
            raise ConfigError(
                f"into={self.into} leaves no room for {self.copies} copies: n must be at least the width.",
                "into",
            )
        elif self.into % self.copies:
            low = self.into - self.into % self.copies
            raise ConfigError(
                f"{self.copies} copies do not divide into={self.into}; use {low} or {low + self.copies}.",
                "into",
            )

    @property
    def needs(self) -> frozenset[str]:
        """Scores, where they decide."""
        return frozenset({"scores"}) if self.by == "score" else frozenset()

    def __call__(self, state: State) -> Steps:
        """Prune, and tell the trace who was kept and who was not."""
        if self.into is None:
            eligible = [c for c in state.pool if not self.answered or (c.finished and c.answer)]
            kept = self._best(eligible, self.keep or 0)
            pool = tuple(kept)
        else:
            active = [c for c in state.pool if c.active]
            if not active:
                return state
            kept = self._best(active, self.into // self.copies)
            ended = tuple(c for c in state.pool if not c.active)
            pool = ended + tuple(c for c in kept for _ in range(self.copies))
        stays = {c.path for c in pool}
        yield Note(
            "select",
            {
                "by": self.by,
                "kept": [c.path for c in kept],
                "dropped": [c.path for c in state.pool if c.path not in stays],
            },
        )
        return state.with_(pool=pool)

    def _best(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """Return the best ``count``, best first; a missing score is worse than any."""
        most = (self.prefer or ("most" if self.by == "score" else "least")) == "most"

        def rank(candidate: Candidate) -> tuple[bool, float, Path]:
            value = candidate.score if self.by == "score" else float(len(candidate.tokens))
            return (value is None, 0.0 if value is None else -value if most else value, candidate.path)

        return sorted(candidates, key=rank)[:count]
