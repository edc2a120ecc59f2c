"""What the plainest strategies would have come to for the same tokens."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ttsflow.analysis.clock import virtual_clock
from ttsflow.analysis.measures import COSTS, Measures, front
from ttsflow.analysis.runs import Run
from ttsflow.analysis.settings import same_setting
from ttsflow.metrics import resampled

__all__ = ["PLAIN", "Against", "Point", "Rung", "curves", "frontier", "gains"]

#: Strategies that decide nothing on the way: one sample, or a vote over n of them.
PLAIN = ("single", "majority")
#: Shares that belong to 95 % of the draws.
_ENDS = (0.025, 0.975)


@dataclass(frozen=True, slots=True)
class Point:
    """One run with its name and its numbers."""

    run: Run
    name: str
    measures: Measures

    @property
    def plain(self) -> bool:
        """Whether it is one of those that others are compared with."""
        return self.run.strategy in PLAIN

    @property
    def virtual(self) -> bool:
        """Whether its seconds are those of a virtual clock."""
        return virtual_clock(self.run)


@dataclass(frozen=True, slots=True)
class Rung:
    """One plain strategy at one n: by question how often it was right and its tokens, means over seeds.

    ``names`` are those of its runs.
    """

    names: tuple[str, ...]
    correct: Mapping[str, float]
    decoded: Mapping[str, float]
    costs: Mapping[str, float | None]
    accuracy: float


class Against(NamedTuple):
    """A run against the plain strategies at its own decoded tokens, on the questions they share.

    ``accuracy`` is theirs, ``gain`` what the run has above it, with the ends of the paired 95 % interval;
    ``share`` is their tokens divided by the run's: 1 but where their most expensive run took fewer.
    """

    accuracy: float
    gain: float
    low: float
    high: float
    share: float


def curves(points: Sequence[Point]) -> dict[str, list[Rung]]:
    """Return the plain runs of every setting, in order of their tokens; see ``same_setting``."""
    alike: dict[str, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        if point.plain:
            config = point.run.config
            chosen = f"{point.run.strategy} {config.get('strategy')} {config.get('variables')}"
            alike[same_setting(point.run)][chosen].append(point)
    return {
        setting: sorted(map(_rung, groups.values()), key=lambda rung: rung.costs["decoded"] or 0.0)
        for setting, groups in alike.items()
    }


def _rung(points: Sequence[Point]) -> Rung:
    correct: dict[str, list[float]] = defaultdict(list)
    decoded: dict[str, list[float]] = defaultdict(list)
    for point in points:
        for row in point.run.rows.values():
            if row.correct is not None:
                correct[row.id].append(float(row.correct))
                decoded[row.id].append(float(row.decoded))
    known = {cost: [getattr(point.measures, cost) for point in points] for cost in COSTS}
    right = {name: _mean(values) for name, values in correct.items()}
    return Rung(
        names=tuple(point.name for point in points),
        correct=right,
        decoded={name: _mean(values) for name, values in decoded.items()},
        costs={cost: None if None in values else _mean(values) for cost, values in known.items()},
        accuracy=_mean([*right.values()]),
    )


def gains(points: Sequence[Point], rungs: Mapping[str, Sequence[Rung]]) -> dict[str, Against]:
    """Return by name what every run that is not plain has above the plain ones at its own tokens.

    Of the plain ones those on their ``frontier`` count, over the shared questions. Between two of them some
    questions go to the cheaper one, the rest to the dearer one, so that the tokens are equal, which anyone
    could do. Above the dearest it is that one.
    A run cheaper than the cheapest has none, and one without a plain run of its setting.
    """
    waiting: dict[tuple[str, ...], list[tuple[str, list[float], float, float]]] = defaultdict(list)
    for point in points:
        ladder = rungs.get(same_setting(point.run)) if not point.plain else None
        rows = point.run.rows
        shared = tuple(
            name
            for name, row in sorted(rows.items())
            if row.correct is not None and ladder and all(name in rung.correct for rung in ladder)
        )
        if not ladder or 2 * len(shared) < len(rows):
            continue
        mixed = _mixed(ladder, shared, _mean([float(rows[name].decoded) for name in shared]))
        if mixed is not None:
            right, share = mixed
            gain = [
                float(bool(rows[name].correct)) - plain for name, plain in zip(shared, right, strict=True)
            ]
            waiting[shared].append((point.name, gain, _mean(right), share))
    found: dict[str, Against] = {}
    for entries in waiting.values():
        means = resampled(np.array([gain for _, gain, _, _ in entries]).T)
        for column, (name, gain, accuracy, share) in enumerate(entries):
            low, high = np.quantile(means[:, column], _ENDS)
            found[name] = Against(accuracy, _mean(gain), float(low), float(high), share)
    return found


def frontier(steps: Iterable[tuple[float, float, Rung]]) -> list[tuple[float, float, Rung]]:
    """Return the (cost, accuracy, rung) that are the best of plain sampling at their cost, cheapest first.

    One that another matches or beats for as much or less is no baseline: a single sample of a pool of n
    costs what the vote over all n costs.
    """
    known = list(steps)
    kept: list[tuple[float, float, Rung]] = []
    for place in front((cost, accuracy) for cost, accuracy, _ in known):
        if not kept or known[place][1] > kept[-1][1]:
            kept.append(known[place])
    return kept


def _mixed(ladder: Sequence[Rung], shared: Sequence[str], decoded: float) -> tuple[list[float], float] | None:
    """Return how often each question is right for so many tokens, and the share of the tokens it takes."""
    steps = frontier(
        (_mean([rung.decoded[name] for name in shared]), _mean([rung.correct[name] for name in shared]), rung)
        for rung in ladder
    )
    cost, _, cheapest = steps[0]
    if decoded < cost * (1 - 1e-6):
        return None
    low, high, weight = cheapest, cheapest, 0.0
    for (before, _, one), (after, _, other) in pairwise(steps):
        if before <= decoded:
            low, high = one, other
            weight = min(1.0, (decoded - before) / (after - before)) if after > before else 1.0
    if len(steps) > 1 and weight == 1.0:
        low = high
    right = [(1 - weight) * low.correct[name] + weight * high.correct[name] for name in shared]
    last = steps[-1][0]
    return right, min(1.0, last / decoded) if decoded else 1.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
