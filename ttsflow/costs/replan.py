"""Says when what a plan assumed is no longer so, and what the plan is then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ttsflow.costs.plan import Plan, Share, Sharing
from ttsflow.costs.planner import plan
from ttsflow.errors import ConfigError

__all__ = ["Limits", "Replanner"]


@dataclass(frozen=True, slots=True)
class Limits:
    """When a plan's assumptions count as left.

    A measured number has left its assumption when one is more than ``away`` times the other, and is back
    within ``near`` times. After ``rounds`` that are away, with none in between in which all are back, there
    is a new plan; one that changes no cache by more than ``least`` of its size is not worth moving for.
    """

    away: float = 1.5
    near: float = 1.2
    rounds: int = 3
    least: float = 0.05

    def __post_init__(self) -> None:
        if not 1 < self.near <= self.away:
            raise ConfigError(f"must lie above 1 and up to `away`, got {self.near}.", "near")
        if self.rounds < 1:
            raise ConfigError(f"must be at least 1, got {self.rounds}.", "rounds")


class Replanner:
    """Is told what a round had, and answers with a new plan when the one in force rests on something else.

    Step lengths are averaged over rounds, the latest counting most. The number of candidates counts at once
    where it rises and slowly where it falls: the last rounds of a problem are small ones, and the next
    problem begins large again. Does nothing by itself: whoever asks carries the plan out, or only reports it.
    """

    def __init__(self, sharing: Sharing, limits: Limits | None = None) -> None:
        self.sharing = sharing
        self.plan = plan(sharing)
        self.replanned = 0
        self._first = sharing.load
        self._limits = limits or Limits()
        self._step = float(sharing.load.step)
        self._queue = float(sharing.load.n)
        self._away = 0

    def observe(self, steps: Sequence[int], queue: int) -> Plan | None:
        """Take in a round: the tokens of each step, and how many candidates waited at once.

        Return the new plan when there is one, else None. Raises nothing: what does not fit is no plan.
        """
        if not steps:
            return None
        self._step += (sum(steps) / len(steps) - self._step) / 4
        self._queue = max(float(queue), self._queue * 0.95)
        load = self.sharing.load
        off = max(_ratio(self._step, load.step), _ratio(self._queue, load.n))
        if off > self._limits.away:
            self._away += 1
        elif off <= self._limits.near:
            self._away = 0
        return self._again() if self._away >= self._limits.rounds else None

    @property
    def assumed(self) -> tuple[float, float]:
        """Tokens of a step and candidates at once that the plan in force rests on."""
        return self.sharing.load.step, float(self.sharing.load.n)

    @property
    def measured(self) -> tuple[float, float]:
        """The same as they were seen."""
        return self._step, self._queue

    def counters(self) -> dict[str, float]:
        """Return what the first plan rested on, what was seen, and the caches of the plan in force."""
        first, plan = self._first, self.plan
        told = {
            "planned_step": round(first.step, 1),
            "seen_step": round(self._step, 1),
            "planned_candidates": first.n,
            "seen_candidates": round(self._queue),
            "replanned": self.replanned,
            "replanned_kv_gib": round(plan.generator.kv_gib, 3),
        }
        if plan.verifier is not None:
            told["replanned_verifier_kv_gib"] = round(plan.verifier.kv_gib, 3)
        return told

    def _again(self) -> Plan | None:
        load = self.sharing.load
        # A path is made of such steps, and the longest is one of them.
        longer = self._step / load.step
        load = replace(
            load,
            n=max(1, round(self._queue)),
            path=load.path * longer,
            step=max(1.0, self._step),
            tail=load.tail * longer,
        )
        sharing = replace(self.sharing, load=load)
        self._away = 0
        try:
            found = plan(sharing)
        except ConfigError:
            # With such steps nothing fits, so that what there is stays the best there is.
            return None
        self.sharing = sharing
        if not self._differs(found):
            return None
        self.plan = found
        self.replanned += 1
        return found

    def _differs(self, found: Plan) -> bool:
        ours = (self.plan.generator, self.plan.verifier)
        theirs = (found.generator, found.verifier)
        return self.plan.offload != found.offload or any(
            old is not None and new is not None and self._moved(old, new)
            for old, new in zip(ours, theirs, strict=True)
        )

    def _moved(self, old: Share, new: Share) -> bool:
        least = 1 + self._limits.least
        return _ratio(old.blocks, new.blocks) > least or _ratio(old.seats, new.seats) > least


def _ratio(one: float, other: float) -> float:
    return max(one / other, other / one) if one > 0 and other > 0 else float("inf")
