"""From a resolved mapping to the parts of a run, with every check that needs no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttsflow import plugins
from ttsflow.build import build, fill, walk
from ttsflow.errors import ConfigError
from ttsflow.ledger import Budget
from ttsflow.protocols import CostModel, EnginePart, Stage, Task, VerifierPart
from ttsflow.types import Sampling

__all__ = ["DEFAULT_COSTS", "Setup", "assemble", "check"]

#: The cost models of a run that names none.
DEFAULT_COSTS: Mapping[str, Mapping[str, str]] = {
    name: {"use": name} for name in ("tokens", "seconds", "requests")
}


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a run is made of, built and checked. ``names`` holds strategy, task and engine."""

    strategy: Stage
    engine: EnginePart
    task: Task
    verifier: VerifierPart | None
    costs: Mapping[str, CostModel]
    budget: Budget
    sampling: Sampling
    seed: int = 0
    concurrency: int = 8
    limit: int | None = None
    trace: bool = True
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def logprobs(self) -> int:
        """Top log-probabilities per token that the strategy needs."""
        return max((getattr(part, "logprobs", 0) for _, part in walk(self.strategy)), default=0)


@dataclass(frozen=True, slots=True)
class _Root:
    """The settings of a run that belong to no group."""

    seed: int = 0
    concurrency: int = 8
    limit: int | None = None
    trace: bool = True

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError(
                f"at least one problem must be in flight, got {self.concurrency}.", "concurrency"
            )
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"at least one problem is needed, got {self.limit}; null means all.", "limit")


def assemble(mapping: Mapping[str, Any], task: Task | None = None) -> Setup:
    """Build and check all parts of a resolved config; no model and no data is loaded.

    ``task`` stands in for the task of the config. Raises ``ConfigError`` with the path of what is
    wrong, ``PluginError`` and ``MissingExtra``.
    """
    registry = plugins.load()
    root = fill(_Root, {key: mapping[key] for key in _Root.__slots__ if key in mapping}, "", registry)
    costs = mapping.get("cost") or DEFAULT_COSTS
    verifier = mapping.get("verifier")
    setup = Setup(
        strategy=build("stage", mapping["strategy"], "strategy", registry),
        engine=build("engine", mapping["engine"], "engine", registry),
        task=task or build("task", mapping.get("task"), "task", registry),
        verifier=build("verifier", verifier, "verifier", registry) if verifier else None,
        costs={name: build("cost", cost, f"cost.{name}", registry) for name, cost in costs.items()},
        budget=fill(Budget, mapping.get("budget") or {}, "budget", registry),
        sampling=fill(Sampling, mapping.get("sampling") or {}, "sampling", registry),
        seed=root.seed,
        concurrency=root.concurrency,
        limit=root.limit,
        trace=root.trace,
        names=_names(mapping, task),
    )
    check(setup)
    return setup


def check(setup: Setup) -> None:
    """Refuse what each part alone cannot see: a strategy without what it needs."""
    setup.budget.check(setup.costs)
    capabilities = setup.engine.capabilities
    stops = {*setup.task.stop, *setup.sampling.stop}
    for path, part in walk(setup.strategy, "strategy"):
        needs: frozenset[str] = getattr(part, "needs", frozenset())
        if "verifier" in needs and setup.verifier is None:
            known = ", ".join(entry.name for entry in plugins.load().entries("verifier"))
            raise ConfigError(
                f"{type(part).__name__} needs scores, but no verifier is set. Set one with "
                f"verifier=NAME; known: {known}.",
                path,
            )
        wanted = getattr(part, "logprobs", 0)
        if wanted > capabilities.logprobs:
            raise ConfigError(
                f"{type(part).__name__} needs {wanted} log-probabilities per token; this engine gives "
                f"{capabilities.logprobs or 'none'}.",
                path,
            )
        if getattr(part, "unit", None) == "step":
            separator = setup.task.separator if part.separator is None else part.separator
            if separator in stops:
                raise ConfigError(
                    f"the step separator {separator!r} is also a stop string of this task, so that every "
                    "trajectory would end with its first step; set another separator.",
                    f"{path}.separator",
                )
    engine_check = getattr(setup.engine, "check", None)
    if engine_check is not None:
        try:
            engine_check()
        except ConfigError as error:
            raise error.below("engine") from error


def _names(mapping: Mapping[str, Any], task: Task | None) -> dict[str, str]:
    choices = mapping.get("choices") or {}
    names = {}
    for group in ("strategy", "task", "engine", "verifier"):
        value = mapping.get(group)
        use = value.get("use", "") if isinstance(value, Mapping) else "none"
        names[group] = str(choices.get(group) or use)
    if task is not None:
        names["task"] = type(task).__name__.lower()
    return names
