"""Ways to foresee what samples cost while the load jumps: how often the price is enough, and how far above.

Simulated: a step of n samples costs (a + b n) m(load) with 10 % of noise, in joules; a = 0.9 b, and 121.7 J
for 4 samples when idle. Compared are the online price (recursive least squares), the same without forgetting,
the running mean by sample, and a quadratic in samples and load, fitted anew to the last 200 steps before
every step. All reckon with mean + 2 max(sigma, 10 % of the mean), sigma being each model's own. The traces
are ``steady`` (idle), ``rising``, ``cycling`` and ``jumping`` loads, and ``unseen``: from step 500 on all
costs are half as much again, and nothing else tells. Last, what two caps of the trace make of the very
first jump of the load, after 300 idle steps.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np
from common import finish
from rich.table import Table

from ttsflow.costs.online import Estimate, OnlineCost
from ttsflow.listing import wide_console

#: What a load makes of the cost of a step.
LOADS: Mapping[float, float] = {0.0: 1.0, 0.25: 2.0, 0.55: 3.0, 0.85: 3.74}
PER_SAMPLE = 121.7 / 4.9
NOISE = 0.1
#: Steps of the ladder 1, 3, 4, 6, 8; the first is taken by all.
SAMPLES, SHARES = (1, 2), (0.6, 0.4)
BETA, LEAST = 2.0, 0.1
#: Steps after a jump that are told by themselves.
AFTER = 5
MOST_UNCOVERED = 0.1

Step = tuple[int, float, float, bool]


class Model(Protocol):
    """What foresees a cost and is told what it was."""

    def estimate(self, samples: int, load: float) -> Estimate | None:
        """Return what is foreseen."""
        ...

    def observe(self, samples: int, load: float, cost: float) -> object:
        """Take in what it was."""
        ...


class RunningMean:
    """The mean cost of a sample so far, whatever the load."""

    def __init__(self) -> None:
        self.costs: list[float] = []

    def estimate(self, samples: int, load: float) -> Estimate | None:
        """Return the mean by sample, and the deviation of all so far."""
        del load
        if not self.costs:
            return None
        mean, sigma = float(np.mean(self.costs)), float(np.std(self.costs))
        return Estimate(mean * samples, BETA * max(sigma, LEAST * mean) * samples)

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Remember the cost by sample."""
        del load
        self.costs.append(cost / samples)


class Quadratic:
    """1, n, u, n^2, n u and u^2 by ridge regression over the last 200 steps, fitted before every step."""

    LAST, RIDGE = 200, 0.01

    def __init__(self) -> None:
        self.points: list[list[float]] = []
        self.costs: list[float] = []

    def estimate(self, samples: int, load: float) -> Estimate | None:
        """Return the fit's mean, and its standard deviation with that of the coefficients."""
        if not self.costs:
            return None
        points, costs = np.array(self.points[-self.LAST :]), np.array(self.costs[-self.LAST :])
        information = points.T @ points + self.RIDGE * np.eye(6)
        theta = np.linalg.solve(information, points.T @ costs)
        point = np.array(self._point(samples, load))
        spread = float(point @ np.linalg.solve(information, point))
        free = max(1.0, len(costs) - 6)
        sigma = math.sqrt(float(np.sum((costs - points @ theta) ** 2)) / free * (1 + spread))
        mean = max(float(point @ theta), LEAST * self.costs[-1])
        return Estimate(mean, BETA * max(sigma, LEAST * mean))

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Remember the step."""
        self.points.append(self._point(samples, load))
        self.costs.append(cost)

    @staticmethod
    def _point(samples: int, load: float) -> list[float]:
        n = samples / 4
        return [1.0, n, load, n * n, n * load, load * load]


MODELS: Mapping[str, Callable[[], Model]] = {
    "online": OnlineCost,
    "online, nothing forgotten": lambda: OnlineCost(forgetting=1.0),
    "running mean": RunningMean,
    "quadratic, last 200": Quadratic,
}


def steady(step: int, seed: int) -> tuple[float, float]:
    """Return load and its factor at a step: always idle."""
    del step, seed
    return 0.0, 1.0


def rising(step: int, seed: int) -> tuple[float, float]:
    """Return load and its factor at a step: four blocks of 250, each with more load."""
    del seed
    load = list(LOADS)[step // 250 % 4]
    return load, LOADS[load]


def cycling(step: int, seed: int) -> tuple[float, float]:
    """Return load and its factor at a step: the four loads in turn, 25 steps each."""
    del seed
    load = list(LOADS)[step // 25 % 4]
    return load, LOADS[load]


def jumping(step: int, seed: int) -> tuple[float, float]:
    """Return load and its factor at a step: any of the four, drawn anew every 75 steps."""
    load = float(np.random.default_rng([seed, step // 75]).choice(list(LOADS)))
    return load, LOADS[load]


def unseen(step: int, seed: int) -> tuple[float, float]:
    """Return load and its factor at a step: cycling, and from step 500 on half as much again."""
    load, factor = cycling(step, seed)
    return load, factor * (1.5 if step >= 500 else 1.0)


TRACES = {schedule.__name__: schedule for schedule in (steady, rising, cycling, jumping, unseen)}


def trace(name: str, seed: int, steps: int) -> Iterator[Step]:
    """Yield samples, load, cost, and whether the cost of a sample jumped within the last few steps."""
    random = np.random.default_rng(seed)
    jumped, last = -AFTER, None
    for step in range(steps):
        load, factor = TRACES[name](step, seed)
        if last not in (None, factor):
            jumped = step
        last = factor
        n = int(random.choice(SAMPLES, p=SHARES))
        noise = max(0.2, 1 + NOISE * random.standard_normal())
        yield n, load, PER_SAMPLE * (0.9 + n) * factor * noise, step < jumped + AFTER


def measured(model: Model, steps: Iterator[Step]) -> list[tuple[float, bool]]:
    """Return how far the price was above each cost, as a share of it, and whether it was after a jump."""
    found = []
    for samples, load, cost, jumped in steps:
        estimate = model.estimate(samples, load)
        if estimate is not None:
            found.append((estimate.price / cost - 1, jumped))
        model.observe(samples, load, cost)
    return found


def first_jump(trace_cap: float, seeds: int = 40) -> dict[str, float]:
    """Return how often the first jump of the load is covered, and the median price over the cost expected."""
    prices = []
    for seed in range(seeds):
        model = OnlineCost(trace_cap=trace_cap)
        for samples, load, cost, _ in trace("steady", seed, 300):
            model.observe(samples, load, cost)
        for load, factor in list(LOADS.items())[1:]:
            for samples in SAMPLES:
                estimate = model.estimate(samples, load)
                assert estimate is not None
                prices.append(estimate.price / (PER_SAMPLE * (0.9 + samples) * factor))
    return {"covered": float(np.mean(np.array(prices) >= 1)), "price": float(np.median(prices))}


def main() -> int:
    """Run every model over every trace and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    table = Table(title="what is kept ready for a step", title_justify="left")
    for column in ("trace", "model", "covered", "worst seed", "after a jump", "excess", "99 % below"):
        table.add_column(column, justify="left" if column in ("trace", "model") else "right")
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name in TRACES:
        for label, make in MODELS.items():
            runs = [measured(make(), trace(name, seed, arguments.steps)) for seed in range(arguments.seeds)]
            excess = np.array([one for run in runs for one, _ in run])
            after = [one >= 0 for run in runs for one, jumped in run if jumped]
            row = {
                "covered": float(np.mean(excess >= 0)),
                "worst_seed": min(float(np.mean([one >= 0 for one, _ in run])) for run in runs),
                "after_a_jump": float(np.mean(after)) if after else math.nan,
                "excess": float(excess.mean()),
                "excess_99": float(np.quantile(excess, 0.99)),
            }
            figures.setdefault(name, {})[label] = {
                key: round(value, 3) for key, value in row.items() if not math.isnan(value)
            }
            cells = ["-" if math.isnan(value) else f"{value:.1%}" for value in row.values()]
            table.add_row(name, label, *cells, end_section=label == list(MODELS)[-1])
    wide_console().print(table)
    jumps = {f"trace cap {cap:g}": first_jump(cap) for cap in (400, 1000)}
    for label, row in jumps.items():
        print(f"first jump, {label}: {row['covered']:.0%} covered, price {row['price']:.2f} of the cost")
    online = [by_model["online"] for by_model in figures.values()]
    checks = {
        "the online price covers 90 % in every trace": min(row["covered"] for row in online)
        >= 1 - MOST_UNCOVERED,
        "and for every seed": min(row["worst_seed"] for row in online) >= 1 - MOST_UNCOVERED,
    }
    return finish({**figures, "first_jump": jumps}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
