"""Running stages and strategies without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ttsflow.acceleration import PLAIN, Acceleration
from ttsflow.costs.basic import Requests, Seconds, Tokens
from ttsflow.driver import Driver
from ttsflow.engines.accelerated import accelerated
from ttsflow.ledger import Budget, Ledger
from ttsflow.ops import Op
from ttsflow.protocols import Engine, Stage, Task, Verifier
from ttsflow.settle import Rules
from ttsflow.strategies.flow import run_stage
from ttsflow.testing.fake import FakeEngine
from ttsflow.testing.parts import FakeTask, FakeVerifierPart
from ttsflow.trace import Recorder
from ttsflow.types import Problem, Result, Sampling, State

__all__ = ["drive", "run_fake"]


def drive(stage: Stage, state: State, answer: Callable[[Op], Any]) -> State:
    """Run one stage alone: ``answer`` plays the driver and returns the reply to each operation."""
    steps = run_stage(stage, state)
    reply: Any = None
    try:
        while True:
            reply = answer(steps.send(reply))
    except StopIteration as end:
        final: State = end.value
        return final


def run_fake(
    strategy: Stage,
    problems: Sequence[Problem] | None = None,
    *,
    engine: Engine | None = None,
    task: Task | None = None,
    verifier: Verifier | None = None,
    budget: Budget | None = None,
    sampling: Sampling | None = None,
    seed: int = 0,
    concurrency: int = 8,
    logprobs: int = 0,
    certainty: bool = False,
    trace: Recorder | None = None,
    acceleration: Acceleration | None = None,
) -> Mapping[str, Result]:
    """Run a strategy on the fakes and return results by problem id."""
    task = task or FakeTask()
    engine = accelerated(engine or FakeEngine(), acceleration or PLAIN, budget=bool(budget))
    ledger = Ledger({"tokens": Tokens(), "seconds": Seconds(), "requests": Requests()}, budget or Budget())
    driver = Driver(
        strategy,
        Rules(engine, task, sampling or Sampling(), seed, logprobs, certainty=certainty),
        ledger,
        verifier=verifier or FakeVerifierPart().open(),
        trace=trace,
        concurrency=concurrency,
        acceleration=acceleration,
    )
    return {result.id: result for result in driver.run(problems or task.problems())}
