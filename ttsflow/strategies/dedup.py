"""The stage that keeps one of several candidates that say the same."""

from __future__ import annotations

from dataclasses import dataclass

from ttsflow.ops import Note
from ttsflow.strategies.flow import Steps
from ttsflow.types import Candidate, State

__all__ = ["Dedup"]


@dataclass(frozen=True, slots=True)
class Dedup:
    """Drops active candidates whose text another one has, white space at the ends aside.

    The first in sample order stays, so the pool is never emptied. Candidates that have ended are left
    alone: they vote, and equal votes are votes. Copies of one candidate are no duplicates.
    """

    def __call__(self, state: State) -> Steps:
        """Drop, and tell the trace who was dropped."""
        first: dict[str, Candidate] = {}
        for candidate in sorted(state.pool, key=lambda candidate: candidate.path):
            if candidate.active:
                first.setdefault(candidate.text.strip(), candidate)
        stays = {candidate.path for candidate in first.values()}
        dropped = {c.path: c for c in state.pool if c.active and c.path not in stays}
        if not dropped:
            return state
        yield Note("select", {"by": "text", "kept": sorted(stays), "dropped": sorted(dropped)})
        return state.with_(pool=tuple(c for c in state.pool if c.path not in dropped))
