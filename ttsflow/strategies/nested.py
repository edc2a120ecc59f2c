"""What a strategy would have made of samples that another one drew: how many, and playing it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

from ttsflow.ops import Generate, Generated, Note, Op, Request
from ttsflow.parts import walk
from ttsflow.protocols import Stage
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.confidence import Confidence
from ttsflow.strategies.flow import Repeat, run_stage
from ttsflow.strategies.flow import Sequence as Stages
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.ladder import Ladder
from ttsflow.strategies.select import Select
from ttsflow.strategies.verify import Verify
from ttsflow.types import Candidate, State, Usage

__all__ = ["Extent", "extent", "plain", "replayed", "width"]

#: Stages that draw nothing.
_DRAW_NOTHING = (Aggregate, Select, Verify, Confidence)


class Extent(NamedTuple):
    """Whole samples of a problem: as many as a strategy draws at least, and at most; None: nobody knows.

    Only samples that end by themselves count, and those of the engine of the run.
    """

    fewest: int = 0
    most: int | None = 0


_NONE = Extent()


def extent(stage: Stage, so_far: Extent = _NONE) -> Extent:
    """Return how many samples there are after a stage that met ``so_far``, whatever they are."""
    if isinstance(stage, Stages):
        return _after(stage.stages.values(), so_far)
    if isinstance(stage, Repeat):
        once = found = _after(stage.stages.values(), so_far)
        for _ in range(stage.at_most - 1):
            found = _after(stage.stages.values(), found)
        return Extent(once.fewest, found.most)
    if (
        isinstance(stage, GenerateStage)
        and stage.unit == "whole"
        and not (stage.watch or stage.unless or stage.engine)
    ):
        most = so_far.most
        return Extent(_drawn(stage, so_far.fewest), None if most is None else _drawn(stage, most))
    if isinstance(stage, Ladder) and stage.controller is None:
        most = so_far.most
        first = min(stage.rungs[0], stage.n)
        return Extent(max(so_far.fewest, first), None if most is None else max(most, stage.n))
    if isinstance(stage, _DRAW_NOTHING):
        return so_far
    return Extent(so_far.fewest, None)


def _after(stages: Iterable[Stage], so_far: Extent) -> Extent:
    for stage in stages:
        so_far = extent(stage, so_far)
    return so_far


def _drawn(stage: GenerateStage, count: int) -> int:
    return count + stage.n if stage.total is None else max(count, min(count + stage.n, stage.total))


def width(strategy: Any) -> int:
    """Return how many samples a strategy may draw at once or in all, as far as its parts say; 1 at least."""
    counts = [getattr(part, "demand", None) or getattr(part, "into", None) for _, part in walk(strategy)]
    return max([count for count in counts if isinstance(count, int)], default=1) or 1


def plain(op: Op) -> TypeGuard[Generate]:
    """Return whether an operation asks for whole new samples and lets all of them end by themselves."""
    return isinstance(op, Generate) and op.watch is None and all(ask == Request() for ask in op.requests)


def replayed(strategy: Stage, state: State, samples: Sequence[Candidate]) -> tuple[State, int] | None:
    """Return what a strategy would have made of these ``samples``, and how many it would have drawn.

    They are dealt in order. None where it would have asked for more of them, or for anything else.
    """
    steps, dealt = run_stage(strategy, state), 0
    reply: Generated | None = None
    try:
        while True:
            op = steps.send(reply)
            reply = None
            if isinstance(op, Note):
                continue
            if not plain(op) or dealt + len(op.requests) > len(samples):
                steps.close()
                return None
            asked = len(op.requests)
            reply = Generated(tuple(samples[dealt : dealt + asked]), Usage())
            dealt += asked
    except StopIteration as end:
        return end.value, dealt
