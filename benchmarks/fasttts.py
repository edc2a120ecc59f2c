"""How much faster verifier-guided search is than the loops one writes on stock vLLM, on the same two models.

Goodput is distinct tokens of finished beams per second, everything inside the clock. ``A`` searches one
problem at a time: all beams of a round are generated, then all are scored from their first token; ``B`` is
``A`` with the verifier's prefix cache, ``C`` is ``B`` with as many problems in lock step as ttsflow has in
flight. All run on the engines that ttsflow holds, in turns, caches emptied before every run.

The whole grid takes many hours on a small machine. With ``--record FILE`` every run is a line of that file,
and the figures are those of all its lines of the cells asked for, so that it can be measured in pieces; with
``--repeat 0`` nothing is run.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from common import finish, run
from fasttts_loops import Shape, Stock, search_all
from fasttts_meter import Meter
from fasttts_work import WIDTH, WORKLOADS, Cell, overrides, word_problems
from rich.table import Table

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.engines import warm
from ttsflow.listing import wide_console
from ttsflow.setup import Setup

#: Problems at once where there are several.
FLIGHT = 4

#: The loops: whether the verifier reads its prefix cache, and how many problems are in lock step.
LOOPS: Mapping[str, tuple[bool, int]] = {"A": (False, 1), "B": (True, 1), "C": (True, FLIGHT)}


class Variant(NamedTuple):
    """ttsflow with some of its techniques: what is set beside the cell's own config, and which KV is kept."""

    words: tuple[str, ...]
    partial: bool = False


_FOUR = f"concurrency={FLIGHT}"
_EAGER = "engine.eager_verify=true"
_EARLY = (_EAGER, "engine.speculation=true")

#: ttsflow, a row each: with what pays on such a machine (``one``, ``four``, and ``ordered`` where KV memory
#: is short), by itself, with one technique, with all.
VARIANTS: Mapping[str, Variant] = {
    "one": Variant(("concurrency=1",), partial=True),
    "four": Variant((_FOUR,), partial=True),
    "ordered": Variant((_FOUR, "engine.prefix_order=true"), partial=True),
    "plain": Variant((_FOUR,)),
    "order": Variant((_FOUR, "engine.prefix_order=true")),
    "eager": Variant((_FOUR, _EAGER)),
    "early": Variant((_FOUR, *_EARLY)),
    "all": Variant((_FOUR, *_EARLY, "engine.prefix_order=true"), partial=True),
}

#: The rows that the targets are about.
ONE, FOUR = "one", "four"

#: Rows that take part in every so many repetitions only: slow ones, from which the distance is large.
EVERY: Mapping[str, int] = {"A": 3, "B": 3, ONE: 3}


class Took(NamedTuple):
    """One run: what came of it, and where its seconds went.

    ``cpu`` are seconds of processor time: where they say something else than ``seconds``, the machine had
    other things to do.
    """

    seconds: float
    cpu: float
    tokens: int
    answers: tuple[str | None, ...]
    generator: Mapping[str, float]
    verifier: Mapping[str, float]
    date: str

    @property
    def goodput(self) -> float:
        """Distinct tokens of finished beams per second."""
        return self.tokens / self.seconds


class Bench:
    """The two engines, and everything that runs on them."""

    def __init__(self, folder: Path, problems: int) -> None:
        self._folder = folder
        self._problems = problems
        self._file = word_problems(folder / "words.jsonl", problems)
        self._numbers = itertools.count()
        self._meters: dict[int, tuple[Any, Meter]] = {}
        self._stores: dict[int, Any] = {}

    def take(self, cell: Cell, label: str, *, problems: int | None = None) -> Took:
        """Run a loop or a variant of ttsflow once, on empty caches."""
        variant = VARIANTS.get(label, Variant(()))
        size = problems or self._problems
        words = [*overrides(cell, size, self._file, partial=variant.partial), *variant.words]
        setup = assemble(compose(words))
        engines, meters = self._open(setup)
        for engine in engines:
            self._keep(_core(engine), partial=variant.partial)
        gc.collect()
        if label in LOOPS:
            return self._loop(cell, label, setup, engines, meters)
        busy = time.process_time()
        done = run(f"{cell}-{label}-{next(self._numbers)}", words, self._folder, show=False)
        busy = time.process_time() - busy
        results = [done.results[name] for name in sorted(done.results)]
        return Took(
            float(done.summary.usage["wall_seconds"] or 0.0),
            busy,
            sum(result["path_tokens"] for result in results),
            tuple(result["answer"] for result in results),
            *(meter.read() for meter in meters),
            date=_today(),
        )

    def _loop(
        self, cell: Cell, label: str, setup: Setup, engines: Sequence[Any], meters: Sequence[Meter]
    ) -> Took:
        cached, in_flight = LOOPS[label]
        shape = Shape.of(cell.strategy, cell.n, WIDTH, WORKLOADS[cell.workload].depth)
        problems = list(setup.task.problems())[: setup.limit]
        stock = Stock(setup, engines, [_core(engine) for engine in engines], cached=cached)
        busy, began = time.process_time(), time.perf_counter()
        found = search_all(stock, problems, shape, in_flight)
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        found.sort(key=lambda item: item.id)
        return Took(
            seconds,
            busy,
            sum(item.tokens for item in found),
            tuple(item.answer for item in found),
            *(meter.read() for meter in meters),
            date=_today(),
        )

    def _keep(self, core: Any, *, partial: bool) -> None:
        """Have partly filled blocks kept, or not: without, the engine is as vLLM makes it."""
        scheduler = core.engine_core.engine_core.scheduler
        store = self._stores.setdefault(id(core), scheduler.connector)
        scheduler.connector = store if partial else None

    def _open(self, setup: Setup) -> tuple[list[Any], list[Meter]]:
        """Return both engines, emptied, and their meters; they are loaded when they are not yet."""
        engines = warm.acquire_all([setup.engine, *setup.verifier.engines])
        meters = []
        for engine in engines:
            # Kept with its meter, so that no later one can have its place in memory.
            core, meter = self._meters.get(id(_core(engine)), (None, None))
            if meter is None:
                core, meter = _core(engine), Meter().attach(_core(engine))
                self._meters[id(core)] = core, meter
            meter.read()
            meters.append(meter)
        return engines, meters


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _core(engine: Any) -> Any:
    """Return vLLM's own engine inside one of ttsflow's, so that no model is loaded twice."""
    return engine._core  # noqa: SLF001 - loops on stock vLLM are what this is about


class Record:
    """The runs measured so far, by cell and row; ``file`` has them, and gets a line for each new one."""

    def __init__(self, file: Path | None, problems: int) -> None:
        self._file = file
        self._taken: dict[tuple[str, str], list[Took]] = {}
        # Runs of other problems are no repetitions.
        self._problems = problems
        if file is not None and file.exists():
            for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
                if line["problems"] == problems:
                    took = Took(**{name: line[name] for name in Took._fields})
                    self._known(line["cell"], line["label"]).append(took)

    def _known(self, cell: str, label: str) -> list[Took]:
        return self._taken.setdefault((cell, label), [])

    def of(self, cell: Cell, labels: Sequence[str]) -> dict[str, list[Took]]:
        """Return the runs of a cell, of those rows that have any."""
        return {label: runs for label in labels if (runs := self._known(str(cell), label))}

    def add(self, cell: Cell, label: str, took: Took) -> None:
        """Take in a run."""
        self._known(str(cell), label).append(took)
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                of = {"cell": str(cell), "label": label, "problems": self._problems}
                lines.write(json.dumps(of | took._asdict()) + "\n")


def measure(bench: Bench, cell: Cell, labels: Sequence[str], repeat: int, record: Record) -> None:
    """Run all labels in turns, a rotated order each time."""
    for turn in range(repeat):
        shift = turn % len(labels)
        for label in [*labels[shift:], *labels[:shift]]:
            if turn % EVERY.get(label, 1) == 0:
                took = bench.take(cell, label)
                print(f"{cell} {label}: {took.tokens} tokens in {took.seconds:.1f} s", flush=True)
                record.add(cell, label, took)


def ratio(ours: Sequence[Took], theirs: Sequence[Took]) -> list[float] | None:
    """Return the median ratio of goodputs with its bootstrap 95 % interval; None without any.

    Runs of a day are compared with each other: from one day to the next the machine may be twice as fast.
    """
    import numpy as np

    days = {took.date for took in ours} & {took.date for took in theirs}
    if not days:
        return None
    rng = np.random.default_rng(0)
    drawn, measured = [], []
    for day in sorted(days):
        here, there = ([took.goodput for took in taken if took.date == day] for taken in (ours, theirs))
        measured += [a / b for a in here for b in there]
        drawn.append(
            rng.choice(here, (10_000, len(here)))[:, :, None]
            / rng.choice(there, (10_000, len(there)))[:, None, :]
        )
    medians = np.median(np.concatenate([some.reshape(10_000, -1) for some in drawn], axis=1), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return [round(float(value), 3) for value in (statistics.median(measured), low, high)]


def figures_of(taken: Mapping[str, Sequence[Took]]) -> dict[str, Any]:
    """Return a cell's figures: of every row the median run, and ttsflow's rows against the loops."""
    figures: dict[str, Any] = {}
    for label, runs in taken.items():
        middle = sorted(runs, key=lambda took: took.goodput)[len(runs) // 2]
        figures[label] = {
            "goodput": round(statistics.median(took.goodput for took in runs), 2),
            "seconds": round(middle.seconds, 2),
            "cpu": round(middle.cpu, 2),
            "tokens": middle.tokens,
            "runs": len(runs),
            **{
                name: {key: round(value, 2) for key, value in meter.items()}
                for name, meter in (("generator", middle.generator), ("verifier", middle.verifier))
            },
        }
        if label not in LOOPS:
            for loop in LOOPS:
                found = ratio(runs, taken.get(loop, ()))
                if found is not None:
                    figures[label][f"over_{loop}"] = found
        first = next(iter(taken.values()))[0]
        figures[label]["answers_as_first"] = sum(map(str.__eq__, *map(_said, (middle, first))))
    return figures


def _said(took: Took) -> list[str]:
    return list(map(str, took.answers))


def show(cell: Cell, figures: Mapping[str, Any]) -> None:
    """Print a cell as a table."""
    table = Table(title=str(cell), title_justify="left")
    for name in ("", "goodput", "over A", "over B", "over C", "s", "cpu s", "tokens"):
        table.add_column(name, justify="right" if name else "left")
    for engine in ("gen", "ver"):
        for name in ("%", "steps", "batch", "tokens", "cached", "evicted"):
            table.add_column(f"{engine} {name}", justify="right")
    table.add_column("own %", justify="right")
    for label, row in figures.items():
        over = [f"{row[key][0]:.2f}" if (key := f"over_{loop}") in row else "" for loop in LOOPS]
        cells = [
            label,
            f"{row['goodput']:.1f}",
            *over,
            f"{row['seconds']:.1f}",
            f"{row['cpu']:.1f}",
            str(row["tokens"]),
        ]
        rest = 1.0
        for meter in (row["generator"], row["verifier"]):
            share, steps = meter["seconds"] / row["seconds"], meter["steps"]
            rest -= share
            batch = meter["requests"] / steps if steps else 0.0
            counts = [f"{meter[name]:.0f}" for name in ("tokens", "cached", "preempted")]
            cells += [f"{share:.0%}", f"{steps:.0f}", f"{batch:.1f}", *counts]
        table.add_row(*cells, f"{rest:.1%}")
    wide_console().print(table)


def ratios(figures: Mapping[Cell, Any], label: str, loop: str, workload: str = "") -> list[float]:
    """Return the ratios of a row over a loop in all cells of a workload that have both."""
    return [
        rows[label][f"over_{loop}"][0]
        for cell, rows in figures.items()
        if workload in {"", cell.workload} and f"over_{loop}" in rows.get(label, {})
    ]


def targets(figures: Mapping[Cell, Any], *, tight: bool) -> Iterator[tuple[str, bool]]:
    """Yield whether each target is reached, of those that were measured; ``tight``: with little KV memory."""
    over_c = ratios(figures, FOUR, "C")
    if tight:
        if over_c:
            yield "C: at least 1.3 with little KV memory", statistics.mean(over_c) >= 1.3
        return
    for workload, label, loop, least in (
        ("V", FOUR, "A", 4.0),
        ("V", FOUR, "B", 1.5),
        ("G", FOUR, "A", 2.0),
        ("G", ONE, "A", 1.15),
    ):
        found = ratios(figures, label, loop, workload)
        if found:
            yield f"{workload}: {label} at least {least} times {loop}", statistics.mean(found) >= least
    if over_c:
        yield "C: at least 1.05 on average", statistics.mean(over_c) >= 1.05
        yield "C: no cell below 0.97", min(over_c) >= 0.97


def grid(arguments: argparse.Namespace) -> list[Cell]:
    """Return the cells asked for; those of one memory size stand together, so that engines stay loaded."""
    return [
        Cell(workload, strategy, n, arguments.kv)
        for workload in arguments.workloads
        for n in arguments.n
        for strategy in arguments.strategies
    ]


def main() -> int:
    """Measure the grid and print the figures."""
    labels = [*LOOPS, *VARIANTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--strategies", nargs="+", choices=("beam_search", "dvts"))
    parser.add_argument("--n", nargs="+", type=int)
    parser.add_argument("--variants", nargs="+", choices=labels)
    parser.add_argument("--problems", type=int)
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--kv", type=float, help="KV memory of each engine, in rounds of one problem")
    parser.add_argument("--record", type=Path, help="a file to keep every run in, and to go on from")
    parser.add_argument("--quick", action="store_true", help="n = 8 and two problems, C and ttsflow once")
    arguments = parser.parse_args()
    arguments.strategies = arguments.strategies or ["beam_search", "dvts"]
    arguments.n = arguments.n or ([8] if arguments.quick else [8, 16, 32])
    arguments.variants = arguments.variants or (["C", FOUR] if arguments.quick else labels)
    arguments.problems = arguments.problems or (2 if arguments.quick else FLIGHT)
    repeat = (1 if arguments.quick else 3) if arguments.repeat is None else arguments.repeat
    record = Record(arguments.record, arguments.problems)
    figures: dict[Cell, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), arguments.problems)
        for cell in grid(arguments):
            if repeat and (not figures or cell.kv is not None):
                for label in ("C", FOUR):
                    bench.take(cell, label, problems=1)
            measure(bench, cell, arguments.variants, repeat, record)
            taken = record.of(cell, labels)
            if taken:
                figures[cell] = figures_of(taken)
                show(cell, figures[cell])
    warm.close_all()
    checks = dict(targets(figures, tight=arguments.kv is not None))
    return finish({str(cell): rows for cell, rows in figures.items()}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
