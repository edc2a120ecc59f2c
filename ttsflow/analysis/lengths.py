"""How accuracy goes with length: four cells, thresholds, and what in the recording spoils the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ttsflow.analysis.advice import Advice, advise
from ttsflow.analysis.graded import Question
from ttsflow.analysis.horizon import Estimate, Verdict, verdict
from ttsflow.metrics import wilson

__all__ = ["Cell", "Oddity", "Profile", "profile"]

_APART = 0.71
"""The share of comparisons from which two groups lie far apart (Vargha and Delaney 2000: a large effect)."""
_LACKING = 0.25
"""How much more often one place may lack an answer than the others."""
_ENOUGH = 30
"""Questions from which chance does not reach these two bounds."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Samples of one kind of questions and lengths, with the Wilson interval of their accuracy."""

    questions: str
    traces: str
    right: int
    samples: int
    accuracy: float | None
    ci95: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Oddity:
    """Places in the order of samples that were recorded unlike the others, and the type without them."""

    places: tuple[int, ...]
    signs: tuple[str, ...]
    without: Verdict | None


@dataclass(frozen=True, slots=True)
class Profile:
    """One model: its type, what it rests on, and the strategies that suit it.

    ``missing`` and ``cut`` are shares of the samples: without an answer, and cut by a limit. A question is
    hard when its accuracy is below ``difficulty``, the mean accuracy of all. In ``cells`` a
    trace is short below the median length of its question's samples and long above it. In ``fixed`` it
    is short up to ``tokens["mean"]``, as in arXiv 2512.02008, in questions that have both. ``tokens``
    has that mean and the median over easy and hard questions of the length that separates their own
    short and long traces. ``easy`` and ``hard`` are ``verdict.shorter`` on these questions alone.
    """

    model: str
    datasets: tuple[str, ...]
    questions: int
    left_out: int
    samples: int
    accuracy: float
    missing: float
    cut: float
    ended: int
    difficulty: float
    tokens: Mapping[str, float | None]
    cells: tuple[Cell, ...]
    fixed: tuple[Cell, ...]
    verdict: Verdict
    easy: Estimate | None
    hard: Estimate | None
    oddity: Oddity | None
    advice: tuple[Advice, ...]


def profile(
    questions: Sequence[Question], *, model: str = "", left_out: int = 0, ended: int = 0, n: int = 8
) -> Profile:
    """Return the profile of a model from its graded questions, at least one.

    ``left_out`` questions were not graded, ``ended`` samples were stopped by the strategy that recorded
    them; ``n`` are the samples per question that a high budget pays for.
    """
    found = verdict(questions)
    samples = sum(len(one.tokens) for one in questions)
    difficulty = float(np.mean([one.accuracy for one in questions]))
    groups = {
        "easy": [one for one in questions if one.accuracy >= difficulty],
        "hard": [one for one in questions if one.accuracy < difficulty],
    }
    mean = float(np.concatenate([one.tokens for one in questions]).mean())
    tokens: dict[str, float | None] = {"mean": mean}
    for name, group in groups.items():
        tokens[name] = float(np.median([np.median(one.tokens) for one in group])) if group else None
    alone = {name: verdict(group).shorter if group else None for name, group in groups.items()}
    return Profile(
        model=model,
        datasets=tuple(sorted({one.dataset for one in questions if one.dataset})),
        questions=len(questions),
        left_out=left_out,
        samples=samples,
        accuracy=sum(int(one.right.sum()) for one in questions) / samples,
        missing=sum(int((~one.answered).sum()) for one in questions) / samples,
        cut=sum(int(one.cut.sum()) for one in questions) / samples,
        ended=ended,
        difficulty=difficulty,
        tokens=tokens,
        cells=tuple(cell for name, group in groups.items() for cell in _cells(name, group, None)),
        fixed=tuple(cell for name, group in groups.items() for cell in _cells(name, group, mean)),
        verdict=found,
        easy=alone["easy"],
        hard=alone["hard"],
        oddity=_oddity(questions),
        advice=tuple(advise(found.kind, n)),
    )


def _cells(name: str, questions: Sequence[Question], border: float | None) -> list[Cell]:
    """Return the short and the long cell, by each question's own median or by ``border``."""
    right, count = {"short": 0, "long": 0}, {"short": 0, "long": 0}
    for one in questions:
        median = np.median(one.tokens)
        short = one.tokens < median if border is None else one.tokens <= border
        long = one.tokens > median if border is None else ~short
        if border is not None and not (short.any() and long.any()):
            continue
        for traces, chosen in (("short", short), ("long", long)):
            right[traces] += int(one.right[chosen].sum())
            count[traces] += int(chosen.sum())
    return [
        Cell(
            name, t, right[t], count[t], right[t] / count[t] if count[t] else None, wilson(right[t], count[t])
        )
        for t in right
    ]


def _oddity(questions: Sequence[Question]) -> Oddity | None:
    """Look for places in the order of samples that differ from the others, as chance does not make them.

    Samples of one model under one setting can be exchanged. Where they cannot, several recordings were
    joined, and length and accuracy may go together for that reason alone.
    """
    n = min(len(one.tokens) for one in questions)
    if n < 3 or len(questions) < _ENOUGH:
        return None
    tokens = np.array([one.tokens[:n] for one in questions])
    lacking = (~np.array([one.answered[:n] for one in questions])).mean(axis=0)
    signs: dict[str, dict[int, float]] = {}
    for place in range(n):
        gaps = np.delete(tokens, place, axis=1) - tokens[:, [place]]
        shorter = float((np.sign(gaps).mean() + 1) / 2)
        if max(shorter, 1 - shorter) >= _APART:
            word = "shorter" if shorter > 0.5 else "longer"
            signs.setdefault(f"{word} than the others in", {})[place] = max(shorter, 1 - shorter)
        elif lacking[place] - np.delete(lacking, place).mean() > _LACKING:
            signs.setdefault("without an answer in", {})[place] = float(lacking[place])
    odd = sorted(place for found in signs.values() for place in found)
    if not odd:
        return None
    rest = [place for place in range(n) if place not in odd]
    without = verdict([one.keep(rest) for one in questions]) if len(rest) > 1 else None
    return Oddity(tuple(odd), tuple(_sign(*each) for each in signs.items()), without)


def _sign(what: str, places: Mapping[int, float]) -> str:
    low, high = min(places.values()), max(places.values())
    share = f"{low:.0%}" if low == high else f"{low:.0%}-{high:.0%}"
    names = ", ".join(str(place + 1) for place in places)
    return f"sample{'s' if len(places) > 1 else ''} {names} {what} {share}"
