"""What ttsflow costs on top of vLLM, and how fast its driver is alone.

Majority@8 through ttsflow against plain ``LLM.generate`` with the same requests (token ids, seeds,
stop strings, priorities, seats, final outputs only) on the same loaded model, alternated; and the
driver on the fake engine, whose own time is part of the figure.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import finish

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.driver.loop import Driver
from ttsflow.driver.settle import Rules
from ttsflow.ledger import Ledger
from ttsflow.lineage import seed_of
from ttsflow.ops import EngineRequest
from ttsflow.protocols import Engine
from ttsflow.setup import Setup
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.watches import FirstFinished
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.trace import JsonTrace


def token_events(folder: Path, *, traced: bool) -> float:
    """Return token events per second of the driver on the fake engine, the best of five runs."""
    # A watch makes every token an event; with k = n it ends nothing.
    stages = {"sample": GenerateStage(16, watch=FirstFinished(16)), "vote": Aggregate()}
    best = 0.0
    for attempt in range(5):
        engine = FakeEngine(capacity=128)
        trace = JsonTrace(folder / f"events-{attempt}.jsonl") if traced else None
        began = time.perf_counter()
        run_fake(Sequence(stages), task=FakeTask(size=400), engine=engine, trace=trace)
        best = max(best, engine.decoded / (time.perf_counter() - began))
        if trace is not None:
            trace.close()
    return best


def through_ttsflow(setup: Setup, engine: Engine) -> tuple[float, int]:
    """Return seconds and decoded tokens of a majority run."""
    engine.reset()
    ledger = Ledger(setup.costs, setup.budget)
    rules = Rules(engine, setup.task, setup.sampling, setup.seed, setup.logprobs)
    driver = Driver(setup.strategy, rules, ledger, concurrency=setup.concurrency)
    began = time.perf_counter()
    results = list(driver.run(setup.task.problems()))
    return time.perf_counter() - began, sum(result.usage.decoded for result in results)


def plainly(setup: Setup, engine: Engine, llm: Any, samples: int) -> tuple[float, int]:
    """Return seconds and decoded tokens of the same requests given to ``LLM.generate``."""
    from vllm.inputs import tokens_input

    from ttsflow.engines.vllm_translate import params

    engine.reset()
    rules = Rules(engine, setup.task, setup.sampling, setup.seed, setup.logprobs)
    began = time.perf_counter()
    prompts, wanted, priorities = [], [], []
    for index, problem in enumerate(setup.task.problems()):
        prompt = engine.encode(problem.prompt)
        limit = setup.sampling.max_tokens
        for sample in range(samples):
            seed = seed_of(setup.seed, problem.id, (sample,))
            request = EngineRequest("", prompt, setup.sampling, seed, limit, rules.stop, priority=index)
            prompts.append(tokens_input(list(prompt)))
            wanted.append(params(request, limit))
            priorities.append(index)
    outputs = llm.generate(prompts, wanted, use_tqdm=False, priority=priorities)
    return time.perf_counter() - began, sum(len(output.outputs[0].token_ids) for output in outputs)


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """Return the median and its bootstrap 95 % interval."""
    import numpy as np

    draws = np.median(np.random.default_rng(0).choice(values, (10_000, len(values))), axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return statistics.median(values), float(low), float(high)


def compare(pairs: int, problems: int) -> dict[str, Any]:
    """Alternate the two ways on one loaded model; return ratios of their times."""
    overrides = ["strategy=majority", "strategy.n=8", f"task.size={problems}", "sampling.max_tokens=48"]
    setup = assemble(compose(overrides))
    from ttsflow.engines.vllm import VLLM
    from ttsflow.engines.vllm_live import VLLMEngine
    from ttsflow.engines.vllm_load import engine_args

    assert isinstance(setup.engine, VLLM)
    arguments = engine_args(setup.engine)
    from vllm import LLM

    llm = LLM.from_engine_args(arguments)
    engine = VLLMEngine(setup.engine, core=llm.llm_engine)
    ways: list[Callable[[], tuple[float, int]]] = [
        lambda: through_ttsflow(setup, engine),
        lambda: plainly(setup, engine, llm, 8),
    ]
    tokens = {way()[1] for way in ways}  # the first round of each warms up and is not counted
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(pairs):
        pair = [0.0, 0.0]
        # One pair is a, b, b, a: what drifts on the machine meanwhile falls on both alike.
        for which in (0, 1, 1, 0) if turn % 2 else (1, 0, 0, 1):
            seconds, decoded = ways[which]()
            pair[which] += seconds
            tokens.add(decoded)
        for which in (0, 1):
            times[which].append(pair[which] / 2)
    engine.close()
    ratios = [ours / plain for ours, plain in zip(*times, strict=True)]
    median, low, high = median_interval(ratios)
    return {
        "ratio_median": median,
        "ratio_ci95": [round(low, 4), round(high, 4)],
        "ratios": [round(ratio, 4) for ratio in ratios],
        "seconds_ttsflow": statistics.median(times[0]),
        "seconds_plain": statistics.median(times[1]),
        "tokens_seen": sorted(tokens),
        "pairs": pairs,
    }


def main() -> int:
    """Measure both and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--driver-only", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures: dict[str, Any] = {
            "events_per_second": token_events(Path(name), traced=False),
            "events_per_second_traced": token_events(Path(name), traced=True),
        }
    checks = {
        "at least 100,000 token events a second": figures["events_per_second"] >= 100_000,
        "at least 50,000 with the trace on": figures["events_per_second_traced"] >= 50_000,
    }
    if not arguments.driver_only:
        figures |= compare(arguments.pairs, arguments.problems)
        checks["upper end of the ratio's interval at most 1.05"] = figures["ratio_ci95"][1] <= 1.05
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
