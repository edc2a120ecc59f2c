"""Budgets under changing load: controllers against the best fixed number of samples, on recorded samples.

500 questions are drawn with replacement from the recorded problems of a model, their eight samples in random
order. A query of n samples takes E(n) = (a + b n) m joules, with E(4) = 121.7 J and a = 0.9 b at m = 1, and
m = 1, 2, 3, 3.74 at loads of 0, 0.25, 0.55, 0.85, which are published or fit what is. The load rises (four
blocks of 125 questions), cycles (blocks of 25), or stays at 0; the budget is c times 500 queries of four at
m = 1. A question that is deferred counts as wrong. The stages are driven directly, with real controllers, one
question after the other; those that wait for further samples have them at the end, under the last load.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

from common import finish
from replay_targets import SETS, Cards
from rich.table import Table

from ttsflow.control import Asking, Controller, Listening
from ttsflow.controllers.calibrated import Calibrated
from ttsflow.controllers.online import Online
from ttsflow.controllers.prices import Prices
from ttsflow.controllers.reserve import Reserve
from ttsflow.costs import fitting
from ttsflow.costs.calibrated import Calibration
from ttsflow.listing import wide_console
from ttsflow.metrics import rates
from ttsflow.ops import Generate, Generated, Op, Quotation, Quote, Tally, Wait
from ttsflow.recordings import read_recordings
from ttsflow.strategies.allocate import Allocate
from ttsflow.strategies.flow import Steps, run_stage
from ttsflow.strategies.ladder import Ladder
from ttsflow.types import Candidate, State, Usage

MODELS = ("R1", "QwQ", "R1DistilQwen")
QUESTIONS = 500
REFERENCE = 121.7
SAMPLE = REFERENCE / 4.9
QUERY = 0.9 * SAMPLE
#: Load, and how many times the joules of an idle machine a query takes under it.
LOADS = ((0.0, 1.0), (0.25, 2.0), (0.55, 3.0), (0.85, 3.74))
BUDGETS = (1.0, 1.5, 2.0, 3.0)
FIXED = (1, 2, 3, 4, 6)

#: What a calibration over these loads finds: a line in the load through the four points, by least squares.
SLOPE = 3.25
CALIBRATED = Prices(prior=(QUERY, SAMPLE, SLOPE * QUERY, SLOPE * SAMPLE))


RUNGS = (1, 3, 4, 6, 8)
#: Every number of samples up to eight.
FINE = (1, 2, 3, 4, 5, 6, 7, 8)


def _reserve(
    rungs: tuple[int, ...], alpha: float | None, prices: Prices = CALIBRATED, *, wait: bool = True
) -> Ladder:
    """Return the stage of `atest_reserve` with these settings."""
    controller = Reserve(prices=prices, rungs=rungs, alpha=alpha, wait=wait)
    return Ladder(gain="planned", rungs=rungs, alpha=alpha, controller=controller)


class _Fixed:
    """A controller that learns nothing."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.begin, self.offer, self.state = controller.begin, controller.offer, controller.state

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Ignore what samples have cost."""

    def closed(self, spent: float) -> None:
        """Take in what a question has cost, which decides on its share alone."""
        self._controller.closed(spent)


@dataclass(frozen=True)
class FixedPrices(Online):
    """ATEST without its online cost model: the prices of an idle machine, whatever samples cost."""

    prices: Prices = field(default_factory=lambda: Prices(prior=(QUERY, SAMPLE, 0.0, 0.0)))

    def open(self, unit: str) -> Controller:
        """Return the working controller."""
        return _Fixed(super().open(unit))


class Row(NamedTuple):
    """A way to decide: a stage, and whether its controller sees the load."""

    stage: Ladder | Allocate
    sees: bool = True


ROWS: Mapping[str, Row] = {
    "reserve": Row(_reserve(FINE, None)),
    "reserve, cold": Row(_reserve(FINE, None, Prices())),
    "reserve, at once": Row(_reserve(FINE, None, wait=False)),
    "reserve, alpha 1": Row(_reserve(FINE, 1.0)),
    "reserve, coarse": Row(_reserve(RUNGS, 1.0, wait=False)),
    "online": Row(Ladder(controller=Online())),
    "online, one rung": Row(Ladder(gain="one_rung", controller=Online())),
    "online, no signal": Row(Ladder(controller=Online()), sees=False),
    "online, fixed prices": Row(Ladder(controller=FixedPrices())),
    "reasoning only": Row(Ladder()),
    "calibrated": Row(Allocate(Calibrated(profile="of 20 questions that are not asked"))),
}

#: Questions and rungs of a calibration, each of these measured under every load.
CALIBRATION = 20


def calibration(cards: Sequence[Cards]) -> Calibration:
    """Return what `ttsflow calibrate` finds with these questions on the machine of this experiment."""
    cells = [fitting.Cell(n, load, (QUERY + SAMPLE * n) * times) for load, times in LOADS for n in RUNGS]
    cost, error = fitting.fit_cost(cells)
    samples = [
        [(answer if finish == "stop" else None, answer in one.right) for finish, answer in one.kinds]
        for one in cards
    ]
    found = rates(samples, RUNGS)
    measured = tuple(found[n]["maj@k"] or 0.0 for n in RUNGS)
    accuracy = fitting.fit_accuracy(RUNGS, measured)
    loads = tuple(load for load, _ in LOADS)
    return Calibration(
        "recorded", "", "joules", RUNGS, loads, cost, error, accuracy, measured, len(cards), 0, 0.0
    )


def schedule(name: str) -> list[tuple[float, float]]:
    """Return load and multiple of every question."""
    if name == "rising":
        return [LOADS[4 * place // QUESTIONS] for place in range(QUESTIONS)]
    if name == "cycling":
        return [LOADS[place // 25 % 4] for place in range(QUESTIONS)]
    return [LOADS[0]] * QUESTIONS


class Told(NamedTuple):
    """What a run came to; ``over`` joules more than the budget were spent, in the worst case one step's."""

    right: int
    deferred: int
    answered: int
    samples: int
    spent: float
    over: float
    by_load: Mapping[float, float]


class Question:
    """One question: its samples in an order of their own."""

    def __init__(self, cards: Cards, order: Sequence[int]) -> None:
        self._cards = cards
        self._order = order

    def deal(self, first: int, count: int) -> tuple[Candidate, ...]:
        """Return the samples from the place ``first`` on."""
        places = range(first, first + count)
        return tuple(self._cards.cards[self._order[place]][place] for place in places)

    def state(self) -> State:
        """Return where a strategy begins."""
        return State(self._cards.problem)

    def right(self, pool: Sequence[Candidate]) -> bool | None:
        """Return whether the most frequent answer is right, the first of equals; None without any."""
        votes = Counter(c.answer.key for c in pool if c.answer is not None and c.finish == "stop")
        return max(votes, key=votes.__getitem__) in self._cards.right if votes else None


def play(
    questions: Sequence[Question],
    loads: Sequence[tuple[float, float]],
    funds: float,
    row: Any,
    profile: Calibration | None = None,
) -> Told:
    """Run all questions by a row, or with a fixed number of samples."""
    run = _Run(funds, len(questions), row, profile)
    for question, (load, times) in zip(questions, loads, strict=True):
        run.ask(question, load, times)
    run.end()
    return run.told()


class _Climb:
    """A question under way: its stage, its samples, and what a query took when it had its first one."""

    def __init__(self, question: Question, steps: Steps) -> None:
        self.question = question
        self.steps = steps
        self.pool: list[Candidate] = []
        self.spent = self.times = 0.0
        self.waits = False


class _Run:
    """The books of one run."""

    def __init__(self, funds: float, questions: int, row: Any, profile: Calibration | None) -> None:
        self.funds = self.left = funds
        self.ahead = questions
        #: Questions that wait until all have had a sample.
        self.held: deque[_Climb] = deque()
        self.last = LOADS[0]
        self.row = row
        self.counts: Counter[str] = Counter()
        self.over = 0.0
        self.by_load: dict[float, list[int]] = defaultdict(list)
        part = None if isinstance(row, int) else row.stage.controller
        self.controller: Controller | None = None
        if isinstance(part, Calibrated):
            assert profile is not None
            self.controller = part.with_profile(profile)
        elif part is not None:
            self.controller = part.open("joules")
        if self.controller is not None:
            self.controller.begin(questions, funds)

    def ask(self, question: Question, load: float, times: float) -> None:
        """Work on one question."""
        if isinstance(self.row, int):
            self.ahead -= 1
            self._count(question, self._fixed(question, times), times)
            return
        climb = _Climb(question, run_stage(self.row.stage, question.state()))
        self._go_on(climb, load, times)
        self.ahead -= 1
        if climb.waits:
            self.held.append(climb)

    def end(self) -> None:
        """Go on with the questions that wait, under the last load."""
        while self.held:
            self._go_on(self.held[0], *self.last)
            self.held.popleft()

    def _count(self, question: Question, pool: Sequence[Candidate], times: float) -> None:
        self.counts["samples"] += len(pool)
        if not pool:
            self.counts["deferred"] += 1
            return
        self.by_load[times].append(len(pool))
        right = question.right(pool)
        self.counts["answered"] += right is not None
        self.counts["right"] += bool(right)

    def _spend(self, samples: int, times: float) -> float:
        joules = (QUERY + SAMPLE * samples) * times
        self.left -= joules
        self.over = max(self.over, -self.left / joules)
        return joules

    def _fixed(self, question: Question, times: float) -> tuple[Candidate, ...]:
        if (QUERY + SAMPLE * self.row) * times > self.left:
            return ()
        self._spend(self.row, times)
        return question.deal(0, self.row)

    def _go_on(self, climb: _Climb, load: float, times: float) -> None:
        """Resume the stage of a question until it has to wait or ends."""
        self.last = load, times
        seen = load if self.row.sees else 0.0
        before, reply = self.left, None
        climb.waits = False
        try:
            while not climb.waits:
                reply = self._reply(climb, climb.steps.send(reply), seen, times)
        except StopIteration:
            pass
        climb.spent += before - self.left
        if not climb.waits:
            if self.controller is not None:
                self.controller.closed(climb.spent)
            self._count(climb.question, climb.pool, climb.times or times)

    def _reply(self, climb: _Climb, op: Op, seen: float, times: float) -> Quotation | Generated | None:
        if isinstance(op, Wait):
            climb.waits = True
        elif isinstance(op, Tally) and isinstance(self.controller, Listening):
            self.controller.agreed(op.drawn, op.more, op.fresh)
        elif isinstance(op, Quote) and op.by is not None and self.controller is not None:
            first = not climb.pool
            # It is counted among those that wait for a first sample until it has ended or is held.
            ahead = self.ahead - (not first and self.ahead > 0)
            asking = Asking(op.samples, first, self.left, self.funds, ahead, seen, held=len(self.held))
            counts = *op.also, op.samples
            offers = {count: self.controller.offer(asking._replace(samples=count)) for count in counts}
            return Quotation({}, {}, {}, Usage(), offers)
        elif isinstance(op, Generate):
            count = len(op.requests)
            if self.controller is None and (QUERY + SAMPLE * count) * times > self.left:
                return Generated((), Usage(), "budget spent")
            fresh = climb.question.deal(len(climb.pool), count)
            climb.pool.extend(fresh)
            climb.times = climb.times or times
            joules = self._spend(count, times)
            if self.controller is not None:
                self.controller.observe(count, seen, joules)
            return Generated(fresh, Usage())
        return None

    def told(self) -> Told:
        """Return what it came to."""
        by_load = {times: fmean(counts) for times, counts in self.by_load.items()}
        right, deferred, answered, samples = (
            self.counts[name] for name in ("right", "deferred", "answered", "samples")
        )
        return Told(right, deferred, answered, samples, self.funds - self.left, self.over, by_load)


Job = tuple[str, str, int, tuple[str, ...]]
Cell = tuple[str, str, float, str]


def simulate(job: Job) -> dict[Cell, Told]:
    """Return what every row comes to with the questions of one seed."""
    file, model, seed, labels = job
    cards = [Cards(r) for r in read_recordings(file) if r.model == model and r.dataset in SETS]
    rng = random.Random(seed)  # noqa: S311 - orders, not secrets
    questions = [Question(rng.choice(cards), rng.sample(range(8), 8)) for _ in range(QUESTIONS)]
    asked = {question.state().problem.id for question in questions}
    apart = [one for one in cards if one.problem.id not in asked]
    profile = calibration(rng.sample(apart, CALIBRATION))
    found: dict[Cell, Told] = {}
    for name in ("rising", "cycling", "steady"):
        loads = schedule(name)
        for budget in BUDGETS:
            funds = budget * QUESTIONS * REFERENCE
            rows: dict[str, Any] = {f"fixed {n}": n for n in FIXED} | {label: ROWS[label] for label in labels}
            for label, row in rows.items():
                found[model, name, budget, label] = play(questions, loads, funds, row, profile)
    return found


#: Rows without which the targets cannot be checked.
CHECKED = {"reserve", "online", "online, no signal", "online, fixed prices", "reasoning only"}


class Figures(NamedTuple):
    """Means over seeds; shares of all questions, joules for each right one, budgets overspent in steps."""

    accuracy: float
    deferred: float
    coverage: float
    given: float
    samples: float
    joules: float
    over: float
    by_load: Mapping[float, float]


def figures(runs: Sequence[Told]) -> Figures:
    """Return the means of one cell."""
    asked = [QUESTIONS - run.deferred for run in runs]
    loads = sorted({times for run in runs for times in run.by_load})
    return Figures(
        fmean(run.right for run in runs) / QUESTIONS,
        fmean(run.deferred for run in runs) / QUESTIONS,
        fmean(run.answered for run in runs) / QUESTIONS,
        sum(run.right for run in runs) / max(1, sum(run.answered for run in runs)),
        sum(run.samples for run in runs) / max(1, sum(asked)),
        sum(run.spent for run in runs) / max(1, sum(run.right for run in runs)),
        max(run.over for run in runs),
        {times: fmean(run.by_load[times] for run in runs if times in run.by_load) for times in loads},
    )


def table(title: str, rows: Mapping[str, Figures]) -> Table:
    """Return the rows of one cell as a table."""
    made = Table(title=title, title_justify="left")
    for name in (
        "",
        "accuracy",
        "deferred",
        "coverage",
        "right of answered",
        "samples",
        "J / right",
        "by load",
    ):
        made.add_column(name, justify="right" if name else "left")
    for label, row in rows.items():
        made.add_row(
            label,
            f"{row.accuracy:.3f}",
            f"{row.deferred:.1%}",
            f"{row.coverage:.1%}",
            f"{row.given:.3f}",
            f"{row.samples:.2f}",
            f"{row.joules:.0f}",
            " ".join(f"{count:.1f}" for count in row.by_load.values()),
        )
    return made


def checks(found: Mapping[Cell, Figures]) -> dict[str, bool]:
    """Return whether each target is reached."""
    cells = sorted({cell[:3] for cell in found})
    over: dict[tuple[str, str, float], float] = {}
    defers = []
    for cell in cells:
        fixed = {n: found[(*cell, f"fixed {n}")] for n in FIXED}
        ours = found[(*cell, "reserve")]
        over[cell] = ours.accuracy - max(row.accuracy for row in fixed.values())
        if fixed[1].deferred == 0:
            defers.append(ours.deferred)
    shifts = {name: abs(_shift(found, name)) for name in CHECKED}
    return {
        "no budget exceeded by more than a step": all(row.over <= 1 + 1e-9 for row in found.values()),
        "reserve defers under 1 % where one sample each is affordable": max(defers) < 0.01,
        "reserve at most 1 point below the best fixed n in every cell": min(over.values()) >= -0.01,
        "reserve 1 point above it on average where c >= 1.5": fmean(
            gain for cell, gain in over.items() if cell[2] >= 1.5
        )
        >= 0.01,
        "the online cost model moves samples with load": shifts["online"] > 0.1,
        "nothing does without one": max(shifts["online, fixed prices"], shifts["reasoning only"]) < 0.05,
        "nor one that sees no load": shifts["online, no signal"] < 0.05,
    }


def _shift(found: Mapping[Cell, Figures], label: str) -> float:
    """Return by which share fewer samples are drawn at the highest load than at none, cycling, c = 2."""
    shares = []
    for cell, row in found.items():
        if cell[1:] == ("cycling", 2.0, label):
            low, high = row.by_load[1.0], row.by_load[3.74]
            shares.append(1 - high / low)
    return fmean(shares)


def main() -> int:
    """Run the grid and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="the recorded samples of the models named in this script")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int)
    parser.add_argument(
        "--rows", nargs="+", choices=ROWS, default=[*ROWS], help="besides fixed numbers (all)"
    )
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    jobs = [(arguments.file, model, seed, tuple(arguments.rows)) for seed in seeds for model in MODELS]
    runs: dict[Cell, list[Told]] = defaultdict(list)
    with ProcessPoolExecutor(arguments.processes) as pool:
        for told in pool.map(simulate, jobs):
            for cell, run in told.items():
                runs[cell].append(run)
    found = {cell: figures(told) for cell, told in runs.items()}
    for model, name, budget in dict.fromkeys(cell[:3] for cell in found):
        rows = {cell[3]: row for cell, row in found.items() if cell[:3] == (model, name, budget)}
        wide_console().print(table(f"{model}, load {name}, c = {budget:g}", rows))
    summary = _summary(found, arguments.rows)
    for name, value in summary.items():
        print(f"{name:40} {value:.4f}")
    return finish(summary, checks(found) if set(arguments.rows) >= CHECKED else {})


def _summary(found: Mapping[Cell, Figures], labels: Sequence[str]) -> dict[str, float]:
    """Return every row against the best fixed n in hindsight: the worst cell, and the means."""
    told: dict[str, float] = {}
    cells = sorted({cell[:3] for cell in found})
    for label in labels:
        over = {
            cell: found[(*cell, label)].accuracy - max(found[(*cell, f"fixed {n}")].accuracy for n in FIXED)
            for cell in cells
        }
        told[f"{label}: worst cell"] = min(over.values())
        told[f"{label}: mean, c = 1"] = fmean(gain for cell, gain in over.items() if cell[2] == 1)
        told[f"{label}: mean, c >= 1.5"] = fmean(gain for cell, gain in over.items() if cell[2] >= 1.5)
        told[f"{label}: deferred"] = fmean(found[(*cell, label)].deferred for cell in cells)
        told[f"{label}: joules for each right"] = fmean(found[(*cell, label)].joules for cell in cells)
        told[f"{label}: fewer at high load"] = _shift(found, label)
    return {name: value for name, value in told.items() if math.isfinite(value)}


if __name__ == "__main__":
    raise SystemExit(main())
