"""Running stages and strategies without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ttsflow.acceleration import PLAIN, Acceleration
from ttsflow.choosers import choosers_of
from ttsflow.costs.basic import Requests, Seconds, Tokens
from ttsflow.costs.prices import Joules
from ttsflow.driver.choosing import Choosers
from ttsflow.driver.loop import Driver
from ttsflow.driver.metering import Metering
from ttsflow.driver.settle import Rules
from ttsflow.engines.accelerated import accelerated
from ttsflow.further import engines_of
from ttsflow.ledger import Budget, Ledger
from ttsflow.measuring import controllers_of
from ttsflow.ops import Op
from ttsflow.protocols import CostModel, Engine, Stage, Task, Verifier
from ttsflow.sensors import EnergyMeter, LoadMonitor
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
    engines: Mapping[str, Engine] | None = None,
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
    meter: EnergyMeter | None = None,
    load: LoadMonitor | None = None,
) -> Mapping[str, Result]:
    """Run a strategy on the fakes and return results by problem id.

    ``engines`` are further ones by name; without any a fake one stands for each that the strategy names. With
    a ``meter`` joules are counted, and may be a budget; controllers of the strategy see ``load``.
    """
    budget = budget or Budget()
    task = task or FakeTask()
    engine = accelerated(engine or FakeEngine(), acceleration or PLAIN, budget=bool(budget))
    if engines is None:
        engines = {name: FakeEngine() for name in engines_of(strategy)}
    costs: dict[str, CostModel] = {"tokens": Tokens(), "seconds": Seconds(), "requests": Requests()}
    if meter is not None:
        costs["joules"] = Joules()
    ledger = Ledger(costs, budget, metered=meter is not None)
    driver = Driver(
        strategy,
        Rules(engine, task, sampling or Sampling(), seed, logprobs, certainty=certainty, engines=engines),
        ledger,
        verifier=verifier or FakeVerifierPart().open(),
        trace=trace,
        concurrency=concurrency,
        acceleration=acceleration,
        controllers=controllers_of(strategy, budget),
        choosers=Choosers(choosers_of(strategy, budget, costs), "fake"),
        metering=None if meter is None else Metering(meter, "token_share", engine.now()),
        load=load,
    )
    return {result.id: result for result in driver.run(problems or task.problems())}
