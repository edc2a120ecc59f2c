"""Stages that hold other stages: sequence, repeat, when, each."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from types import GeneratorType
from typing import Any, Literal

from ttsflow.errors import ConfigError
from ttsflow.ops import Fork, Op
from ttsflow.protocols import Reply, Stage, Until
from ttsflow.strategies.outlook import Foresight, foresee, foreseen, opening, prunes_first, scores_next
from ttsflow.types import Candidate, State

__all__ = ["Each", "Repeat", "Sequence", "Steps", "When", "holds", "run_stage"]

#: What a stage's generator looks like.
Steps = Generator[Op, Reply, State]


def run_stage(stage: Stage, state: State) -> Steps:
    """Run any stage as a generator, also one that needs nothing and returns its state at once."""
    result = stage(state)
    if isinstance(result, GeneratorType):
        result = yield from result
    if not isinstance(result, State):
        msg = (
            f"{type(stage).__name__} returned {type(result).__name__}; a stage returns a State. "
            "One that holds another runs it with `state = yield from run_stage(stage, state)`."
        )
        raise TypeError(msg)
    return result


def holds(condition: Until, state: State) -> str | None:
    """Return the reason of a condition, None when it does not hold. Raises ``TypeError`` for rubbish."""
    reason: Any = condition(state)
    if reason is not None and not isinstance(reason, str):
        msg = f"{type(condition).__name__} returned {reason!r}; a condition returns a reason, or None."
        raise TypeError(msg)
    return reason


@dataclass(frozen=True, slots=True)
class Sequence:
    """Runs its stages one after another, in the order of the mapping."""

    stages: Mapping[str, Stage]

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("a sequence needs at least one stage.", "stages")

    def __call__(self, state: State) -> Steps:
        """Pass the state through every stage."""
        stages = tuple(self.stages.values())
        for place, stage in enumerate(stages):
            steps = run_stage(stage, state)
            # Only what this stage asks for itself is followed by those behind it.
            if hasattr(stage, "request"):
                after = stages[place + 1 :]
                # Candidates that were there before would be counted among those that go on.
                outlook = None if state.pool else opening(after)
                steps = foreseen(steps, outlook=outlook, scored=bool(scores_next(after)))
            state = yield from steps
        return state

    def opening(self) -> Foresight | None:
        """Return what first candidates that it is given can expect."""
        return opening(self.stages.values())


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repeats its stages until a condition holds, at most ``at_most`` rounds.

    It also ends when a stage stops the problem, and when a round changed nothing, since then no later
    round would. In the last round a stage that generates steps completes its candidates instead, so
    that none is left open at the depth limit; with ``complete`` false it makes a step like any other,
    for a loop that another one follows.
    """

    stages: Mapping[str, Stage]
    at_most: int
    until: Until | None = None
    complete: bool = True

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("a loop needs at least one stage.", "stages")
        if self.at_most < 1:
            raise ConfigError(f"at least one round is needed, got {self.at_most}.", "at_most")

    def __call__(self, state: State) -> Steps:
        """Run rounds; ``stopped`` or ``ended`` keeps why the loop ended early, if it did."""
        outer, stages = state, tuple(self.stages.values())
        state = state.with_(stopped=None)
        for number in range(self.at_most):
            before = state.pool
            state = state.with_(round=number, last=self._last(number))
            left = self.at_most - number - 1
            outlook = foresee(self.stages, left=left, completes=self.complete)
            for place, stage in enumerate(stages):
                steps = run_stage(stage, state)
                if hasattr(stage, "request"):
                    after = stages[place + 1 :] + (stages[:place] if left else ())
                    steps = foreseen(steps, outlook=outlook, scored=bool(scores_next(after)))
                state = yield from steps
                if state.stopped:
                    break
            if state.stopped:
                break
            reason = holds(self.until, state) if self.until else None
            if reason is not None:
                # The loop is over, and what it stands in goes on.
                state = state.with_(ended=reason or state.ended)
                break
            if state.pool == before:
                break
        return state.with_(round=outer.round, last=outer.last, stopped=state.stopped or outer.stopped)

    def opening(self) -> Foresight | None:
        """Return what first candidates that it is given can expect, None unless it prunes them first."""
        if not prunes_first(self.stages.values()):
            return None
        return foresee(self.stages, left=self.at_most, completes=self.complete)

    def _last(self, number: int) -> bool:
        return self.complete and number == self.at_most - 1


@dataclass(frozen=True, slots=True)
class When:
    """Runs ``then`` when the condition ``if`` holds, else ``else`` (or nothing)."""

    if_: Until
    then: Stage
    else_: Stage | None = None

    def __call__(self, state: State) -> Steps:
        """Choose a branch once and run it."""
        branch = self.then if holds(self.if_, state) is not None else self.else_
        if branch is not None:
            state = yield from run_stage(branch, state)
        return state


@dataclass(frozen=True, slots=True)
class Each:
    """Splits the pool and runs its stages on every part side by side.

    ``by`` candidate gives each candidate its own branch, ``by`` subtree keeps together those that
    descend from one first sample, and with ``size`` above 1 those of so many first samples in a row.
    Branches do not wait for each other; their pools are joined in order. A reason to stop within a
    branch ends that branch alone.
    """

    stages: Mapping[str, Stage]
    by: Literal["candidate", "subtree"] = "subtree"
    size: int = 1

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("each needs at least one stage.", "stages")
        if self.size < 1:
            raise ConfigError(f"a part has at least one first sample, got {self.size}.", "size")
        if self.size > 1 and self.by == "candidate":
            raise ConfigError("only `by: subtree` puts several first samples together.", "size")

    def opening(self) -> Foresight | None:
        """Return what first candidates that it is given can expect: those of one part go on together."""
        inside = opening(self.stages.values())
        # Parts of parts have no outlook.
        return None if inside is None or inside.size else replace(inside, size=self.size)

    def __call__(self, state: State) -> Steps:
        """Fork, wait for all branches, and join their pools."""
        parts: dict[int, list[Candidate]] = {}
        roots = {root: place for place, root in enumerate(sorted({c.path[:1] for c in state.pool}))}
        for place, candidate in enumerate(state.pool):
            key = place if self.by == "candidate" else roots[candidate.path[:1]] // self.size
            parts.setdefault(key, []).append(candidate)
        if not parts:
            return state
        body = Sequence(self.stages)
        branches = tuple((body, state.with_(pool=tuple(part), answer=None)) for part in parts.values())
        ends: tuple[State, ...] = yield Fork(branches)
        early = [end.early for end in ends if end.early]
        stopped = [end.stopped for end in ends if end.stopped]
        whole = len(parts)
        return state.with_(
            pool=tuple(candidate for end in ends for candidate in end.pool),
            spent=max((end.spent for end in ends), key=lambda usage: usage.decoded),
            stopped=state.stopped or (stopped[0] if len(stopped) == whole else None),
            ended=state.ended or (early[0] if len(early) == whole else None),
        )
