"""Conditions that say when more samples would not change a vote."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.strategies.aggregate import voters
from ttsflow.types import State

__all__ = ["Consistent", "WindowAgreed", "chance_of_lead"]


def chance_of_lead(first: int, second: int) -> Fraction:
    """Return the chance that an answer with ``first`` votes is likelier than one with ``second``.

    The share of the first among the two has a Beta(first + 1, second + 1) distribution under a uniform
    prior; the chance that it is above one half is 2^-(n+1) sum_{i <= first} C(n + 1, i) with n = first +
    second (Adaptive-Consistency, arXiv 2305.11860, section 3). Exact: integers alone, no quadrature.
    """
    draws = first + second + 1
    term = total = 1
    for i in range(first):
        term = term * (draws - i) // (i + 1)
        total += term
    return Fraction(total, 1 << draws)


@dataclass(frozen=True, slots=True)
class Consistent:
    """The votes so far settle who leads (Adaptive-Consistency, arXiv 2305.11860).

    ``rule`` beta: the leading answer is likelier than the second one with at least the chance
    ``threshold``, which is compared exactly. entropy: 1 - H / ln(votes) is at least ``threshold``, H the
    entropy of the votes in nats. majority: the leading answer has at least the share ``threshold`` of
    the votes. The condition needs ``at_least`` votes; a tie for the lead settles nothing.
    """

    rule: Literal["beta", "entropy", "majority"] = "beta"
    threshold: float = 0.95
    at_least: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1 and not (self.threshold == 1 and self.rule != "beta"):
            raise ConfigError(f"must lie between 0 and 1, got {self.threshold}.", "threshold")
        if self.at_least < 1:
            raise ConfigError(f"at least one vote is needed, got {self.at_least}.", "at_least")

    def __call__(self, state: State) -> str | None:
        """Return how settled the vote is."""
        votes = Counter(candidate.answer.key for candidate in voters(state.pool) if candidate.answer)
        total = votes.total()
        if total < self.at_least or not total:
            return None
        first, second = [*(count for _, count in votes.most_common(2)), 0][:2]
        if first == second:
            return None
        value = self._value(first, second, votes)
        # The decimal that was written, not the binary number next to it.
        if value < Fraction(str(self.threshold)):
            return None
        return f"{self.rule}: {first} against {second} of {total} votes"

    def _value(self, first: int, second: int, votes: Counter[str]) -> Fraction:
        total = votes.total()
        if self.rule == "beta":
            return chance_of_lead(first, second)
        if self.rule == "majority":
            return Fraction(first, total)
        entropy = -math.fsum(count / total * math.log(count / total) for count in votes.values())
        return Fraction(1 - entropy / math.log(total)) if total > 1 else Fraction(0)


@dataclass(frozen=True, slots=True)
class WindowAgreed:
    """The last ``size`` samples all gave one answer, in whole windows (ESC, arXiv 2401.10480).

    Windows stand side by side from the first sample on: the condition is asked when the pool holds a
    multiple of ``size`` candidates. A sample without an answer agrees with none.
    """

    size: int = 5

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"a window has at least one sample, got {self.size}.", "size")

    def __call__(self, state: State) -> str | None:
        """Return who agrees."""
        pool = sorted(state.pool, key=lambda candidate: candidate.path)
        if not pool or len(pool) % self.size:
            return None
        window = pool[-self.size :]
        if len(voters(window)) < self.size or len({c.answer.key for c in window if c.answer}) > 1:
            return None
        return f"a window of {self.size} samples agreed"
