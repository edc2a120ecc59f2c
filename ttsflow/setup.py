"""Everything a run is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ttsflow import plugins
from ttsflow.acceleration import PLAIN, Acceleration
from ttsflow.budget import Budget
from ttsflow.build import explain, walk
from ttsflow.choice import ChooserPart
from ttsflow.choosers import choosers_of
from ttsflow.control import ControllerPart
from ttsflow.costs.plan import Plan, Sharing
from ttsflow.fingerprint import fingerprint
from ttsflow.load.idle import NoLoad
from ttsflow.logger import LoggerPart
from ttsflow.loggers.plain import NoLogger
from ttsflow.measuring import controllers_of
from ttsflow.meters.attribution import How
from ttsflow.meters.plain import NoMeter
from ttsflow.protocols import CostModel, EnginePart, Stage, Task, VerifierPart
from ttsflow.sensors import LoadPart, MeterPart
from ttsflow.shape import foreign
from ttsflow.types import Sampling

__all__ = ["Setup"]


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a run is made of, built and checked. ``names`` holds strategy, task and engine.

    ``engines`` are those that stages ask for by name, besides the ``engine`` of the run.
    """

    strategy: Stage
    engine: EnginePart
    task: Task
    verifier: VerifierPart | None
    costs: Mapping[str, CostModel]
    budget: Budget
    sampling: Sampling
    acceleration: Acceleration = PLAIN
    meter: MeterPart = field(default_factory=NoMeter)
    attribution: How = "token_share"
    load: LoadPart = field(default_factory=NoLoad)
    logger: LoggerPart = field(default_factory=NoLogger)
    plan: Plan | None = None
    sharing: Sharing | None = None
    seed: int = 0
    concurrency: int = 8
    limit: int | None = None
    trace: bool = True
    record: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[str, EnginePart] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Name of everything that can change an answer or its price, defaults included.

        How many problems are in flight, and what is written about it, is left out.
        """
        registry = plugins.load()
        parts = {
            "strategy": self.strategy,
            "engine": self.engine,
            "task": self.task,
            "verifier": self.verifier,
        }
        rest = {
            "cost": {name: explain(cost, registry) for name, cost in self.costs.items()},
            "budget": self.budget.described(),
            "sampling": asdict(self.sampling),
            "seed": self.seed,
            "limit": self.limit,
        }
        if self.engines:
            rest["engines"] = {name: explain(part, registry) for name, part in self.engines.items()}
        if not isinstance(self.meter, NoMeter):
            rest["meter"] = explain(self.meter, registry)
        if self.controllers:
            # What one question costs decides what is left for others.
            rest |= {"load": explain(self.load, registry), "concurrency": self.concurrency}
        if self.choosers:
            rest["concurrency"] = self.concurrency
        if self.acceleration.biased:
            rest["speculation"] = asdict(self.acceleration)["speculation"]
        return fingerprint({name: part and explain(part, registry) for name, part in parts.items()} | rest)

    @property
    def controllers(self) -> Mapping[ControllerPart, str]:
        """The controllers of the strategy, and the unit that each spends."""
        return controllers_of(self.strategy, self.budget)

    @property
    def choosers(self) -> Mapping[ChooserPart, str]:
        """The choosers of the strategy, and the unit that each counts."""
        return choosers_of(self.strategy, self.budget, self.costs)

    @property
    def coupled(self) -> str | None:
        """Why what one problem comes to depends on the others; None where each stands alone."""
        if self.controllers or self.choosers:
            return "a controller or chooser decides by what earlier problems came to"
        if self.budget.run:
            return "a budget of the run is shared by all problems"
        return "a breaker counts how problems end" if self.budget.breaker is not None else None

    @property
    def asked(self) -> VerifierPart | None:
        """The verifier, where the strategy asks it; one that nobody asks is checked, and never opened."""
        return self.verifier if any(_asks(part) for _, part in walk(self.strategy)) else None

    @property
    def logprobs(self) -> int:
        """Top log-probabilities per token that the run needs."""
        return max(self.record, *(getattr(part, "logprobs", 0) for part in self._reading))

    @property
    def certainty(self) -> bool:
        """Whether the run needs each token's distance from the uniform distribution."""
        wanted = any(getattr(part, "certainty", False) for part in self._reading)
        engines = (self.engine, *self.engines.values())
        return wanted or (self.record > 0 and all(one.capabilities.certainty for one in engines))

    @property
    def _reading(self) -> list[Any]:
        """Parts that may read what an engine says about its tokens."""
        return [self.asked, *(part for _, part in walk(self.strategy))]


def _asks(part: Any) -> bool:
    """Whether a part of a strategy may ask the verifier: it says so, or is another's and says nothing."""
    return "verifier" in getattr(part, "needs", ()) or foreign(part)
