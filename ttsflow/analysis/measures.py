"""What a run comes to in numbers, worked out from its results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ttsflow.analysis.runs import Row, Run
from ttsflow.metrics import wilson

__all__ = ["COSTS", "MOST_TRUNCATED", "Measures", "front", "measure"]

#: What an answer costs: attributes of a ``Row`` and of ``Measures``, and their names.
COSTS = {
    "decoded": "decoded tokens",
    "serial": "serial tokens",
    "seconds": "seconds",
    "joules": "joules",
}
#: A share of cut candidates above this is worth a warning: the limit is part of what was measured.
MOST_TRUNCATED = 0.05
#: Costs that differ by less than this share are the same: sums of the same tokens in another order.
_SAME_COST = 1e-6


@dataclass(frozen=True, slots=True)
class Measures:
    """One run in numbers; None where there is nothing to take the mean of.

    ``accuracy`` is over the ``graded`` problems, where one without an answer counts as wrong, ``interval``
    its 95 % Wilson interval; ``accuracy_answered`` is over those of them that have an answer. ``decoded``,
    ``serial``, ``seconds`` and ``joules`` are means over problems, ``p50`` and ``p95`` quantiles of the
    seconds. ``truncation`` is the share of the candidates in the final pools that a limit cut.
    """

    problems: int
    graded: int
    correct: int
    accuracy: float | None
    interval: tuple[float, float] | None
    coverage: float | None
    accuracy_answered: float | None
    truncation: float
    decoded: float | None
    serial: float | None
    seconds: float | None
    p50: float | None
    p95: float | None
    joules: float | None
    joules_per_correct: float | None


def measure(run: Run) -> Measures:
    """Return what the results of a run come to."""
    rows = list(run.rows.values())
    graded = [row for row in rows if row.correct is not None]
    correct = sum(bool(row.correct) for row in graded)
    answered = [row for row in graded if row.outcome == "answered"]
    candidates = sum(row.candidates for row in rows)
    joules = _joules(rows)
    seconds = sorted(row.seconds for row in rows)
    return Measures(
        problems=len(rows),
        graded=len(graded),
        correct=correct,
        accuracy=correct / len(graded) if graded else None,
        interval=wilson(correct, len(graded)) if graded else None,
        coverage=sum(row.outcome == "answered" for row in rows) / len(rows) if rows else None,
        accuracy_answered=sum(bool(row.correct) for row in answered) / len(answered) if answered else None,
        truncation=sum(row.truncated for row in rows) / candidates if candidates else 0.0,
        decoded=_mean([row.decoded for row in rows]),
        serial=_mean([row.serial for row in rows]),
        seconds=_mean(seconds),
        p50=_quantile(seconds, 0.5),
        p95=_quantile(seconds, 0.95),
        joules=_mean(joules),
        joules_per_correct=math.fsum(joules) / correct if joules and correct else None,
    )


def front(points: Iterable[tuple[float, float]]) -> list[int]:
    """Return which of the (cost, gain) points are not beaten: none costs at most as much and gains more.

    Costs that differ by less than a millionth are the same. The points are in order of cost; of those that
    are equal in both all are there.
    """
    kept: list[tuple[int, float, float]] = []
    for number, (cost, gain) in sorted(enumerate(points), key=lambda one: (one[1][0], -one[1][1])):
        if kept and gain == kept[-1][2] and not _dearer(cost, kept[-1][1]):
            kept.append((number, cost, gain))
        elif not kept or gain > kept[-1][2]:
            kept = [one for one in kept if _dearer(cost, one[1])]
            kept.append((number, cost, gain))
    return [number for number, _, _ in kept]


def _dearer(cost: float, other: float) -> bool:
    return cost > other and not math.isclose(cost, other, rel_tol=_SAME_COST)


def _joules(rows: Sequence[Row]) -> list[float]:
    """Return the joules of all problems; none where they are not known of every one."""
    known = [row.joules for row in rows if row.joules is not None]
    return known if len(known) == len(rows) else []


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return a quantile of sorted values, between neighbours in proportion."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
