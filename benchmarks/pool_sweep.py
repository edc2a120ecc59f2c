"""A sweep over strategies and n, with a pool of samples and without, on sums with a real model.

Every job is run twice in one process on one warm engine, without the pool and with it, in turn the other way
round, so that neither has the machine while it is slower. Printed are the wall seconds of both ways with
their ratio, and which results do not have the answer, logical and serial tokens of their pool-less twins.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import finish
from rich.console import Console
from rich.table import Table

from ttsflow.config import compose
from ttsflow.engines import warm
from ttsflow.run import run_config
from ttsflow.summary import Summary

STRATEGIES = ("majority", "best_of_n", "ffs", "lfs", "weighted_majority", "self_consistency")
#: Strategies that keep k of n.
CHOOSY = ("ffs", "lfs")
VLLM = (
    *("engine=vllm", "engine.model=demo", "engine.dtype=float32", "engine.seats=64", "engine.context=1024"),
    *("engine.kv_gib=0.5", "sampling.max_tokens=96"),
)
#: What may not differ.
BOOKS = ("output", "aborted", "serial", "requests", "prompt")


def job(strategy: str, n: int) -> list[str]:
    """Return the overrides of one job."""
    k = [f"strategy.k={max(1, n // 2)}"] if strategy in CHOOSY else []
    return [f"strategy={strategy}", f"strategy.n={n}", *k]


def run(words: Sequence[str], folder: Path) -> tuple[Summary, dict[str, dict[str, Any]]]:
    """Run one job; return its summary and its results by problem. Exits when it does not complete."""
    summary = run_config(compose(words), folder)
    if summary.status != "complete":
        message = f"{folder.name}: {summary.status}: {summary.error}"
        raise SystemExit(message)
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return summary, {record["id"]: record for record in map(json.loads, lines)}


def told(record: Mapping[str, Any]) -> list[Any]:
    """Return what a pool may not change of a result."""
    return [record["answer"], record["outcome"], record["text"], *(record["usage"][name] for name in BOOKS)]


def main() -> int:
    """Run the sweep both ways and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--terms", type=int, default=3, help="numbers of each sum")
    parser.add_argument("--n", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES, choices=STRATEGIES)
    parser.add_argument("--engine", choices=["vllm", "fake"], default="vllm")
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--least", type=float, default=3.0, help="how many times faster it has to be")
    arguments = parser.parse_args()
    engine = VLLM if arguments.engine == "vllm" else ("engine=fake", "engine.capacity=64")
    shared = [*engine, f"task.size={arguments.problems}", f"concurrency={arguments.concurrency}"]
    shared += [f"task.terms={arguments.terms}", "verifier=equations", "trace=false", "seed=0"]
    seconds = {"plain": 0.0, "pool": 0.0}
    decoded, table, differ = {"plain": 0, "pool": 0}, Table(box=None), []
    for column in ("strategy", "n", "plain s", "pool s", "times", "tokens", "from the pool", "decoded again"):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    table.add_column("differ", justify="right")
    jobs = [(strategy, n) for strategy in arguments.strategies for n in arguments.n]
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("default")
        folder = Path(name)
        # The engine is loaded, and warm, before anything is timed.
        run([*shared, *job("majority", 2), "limit=1"], folder / "warm")
        for number, (strategy, n) in enumerate(jobs):
            found: dict[str, tuple[Summary, dict[str, dict[str, Any]]]] = {}
            for way in ("plain", "pool")[:: -1 if number % 2 else 1]:
                pool = [f"engine.pool={folder / 'samples.pool'}"] if way == "pool" else []
                found[way] = run([*shared, *job(strategy, n), *pool], folder / f"{way}-{strategy}-{n}")
                summary = found[way][0]
                seconds[way] += float(summary.usage["wall_seconds"] or 0)
                decoded[way] += int(summary.usage["decoded_tokens"] or 0)
            plain, pool_run = found["plain"], found["pool"]
            others = [one for one, record in plain[1].items() if told(record) != told(pool_run[1][one])]
            differ += [(strategy, n, one, told(plain[1][one]), told(pool_run[1][one])) for one in others]
            both = [float(found[way][0].usage["wall_seconds"] or 0) for way in ("plain", "pool")]
            usage, work = pool_run[0].usage, pool_run[0].work
            times = f"{both[0] / both[1]:.1f}" if both[1] else "-"
            counts = (usage["decoded_tokens"], usage["reused_tokens"], int(work["pool_decoded_again"]))
            cells = (f"{both[0]:.1f}", f"{both[1]:.1f}", times, *map(str, counts), str(len(others)))
            table.add_row(strategy, str(n), *cells)
            print(f"{strategy} n={n}: {both[0]:.1f} s, {both[1]:.1f} s", flush=True)
        size = (folder / "samples.pool").stat().st_size
    warm.close_all()
    Console(width=150).print(table)
    for strategy, n, one, *both in differ:
        print(f"differs: {strategy} n={n} {one}: {both[0]} without, {both[1]} with the pool")
    ratio = seconds["plain"] / seconds["pool"] if seconds["pool"] else 0.0
    figures = {
        "jobs": len(jobs),
        "problems": arguments.problems,
        "plain_seconds": seconds["plain"],
        "pool_seconds": seconds["pool"],
        "ratio": ratio,
        "decoded_tokens": decoded,
        "results": len(jobs) * arguments.problems,
        "results_that_differ": len(differ),
        "pool_mb": size / 1e6,
    }
    checks = {
        f"at least {arguments.least:g} times less wall time": ratio >= arguments.least,
        "answers, logical and serial tokens are those of the twins": not differ,
    }
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
