"""Runs put side by side: one panel for every set of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ttsflow.analysis.clock import clock_note, virtual_clock
from ttsflow.analysis.compare import Comparison, compare
from ttsflow.analysis.measures import COSTS, front, measure
from ttsflow.analysis.runs import Run
from ttsflow.analysis.settings import dotted, names, same_setting
from ttsflow.errors import DataError
from ttsflow.reporting.baseline import Against, Point, Rung, curves, frontier, gains

__all__ = ["Panel", "panels"]

_TITLE = 40  # characters of a setting in a title


@dataclass(frozen=True, slots=True)
class Panel:
    """All runs on one set of questions.

    ``drawn`` are the complete ones with an accuracy, which pictures, front and baseline are made of;
    ``others`` have results, but are partial or have no gold answers. ``curves`` are the plain runs of each
    setting, ``against`` what runs have above them. ``fronts`` are, by cost, the names of runs that no
    other beats. ``pairs`` are compared question by question.
    """

    title: str
    engines: str
    drawn: tuple[Point, ...]
    others: tuple[Point, ...]
    curves: Mapping[str, Sequence[Rung]]
    against: Mapping[str, Against]
    fronts: Mapping[str, Sequence[str]]
    pairs: tuple[Comparison, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """All runs, those that are not drawn last."""
        return (*self.drawn, *self.others)

    @property
    def costs(self) -> list[str]:
        """What is known of every drawn run and is not 0 for all: one picture each."""
        known = {cost: [getattr(point.measures, cost) for point in self.drawn] for cost in COSTS}
        return [cost for cost, values in known.items() if None not in values and any(values)]

    @property
    def best(self) -> Point | None:
        """The run with the highest accuracy, the cheapest of equal ones; None where nothing is right."""
        return _best([point for point in self.drawn if point.measures.correct])

    @property
    def tied(self) -> list[Point]:
        """The other runs that are as accurate as the best one."""
        best = self.best
        if best is None:
            return []
        return [p for p in self.drawn if p is not best and p.measures.accuracy == best.measures.accuracy]

    @property
    def clock(self) -> str:
        """What is to be known of the seconds of the drawn runs; empty for those of a real clock."""
        return clock_note(point.virtual for point in self.drawn)


def panels(runs: Sequence[Run]) -> list[Panel]:
    """Return a panel for each task and set of questions, that of most runs first.

    Runs without any result are in none. A partial run belongs to the whole ones that have all its questions.
    """
    tasks: dict[str, list[Run]] = {}
    for run in runs:
        if run.rows:
            asked = dotted({"task": run.config.get("task", run.task)})
            tasks.setdefault(repr(sorted(asked.items(), key=repr)), []).append(run)
    groups = [group for some in tasks.values() for group in _by_questions(some)]
    groups.sort(key=len, reverse=True)
    return [_panel(group, title) for group, title in zip(groups, _titles(groups), strict=True)]


def _by_questions(runs: Sequence[Run]) -> list[list[Run]]:
    whole: dict[frozenset[str], set[Path]] = {}
    partial: dict[frozenset[str], set[Path]] = {}
    for run in runs:
        kind = whole if run.status == "complete" else partial
        kind.setdefault(frozenset(run.rows), set()).add(run.folder)
    for questions, folders in sorted(partial.items(), key=lambda one: len(one[0]), reverse=True):
        # The least that has all of them; partial runs of other runs that are not whole go together as well.
        home = min((known for known in whole if questions <= known), key=len, default=questions)
        whole.setdefault(home, set()).update(folders)
    return [[run for run in runs if run.folder in folders] for folders in whole.values()]


def _titles(groups: Sequence[Sequence[Run]]) -> list[str]:
    """Return a title for each set of questions: the task, and the settings in which it differs from others.

    Where one task has several sets, the number of questions is told as well.
    """
    settings = [dotted({"task": runs[0].config.get("task")}, "") for runs in groups]
    names = [runs[0].task for runs in groups]
    told = []
    for name, leaves in zip(names, settings, strict=True):
        same = [other for title, other in zip(names, settings, strict=True) if title == name]
        keys = [key for key in leaves if any(other.get(key) != leaves[key] for other in same)]
        told.append(
            " ".join([name, *(f"{key.removeprefix('task.')}={leaves[key]}"[:_TITLE] for key in keys)])
        )
    sizes = [max(len(run.rows) for run in runs) for runs in groups]
    sized = [
        title if told.count(title) == 1 else f"{title}, {size} question{'s' if size > 1 else ''}"
        for title, size in zip(told, sizes, strict=True)
    ]
    return [title if sized.count(title) == 1 else f"{title} ({n})" for n, title in enumerate(sized, 1)]


def _panel(runs: Sequence[Run], title: str) -> Panel:
    points = [Point(run, name, measure(run)) for run, name in zip(runs, names(runs), strict=True)]
    drawn = tuple(p for p in points if p.run.status == "complete" and p.measures.accuracy is not None)
    rungs = curves(drawn)
    return Panel(
        title=title,
        engines=", ".join(dict.fromkeys(_engine(run) for run in runs)),
        drawn=drawn,
        others=tuple(point for point in points if point not in drawn),
        curves=rungs,
        against=gains(drawn, rungs),
        fronts={cost: _front(drawn, cost) for cost in COSTS},
        pairs=tuple(_pairs(drawn, rungs)),
    )


def _engine(run: Run) -> str:
    settings = run.config.get("engine")
    model = settings.get("model") if isinstance(settings, Mapping) else None
    name = f"{run.engine} ({model})" if model else run.engine
    return name + clock_note([virtual_clock(run)])


def _front(points: Sequence[Point], cost: str) -> list[str]:
    known = [(getattr(p.measures, cost), p.measures.accuracy or 0.0, p.name) for p in points]
    known = [one for one in known if one[0] is not None]
    return [known[place][2] for place in front((price, gain) for price, gain, _ in known)]


def _best(points: Sequence[Point]) -> Point | None:
    return max(points, key=lambda p: (p.measures.accuracy or 0.0, -(p.measures.decoded or 0.0)), default=None)


def _pairs(points: Sequence[Point], rungs: Mapping[str, Sequence[Rung]]) -> list[Comparison]:
    """Compare the best run with the best plain one, and with the plain one that is nearest in tokens.

    The nearest is one that plain sampling cannot beat for its tokens, as for what is above plain.

    Without a plain one, or where that is the best, it is the best run of another strategy, or the next best.
    """
    best = _best(points)
    if best is None or not best.measures.correct:
        return []
    setting = same_setting(best.run)
    baseline = {
        name
        for ladder in rungs.values()
        for _, _, rung in frontier((one.costs["decoded"] or 0.0, one.accuracy, one) for one in ladder)
        for name in rung.names
    }
    plain = [point for point in points if point.name in baseline and point is not best]
    plain = [point for point in plain if same_setting(point.run) == setting] or plain
    others = [point for point in points if point.run.strategy != best.run.strategy]
    rest = [point for point in points if point is not best]
    rivals = [_best(plain if plain and not best.plain else others or rest)]
    if plain and not best.plain:
        decoded = best.measures.decoded or 0.0
        rivals.append(min(plain, key=lambda point: abs((point.measures.decoded or 0.0) - decoded)))
    found = []
    for rival in dict.fromkeys(point.name for point in rivals if point is not None):
        other = next(point for point in points if point.name == rival)
        try:
            found.append(compare(best.run, other.run, (best.name, other.name)))
        except DataError:
            continue  # they share no question: nothing to compare
    return found
