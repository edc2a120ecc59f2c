"""The stage that prunes the pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.lineage import Path
from ttsflow.ops import Note
from ttsflow.strategies.aggregate import length_of
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.idle import refuse_idle
from ttsflow.types import Candidate, State

__all__ = ["Select"]


@dataclass(frozen=True, slots=True)
class Select:
    """Keeps the best candidates.

    ``keep`` keeps that many of the whole pool. ``into`` with ``copies`` is the choice of a search:
    only active candidates compete, the best ``into / copies`` survive and each stands ``copies``
    times in the new pool (so that the next step gives it as many children); candidates that have
    ended stay aside and remain. ``share`` keeps that part of the pool, rounded up.

    ``by`` score prefers high scores, ``by`` tokens short trajectories, ``by`` order the first samples,
    ``by`` thinking those whose thinking a watch saw end early (without that, all tokens of a finished one
    with an answer count; nothing else is eligible). ``prefer`` turns that round. Equal ones are taken in
    sample order, or with ``ties: all`` all that equal the last one kept stay. With ``answered`` only
    finished candidates with an answer are eligible, and of those only the ones with at least
    ``least_tokens`` tokens, if there are any.
    """

    by: Literal["score", "tokens", "order", "thinking"] = "score"
    keep: int | None = None
    share: float | None = None
    into: int | None = None
    copies: int = 1
    prefer: Literal["most", "least"] | None = None
    answered: bool = False
    least_tokens: int = 0
    ties: Literal["order", "all"] = "order"

    def __post_init__(self) -> None:
        if sum(setting is not None for setting in (self.keep, self.share, self.into)) != 1:
            raise ConfigError("set exactly one of `keep`, `share` and `into`.", "keep")
        if self.keep is not None and self.keep < 1:
            raise ConfigError(f"at least one candidate must be kept, got {self.keep}.", "keep")
        if self.share is not None and not 0 < self.share <= 1:
            raise ConfigError(f"a share lies above 0 and up to 1, got {self.share}.", "share")
        self._check_eligible()
        self._check_width()

    def _check_eligible(self) -> None:
        refuse_idle(self, self.into is None, "answered", "`keep` or `share`")
        if self.least_tokens < 0:
            raise ConfigError(f"a length cannot be negative, got {self.least_tokens}.", "least_tokens")
        if self.least_tokens and not self.answered:
            raise ConfigError("only `answered: true` looks at it.", "least_tokens")
        if self.ties == "all" and self.into is not None:
            raise ConfigError("a search keeps its width; only `keep` and `share` may keep more.", "ties")

    def _check_width(self) -> None:
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
        """Scores, where they decide, and steps, where only what can go on is chosen from."""
        scores = {"scores"} if self.by == "score" else set()
        return frozenset(scores if self.into is None else {*scores, "steps"})

    @property
    def survivors(self) -> tuple[int, int] | None:
        """How many of the active survive and how many children each gets, when only scores decide."""
        if self.into is None or self.by != "score" or self.prefer == "least":
            return None
        return self.into // self.copies, self.copies

    def __call__(self, state: State) -> Steps:
        """Prune, and tell the trace who was kept and who was not."""
        if self.into is None:
            eligible = self._eligible(state.pool)
            if not eligible:
                return state
            kept = self._best(eligible, self.keep or self._part(len(eligible)))
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
                "answered": self.answered,
                "kept": [c.path for c in kept],
                "dropped": [c.path for c in state.pool if c.path not in stays],
            },
        )
        return state.with_(pool=pool)

    def _part(self, size: int) -> int:
        # The decimal that was written: 0.07 * 100 is a little more than 7.
        return math.ceil(Fraction(str(self.share or 0)) * size)

    def _eligible(self, pool: Sequence[Candidate]) -> list[Candidate]:
        if self.by == "thinking":
            pool = [c for c in pool if length_of(c) is not None]
        if not self.answered:
            return list(pool)
        answered = [c for c in pool if c.finished and c.answer]
        return [c for c in answered if len(c.tokens) >= self.least_tokens] or answered

    def _best(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """Return the best ``count``, best first; a missing score is worse than any."""
        most = (self.prefer or ("most" if self.by == "score" else "least")) == "most"
        places = {path: place for place, path in enumerate(sorted(c.path for c in candidates))}

        def value(candidate: Candidate) -> tuple[bool, float]:
            number: float | None = places[candidate.path]
            if self.by == "score":
                number = candidate.score
            elif self.by != "order":
                number = len(candidate.tokens) if self.by == "tokens" else length_of(candidate)
            return (number is None, 0.0 if number is None else -number if most else number)

        def rank(candidate: Candidate) -> tuple[tuple[bool, float], Path]:
            return value(candidate), candidate.path

        ranked = sorted(candidates, key=rank)
        kept = ranked[:count]
        if self.ties == "all" and kept:
            kept += [c for c in ranked[count:] if value(c) == value(kept[-1])]
        return kept
