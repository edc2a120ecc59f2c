"""Measures, on the engine of a run, what n samples cost under a load and how often their vote is right."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Literal, NamedTuple

from ttsflow import interrupt
from ttsflow.checks import check
from ttsflow.control import Asking, Controller
from ttsflow.controllers.agreement import Agreement
from ttsflow.costs.calibrated import Calibration
from ttsflow.costs.fitting import Cell, fit_accuracy, fit_cost
from ttsflow.errors import DataError, TtsflowError
from ttsflow.ledger import Budget
from ttsflow.lineage import derive
from ttsflow.load.injector import Injector
from ttsflow.metrics import rates
from ttsflow.ops import Offer
from ttsflow.session import Session
from ttsflow.setup import Setup
from ttsflow.strategies.aggregate import Aggregate, voters
from ttsflow.strategies.allocate import Allocate
from ttsflow.strategies.flow import Sequence as Stages
from ttsflow.types import Candidate, Problem, State

__all__ = ["Measured", "Plan", "calibrate"]

#: One query: how many samples, the load when it began, what it has cost.
_Query = tuple[int, float, float]


class Plan(NamedTuple):
    """What to measure: ``loads`` are made in turn on ``device``; none means the machine as it is."""

    unit: str
    rungs: tuple[int, ...]
    problems: int
    loads: tuple[float, ...] = ()
    device: Literal["cpu", "cuda"] = "cpu"


class Measured(NamedTuple):
    """The profile, and the cells of the cost from which it was fitted."""

    profile: Calibration
    cells: tuple[Cell, ...]


class _Log:
    """What is measured, and the candidates of every question by its id."""

    def __init__(self) -> None:
        self.queries: list[_Query] = []
        self.pools: dict[str, tuple[Candidate, ...]] = {}


@dataclass(frozen=True, slots=True)
class _Granting:
    """A controller that grants ``samples`` at once and writes down what they cost."""

    unit: str
    samples: int
    log: _Log = field(compare=False)

    def open(self, unit: str) -> Controller:
        """Return the working controller."""
        return _Watching(unit, self.log)


class _Watching:
    def __init__(self, unit: str, log: _Log) -> None:
        self._unit = unit
        self._log = log

    def begin(self, problems: int, limit: float) -> None:
        """Do nothing."""

    def offer(self, asking: Asking) -> Offer:
        """Grant what is asked for."""
        del asking
        return Offer(self._unit, None)

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Write down what samples have cost."""
        self._log.queries.append((samples, load, cost))

    def closed(self, spent: float) -> None:
        """Do nothing."""

    def state(self) -> Mapping[str, Any]:
        """Return nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class _Keep:
    """Keeps the pool of every question."""

    log: _Log = field(compare=False)

    def __call__(self, state: State) -> State:
        """Keep it."""
        self.log.pools[state.problem.id] = state.pool
        return state


def calibrate(setup: Setup, plan: Plan, names: tuple[str, str]) -> Measured:
    """Measure each number of samples under each load; ``names`` are those of model and task.

    All take the same questions, chosen by their ids: accuracy is that of the votes of as many out of the
    samples of the highest rung (maj@k over all choices), cost that of each number by itself. Raises
    ``ConfigError`` for what does not go together, ``TtsflowError`` where questions fail, ``DataError``
    where nothing is graded or costs nothing.
    """
    began = time.perf_counter()
    problems = _chosen(list(setup.task.problems())[: setup.limit], plan.problems)
    _steps(setup, plan, plan.rungs[-1], _Log())  # what does not go together is refused here
    by_cell: dict[tuple[int, float], list[_Query]] = defaultdict(list)
    shares: list[list[tuple[str | None, bool]]] = []
    samples = 0
    for load, injector in _levels(plan):
        for rung in reversed(plan.rungs):
            log = _Log()
            _run(_steps(setup, plan, rung, log), problems, injector)
            samples += sum(query[0] for query in log.queries)
            if not shares:
                shares = [_graded(setup, problem, log.pools[problem.id]) for problem in problems]
            for query in _settled(log.queries, setup):
                by_cell[rung, round(query[1], 2) if load is None else load].append(query)
    cells = tuple(
        Cell(rung, fmean(query[1] for query in queries), fmean(query[2] for query in queries))
        for (rung, _), queries in sorted(by_cell.items())
    )
    free = next((cell for cell in cells if not cell.cost > 0), None)
    if free is not None:
        raise DataError(
            f"queries of {free.samples} samples cost 0 {plan.unit}: they are shorter than what the meter can "
            "tell. Take more of them with --problems, or longer ones."
        )
    cost, error = fit_cost(cells)
    found = rates(shares, plan.rungs)
    measured = tuple(found[rung]["maj@k"] or 0.0 for rung in plan.rungs)
    profile = Calibration(
        model=names[0],
        task=names[1],
        unit=plan.unit,
        rungs=plan.rungs,
        loads=tuple(sorted({round(min(1.0, max(0.0, cell.load)), 4) for cell in cells})),
        cost=cost,
        error=error,
        accuracy=fit_accuracy(plan.rungs, measured),
        measured=measured,
        questions=len(problems),
        samples=samples,
        seconds=round(time.perf_counter() - began, 3),
        agreement=_agreement(shares),
    )
    return Measured(profile, cells)


def _agreement(shares: Sequence[Sequence[tuple[str | None, bool]]]) -> Mapping[str, Any]:
    """Return how far the samples of each question agree; one without an answer agrees with none."""
    found = Agreement()
    for samples in shares:
        answers = [answer for answer, _ in samples]
        if answers:
            found.observe(0, len(answers), len({*answers} - {None}) + answers.count(None))
    return found.state()


def _chosen(problems: Sequence[Problem], count: int) -> list[Problem]:
    """Return so many, wherever they stand: the first ones of a file are often of one kind."""
    if not problems:
        raise DataError("the task has no problems.", "task")
    return sorted(problems, key=lambda problem: derive("calibrate", problem.id))[:count]


def _steps(setup: Setup, plan: Plan, rung: int, log: _Log) -> Setup:
    """Return a run that draws so many samples of each question at once. Raises ``ConfigError``."""
    drawing = Allocate(_Granting(plan.unit, rung, log), n=rung, rungs=(rung,))
    strategy = Stages({"draw": drawing, "keep": _Keep(log), "vote": Aggregate()})
    made = replace(setup, strategy=strategy, budget=Budget(run={plan.unit: float("inf")}))
    check(made)
    return made


def _levels(plan: Plan) -> Iterator[tuple[float | None, Injector | None]]:
    """Yield each load while it is on, or the machine as it is."""
    if not plan.loads:
        yield None, None
    for load in plan.loads:
        with Injector(load, device=plan.device) as injector:
            yield load, injector


def _run(setup: Setup, problems: Sequence[Problem], injector: Injector | None) -> None:
    def step(_: object) -> None:
        interrupt.check()
        if injector is not None:
            injector.check()

    with Session(setup) as session:
        failed = [result for result in session.run(problems, on_step=step) if result.outcome == "failed"]
    if failed:
        raise TtsflowError(f"{len(failed)} of {len(problems)} questions failed: {failed[0].reason}")


def _settled(queries: list[_Query], setup: Setup) -> list[_Query]:
    """Return the queries without the first on a machine: its model warms up, its monitor has just begun."""
    if getattr(setup.engine, "virtual", False) or len(queries) == 1:
        return queries
    return queries[1:]


def _graded(setup: Setup, problem: Problem, pool: Sequence[Candidate]) -> list[tuple[str | None, bool]]:
    """Return answer and verdict of each sample. Raises ``DataError`` where nobody knows what is right."""
    told = []
    votes = {candidate.path: candidate.answer for candidate in voters(pool)}
    for candidate in pool:
        answer = votes.get(candidate.path)
        right = setup.task.correct(answer, problem)
        if right is None and answer is not None:
            raise DataError(
                f"the task does not say which answer of {problem.id!r} is right, so that no accuracy can be "
                "measured; take one with answers."
            )
        told.append((None if answer is None else answer.key, bool(right)))
    return told
