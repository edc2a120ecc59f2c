"""Whether anything but time changes: every strategy on random schedules, on all engines without a model.

A schedule draws seats, memory, preemptions, problems in flight, a slow verifier, and what is switched on to
make a run faster, on the fake engine a pool of samples that all schedules share among it. Results, samples
and token books are held to those of the plain engine. One that differs is printed with its number, from which
it can be played again.
"""

from __future__ import annotations

import argparse
import atexit
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import finish

from ttsflow import Pipeline
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.engines.sample_store import SampleStore
from ttsflow.plugins import load
from ttsflow.testing.schedules import draw, play, same
from ttsflow.types import Result

#: Strategies that continue or look into trajectories, which recorded samples do not allow.
LIKE = (
    "adaptive_consistency",
    "best_of_n",
    "esc",
    "ffs",
    "lfs",
    "majority",
    "self_consistency",
    "short_m_at_k",
)
#: What one problem has cost, or came to, decides over others there, and so does the order of ends.
STEERED = {"atest_beam", "atest_calibrated", "atest_online", "atest_reserve", "auto"}
#: Strategies with a watch that ends samples.
WATCHED = ("ffs", "short_m_at_k")
#: What may differ: how long it took, and what was decoded of requests that are ended early.
TIMES = ("aborted", "adopted", "cached", "dropped", "engine_steps", "seconds", "verifier")
#: Simulated tokens say nothing of their certainty, and a probe or a rollout is no piece of a law.
SIMULATED = (
    *("beam_search", "dvts", "lookahead", "rebase", "dynamic_branching", "varying_granularity"),
    *("best_of_n", "majority", "weighted_majority", "ffs", "esc"),
)


def on_fake(names: list[str], number: int) -> bool:
    """Return whether one schedule on the fake engine comes to the same."""
    strategy = _strategy(names[number % len(names)])
    settings = {"logprobs": 20, "certainty": True}
    name = names[number % len(names)]
    if name not in _plain:
        _plain[name] = play(strategy, **settings)
    return same(_plain[name], play(strategy, draw(number), pool=_pool(), **settings))


@cache
def _pool() -> SampleStore:
    """Return a pool that is filled by one schedule and used by the next."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    return SampleStore(Path(folder.name) / "samples.pool")


_built: dict[str, Any] = {}
#: What the plain engine came to; it is the same for all schedules of a strategy.
_plain: dict[str, Any] = {}


def _strategy(name: str) -> Any:
    if name not in _built:
        n = [] if name in {"single", "recipe"} else ["strategy.n=8"]
        _built[name] = build("stage", compose([f"strategy={name}", *n])["strategy"], "strategy", load())
    return _built[name]


def on_sim(number: int) -> bool:
    """Return whether one schedule on the simulator comes to the same; seats and KV cache vary."""
    rng = random.Random(number)  # noqa: S311 - a schedule, not a secret
    faster = asdict(draw(number).acceleration)
    name = SIMULATED[number % len(SIMULATED)]
    engine = {"use": "sim", "model": "smollm2-135m", "context": 4096}
    tight = {
        "seats": rng.choice((1, 3, 8, 64)),
        "block_size": rng.choice((8, 16, 32)),
        "kv_gib": rng.uniform(0.1, 0.4),
    }
    verifier = {
        "use": "simulated",
        "model": "skywork-prm-1.5b",
        "memory_share": 0.3,
        "together": rng.random() < 0.5,
    }
    verifier["prefix_cache"] = rng.random() < 0.5

    def run(more: Mapping[str, Any], concurrency: int) -> list[Any]:
        pipeline = Pipeline(
            name,
            engine={**engine, "memory_share": 0.6, **more},
            task={"use": "simulated", "size": 3},
            verifier=verifier,
            hardware="rtx4090",
            n=8,
            concurrency=concurrency,
        )
        return [_told(name, result) for result in pipeline.run().results]

    if f"sim {name}" not in _plain:
        _plain[f"sim {name}"] = run({}, 1)
    return _plain[f"sim {name}"] == run({**tight, **faster}, rng.choice((1, 2, 3)))


def on_replay(number: int) -> bool:
    """Return whether one schedule of recorded samples comes to the same; seats vary."""
    rng = random.Random(number)  # noqa: S311 - a schedule, not a secret
    name = LIKE[number % len(LIKE)]

    def run(more: Mapping[str, Any]) -> list[Any]:
        pipeline = Pipeline(
            name,
            engine={"use": "replay", **more},
            task={"use": "recorded", "model": "R1"},
            sampling="recorded",
            verifier={"use": "random"},
            **({"k": 2} if name in {"ffs", "lfs"} else {}),
            n=8,
        )
        problems = list(pipeline.setup.task.problems())[:4]
        pipeline.setup = replace(pipeline.setup, limit=len(problems))
        return [_told(name, result) for result in pipeline.run().results]

    if f"replay {name}" not in _plain:
        _plain[f"replay {name}"] = run({})
    return _plain[f"replay {name}"] == run(
        {"seats": rng.choice((1, 3, 8, 64)), **asdict(draw(number).acceleration)}
    )


def _told(name: str, result: Result) -> Any:
    """Return what may not differ; how far samples are that are ended early depends on the seats."""
    if name in WATCHED:
        return result.id, result.answer, result.outcome, result.usage.serial, result.text
    usage = replace(result.usage, **dict.fromkeys(TIMES, 0))
    return replace(result, usage=usage, cost={}, fingerprint="", versions={})


def main() -> int:
    """Play all schedules and count those that differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fake", type=int, default=7500)
    parser.add_argument("--sim", type=int, default=2000)
    parser.add_argument("--replay", type=int, default=500)
    parser.add_argument("--start", type=int, default=0, help="the first number of a schedule")
    arguments = parser.parse_args()
    names = sorted({entry.name for entry in load().entries("strategy")} - STEERED)
    engines: dict[str, tuple[Callable[[int], bool], int]] = {
        "fake": (lambda number: on_fake(names, number), arguments.fake),
        "sim": (on_sim, arguments.sim),
        "replay": (on_replay, arguments.replay),
    }
    figures: dict[str, object] = {}
    for label, (plays, many) in engines.items():
        differ = []
        for number, _ in zip(count(arguments.start), range(many)):
            if not plays(number):
                differ.append(number)
                print(f"{label}: schedule {number} differs", flush=True)
        figures |= {f"{label}_schedules": many, f"{label}_differ": len(differ)}
    return finish(figures, {"nothing differs": not any(figures[f"{label}_differ"] for label in engines)})


if __name__ == "__main__":
    raise SystemExit(main())
