"""From a resolved mapping to the parts of a run, with every check that needs no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttsflow import plugins
from ttsflow.acceleration import Acceleration
from ttsflow.budget import Budget
from ttsflow.build import build, field_names, fill, walk
from ttsflow.checks import check
from ttsflow.composing.origins import naming
from ttsflow.costs.hardware import Hardware
from ttsflow.errors import ConfigError
from ttsflow.measuring import with_joules
from ttsflow.memory import Memory, memory_of
from ttsflow.meters.attribution import How
from ttsflow.planning import planned
from ttsflow.protocols import EnginePart, Task
from ttsflow.setup import Setup
from ttsflow.sharing import asked, sharing_of
from ttsflow.types import Sampling
from ttsflow.values import check_key, show

__all__ = ["DEFAULT_COSTS", "assemble", "split_engine", "with_plan"]

#: The cost models of a run that names none.
DEFAULT_COSTS: Mapping[str, Mapping[str, str]] = {
    name: {"use": name} for name in ("tokens", "seconds", "requests")
}


@dataclass(frozen=True, slots=True)
class _Root:
    """The settings of a run that belong to no group."""

    seed: int = 0
    concurrency: int = 8
    limit: int | None = None
    trace: bool = True
    record: int = 0
    attribution: How = "token_share"

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError(
                f"at least one problem must be in flight, got {self.concurrency}.", "concurrency"
            )
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"at least one problem is needed, got {self.limit}; null means all.", "limit")
        if self.record < 0:
            raise ConfigError(f"a number of log-probabilities is at least 0, got {self.record}.", "record")
        if self.record and not self.trace:
            raise ConfigError("log-probabilities are kept in the trace, so `trace` must be true.", "record")


def assemble(mapping: Mapping[str, Any], task: Task | None = None, *, checked: bool = True) -> Setup:
    """Build and check all parts of a resolved config; no model and no data is loaded.

    ``task`` stands in for the task of the config. Without ``checked`` what is not installed, and what does
    not go together, is let pass. Raises ``ConfigError`` with the path of what is wrong, ``PluginError`` and
    ``MissingExtra``.
    """
    with naming(mapping, mapping.get("strategy")):
        return _assemble(mapping, task, checked=checked)


def _assemble(mapping: Mapping[str, Any], task: Task | None, *, checked: bool) -> Setup:
    registry = plugins.load()
    root = fill(_Root, {key: mapping[key] for key in _Root.__slots__ if key in mapping}, "", registry)
    meter = build("meter", mapping.get("meter") or {"use": "none"}, "meter", registry)
    costs = with_joules(mapping.get("cost") or DEFAULT_COSTS, meter)
    verifier = mapping.get("verifier")
    engine, faster = split_engine(mapping["engine"])
    setup = Setup(
        strategy=build("stage", mapping["strategy"], "strategy", registry),
        engine=_engine(engine, mapping),
        task=task or build("task", mapping.get("task"), "task", registry),
        verifier=build("verifier", verifier, "verifier", registry) if verifier else None,
        costs={name: build("cost", cost, f"cost.{name}", registry) for name, cost in costs.items()},
        budget=fill(Budget, mapping.get("budget") or {}, "budget", registry),
        sampling=fill(Sampling, mapping.get("sampling") or {}, "sampling", registry),
        acceleration=fill(Acceleration, faster, "engine", registry),
        meter=meter,
        attribution=root.attribution,
        load=build("load", mapping.get("load") or {"use": "none"}, "load", registry),
        logger=build("logger", mapping.get("logger") or {"use": "none"}, "logger", registry),
        seed=root.seed,
        concurrency=root.concurrency,
        limit=root.limit,
        trace=root.trace,
        record=root.record,
        names=_names(mapping, task),
        engines=_engines(mapping.get("engines")),
    )
    readers = (setup.engine, *setup.engines.values(), *(part for _, part in walk(setup.costs)))
    memory = memory_of(setup.acceleration.memory)
    if mapping.get("hardware") and not (memory or any(hasattr(part, "hardware") for part in readers)):
        raise ConfigError("no part of this run reads it; engine=sim simulates the machine.", "hardware")
    if setup.acceleration.verifier_cache is not None:
        setup = _with_cache(setup, setup.acceleration.verifier_cache)
    if memory is not None:
        setup = with_plan(setup, memory, mapping.get("hardware"))
    if checked:
        check(setup)
    return setup


def _with_cache(setup: Setup, keep: bool) -> Setup:
    """Return a run whose verifier has a model that keeps what it has read, or does not."""
    verifier: Any = setup.verifier
    name = next((name for name in ("cache", "prefix_cache") if hasattr(verifier, name)), None)
    if name is None:
        raise ConfigError(
            "the verifier of this run has no model with a prefix cache; leave it null.",
            "engine.verifier_cache",
        )
    return replace(setup, verifier=replace(verifier, **{name: keep}))


def with_plan(setup: Setup, memory: Memory, hardware: Mapping[str, Any] | None) -> Setup:
    """Return a run whose models have the KV caches and seats of a plan.

    Raises ``ConfigError``, with the numbers where no plan works.
    """
    if setup.engines:
        raise ConfigError(
            "a plan shares the memory between one engine and its verifier. With `engines` set the memory of "
            "each by hand, such as kv_gib.",
            "engine.memory",
        )
    wanted = asked(setup.strategy)
    if setup.acceleration.speculates or setup.acceleration.eager_verify:
        # Things are moved when the generator has nothing left to do; with work begun early it always has.
        memory = replace(memory, offload="never")
    machine = fill(Hardware, hardware, "hardware", plugins.load()) if hardware else None
    sharing = sharing_of(
        setup.engine,
        setup.verifier,
        memory,
        n=wanted.n,
        copies=wanted.copies,
        steps=wanted.steps,
        problems=setup.concurrency,
        hardware=machine,
        sampling=setup.sampling,
        prompt=getattr(setup.task, "prompt_tokens", None),
    )
    engine, verifier, plan = planned(setup.engine, setup.verifier, sharing, machine)
    return replace(setup, engine=engine, verifier=verifier, plan=plan, sharing=sharing)


def split_engine(engine: Any) -> tuple[Any, dict[str, Any]]:
    """Return the settings of an engine itself, and those of what stands around it."""
    if not isinstance(engine, Mapping):
        return engine, {}
    around = {key: value for key, value in engine.items() if key in field_names(Acceleration)}
    return {key: value for key, value in engine.items() if key not in around}, around


def _engine(engine: Any, mapping: Mapping[str, Any]) -> EnginePart:
    """Build the engine; of a machine that cannot be one say where it is set."""
    try:
        part: EnginePart = build("engine", engine, "engine", plugins.load())
    except ConfigError as error:
        machine = engine.get("hardware") if isinstance(engine, Mapping) else None
        if not error.path.startswith("engine.hardware") or machine == (mapping.get("hardware") or {"": ""}):
            raise
        how = "hardware=NAME, such as hardware=rtx4090"
        if isinstance(machine, str):
            how = f"hardware={machine}, without `engine.`"
        elif machine:
            how = "hardware=NAME, and one number of it with hardware.memory_gib=48, both without `engine.`"
        raise type(error)(f"{error.message} Set the machine with {how}.", error.path) from error
    return part


def _engines(engines: Any) -> dict[str, EnginePart]:
    """Build the further engines; what stands around an engine is for that of the run."""
    if not isinstance(engines, Mapping | None):
        raise ConfigError(f"a mapping of engines by name is wanted, got {show(engines)}.", "engines")
    found: dict[str, EnginePart] = {}
    for name, settings in (engines or {}).items():
        _, around = split_engine(settings)
        for key in around:
            raise ConfigError(
                "only the engine of the run has it; further ones run plain.", f"engines.{name}.{key}"
            )
        found[check_key(name, "engines")] = build("engine", settings, f"engines.{name}", plugins.load())
    return found


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
