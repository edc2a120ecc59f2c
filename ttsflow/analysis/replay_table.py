"""The published table of first- and last-finish search, from recorded samples, through the strategies.

Every cell comes from a run of the shipped stages on the engine ``replay``. Profile ``exact`` lets exactly
``k`` samples vote; profile ``paper`` follows the conventions of the recorded results of arXiv 2512.02008:
all samples as long as the k-th one vote as well, and so do samples that were cut after an answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ttsflow.engines.replay import Replay
from ttsflow.errors import DataError
from ttsflow.ledger import Budget
from ttsflow.library import library
from ttsflow.listing import wide_console
from ttsflow.metrics import pass_at_k
from ttsflow.protocols import Stage
from ttsflow.recordings import Recording
from ttsflow.session import Session
from ttsflow.setup import Setup
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence as Stages
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.select import Select
from ttsflow.strategies.watches import FirstFinished
from ttsflow.tasks.recorded import Recorded
from ttsflow.types import Problem, Result, Sampling

__all__ = ["Convention", "Row", "show", "table"]

Convention = Literal["exact", "paper"]

#: How many samples vote, in the columns of first- and last-finish search.
VOTERS = (1, 2, 4)

Row = Mapping[str, Any]

_NO_LIMIT = 1 << 40


def table(path: str | None, profile: Convention = "exact") -> list[Row]:
    """Return a row per model and data set; accuracies are shares, tokens are means over problems.

    ``path`` is a file of recorded samples (None: those of this package).

    ``SD`` is mean@n, ``MV`` majority, ``pass`` pass@n, ``noans`` samples without an answer, ``avg_tok``,
    ``max_tok`` and ``tot`` the mean, longest and summed length of a problem's samples. ``FFSk`` and
    ``LFSk`` are accuracies; ``_seq`` counts tokens in series, ``_tot_paper`` those of the samples that were
    not cut off, as published totals do, ``_tot_parallel`` all that were decoded. Raises ``DataError``.
    """
    groups: dict[tuple[str, str], list[Recording]] = defaultdict(list)
    for recording in library(path).recordings.values():
        groups[recording.model, recording.dataset].append(recording)
    sizes = {name: min(len(recording.samples) for recording in group) for name, group in groups.items()}
    alike: dict[int, set[str]] = defaultdict(set)
    for name, group in groups.items():
        alike[sizes[name]] |= {recording.id for recording in group}
    runs = {n: _runs(path, frozenset(ids), n, profile) for n, ids in alike.items()}
    task = Recorded(path=path)
    right = {problem.id: _right(task, problem) for problem in task.problems()}
    return [_row(groups[name], sizes[name], runs[sizes[name]], right) for name in sorted(groups)]


def _runs(
    path: str | None, ids: frozenset[str], n: int, profile: Convention
) -> Mapping[str, Mapping[str, Result]]:
    """Return results by problem for every strategy with ``n`` samples, by the name of their columns."""
    ties: Literal["order", "all"] = "all" if profile == "paper" else "order"
    strategies: dict[str, Stage] = {"MV": _stages(GenerateStage(n))}
    for k in (k for k in VOTERS if k <= n):
        first = Select("tokens", keep=k, answered=True, ties=ties)
        last = Select("tokens", keep=k, answered=True, ties=ties, prefer="most")
        strategies[f"FFS{k}"] = _stages(GenerateStage(n, watch=FirstFinished(k)), first)
        strategies[f"LFS{k}"] = _stages(GenerateStage(n), last)
    engine = Replay(path=path, cut_votes=profile == "paper")
    return {name: _run(engine, ids, strategy) for name, strategy in strategies.items()}


def _run(engine: Replay, ids: frozenset[str], strategy: Stage) -> Mapping[str, Result]:
    task = Recorded(path=engine.path)
    setup = Setup(strategy, engine, task, None, {}, Budget(), Sampling(max_tokens=_NO_LIMIT))
    problems = [problem for problem in task.problems() if problem.id in ids]
    with Session(setup) as session:
        return {result.id: result for result in session.run(problems)}


def _stages(sample: Stage, keep: Stage | None = None) -> Stage:
    middle = {} if keep is None else {"keep": keep}
    return Stages({"sample": sample, **middle, "answer": Aggregate("majority")})


def _row(
    group: Sequence[Recording],
    n: int,
    runs: Mapping[str, Mapping[str, Result]],
    verdicts: Mapping[str, Sequence[bool]],
) -> Row:
    samples = [recording.samples[:n] for recording in group]
    right = [sum(verdicts[recording.id][:n]) for recording in group]
    first = group[0]
    row: dict[str, Any] = {"model": first.model, "dataset": first.dataset, "n_problems": len(group), "n": n}
    row["SD"] = _mean(count / n for count in right)
    row["pass"] = _mean(float(pass_at_k(n, count, n)) for count in right)
    row["noans"] = _mean(sum(sample.answer is None for sample in some) for some in samples)
    for column, run in runs.items():
        results = [run[recording.id] for recording in group]
        row[column] = _mean(bool(result.correct) for result in results)
        if column == "MV":
            row["avg_tok"] = _mean(result.usage.decoded / n for result in results)
            row["max_tok"] = _mean(result.usage.serial for result in results)
            row["tot"] = _mean(result.usage.decoded for result in results)
        elif column.startswith("FFS"):
            row[f"{column}_seq"] = _mean(result.usage.serial for result in results)
            row[f"{column}_tot_paper"] = _mean(result.usage.output for result in results)
            row[f"{column}_tot_parallel"] = _mean(result.usage.decoded for result in results)
    return row


def _right(task: Recorded, problem: Problem) -> list[bool]:
    """Return whether each sample is right, as the task says. Raises ``DataError`` where it cannot."""
    samples = library(task.path).recordings[problem.id].samples
    verdicts = [task.correct(task.answer(sample.said, problem), problem) for sample in samples]
    if None in verdicts:
        raise DataError(f"the problem {problem.id!r} has neither verdicts nor a gold answer to grade by.")
    return [bool(verdict) for verdict in verdicts]


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return round(math.fsum(known) / len(known), 4)


def show(rows: Sequence[Row], console: Console | None = None) -> None:
    """Print accuracies, and then the tokens they took: in series, selected alone, really decoded."""
    console = console or wide_console()
    accuracies = ["SD", "MV", "pass", *(f"{how}{k}" for how in ("FFS", "LFS") for k in VOTERS)]
    console.print(_grid("accuracy in %", rows, accuracies, lambda value: f"{100 * value:.1f}"))
    tokens = ["max_tok", "tot", *(f"FFS{k}_{what}" for k in VOTERS for what in _TOKENS)]
    console.print(
        _grid("tokens per problem, in thousands", rows, tokens, lambda value: f"{value / 1000:.1f}")
    )
    console.print(_LEGEND, markup=False)


_TOKENS = ("seq", "tot_paper", "tot_parallel")

_LEGEND = """SD mean@n, MV majority of n, pass pass@n; FFSk and LFSk: the k shortest and the k longest vote.
max tok: the longest sample, tot: all samples, which is what MV and LFS decode. seq: tokens in series;
paper: of the samples that were not cut off, as published totals count; parallel: all that were decoded."""


def _grid(title: str, rows: Sequence[Row], columns: Sequence[str], shown: Callable[[float], str]) -> Table:
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("model", "dataset", "n"):
        grid.add_column(name, no_wrap=True)
    for name in columns:
        grid.add_column(name.replace("_tot_", " ").replace("_", " "), justify="right")
    for row in rows:
        cells = (shown(row[name]) if name in row else "-" for name in columns)
        grid.add_row(Text(row["model"]), Text(row["dataset"]), str(row["n"]), *cells)
    return grid
