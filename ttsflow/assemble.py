"""From a resolved mapping to the parts of a run, with every check that needs no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from ttsflow import plugins
from ttsflow.acceleration import PLAIN, Acceleration
from ttsflow.build import build, explain, field_names, fill, walk
from ttsflow.control import ControllerPart
from ttsflow.costs.hardware import Hardware
from ttsflow.costs.plan import Plan, Sharing
from ttsflow.errors import ConfigError
from ttsflow.fingerprint import fingerprint
from ttsflow.ledger import Budget
from ttsflow.load.idle import NoLoad
from ttsflow.measuring import check_controllers, check_meter, controllers_of, with_joules
from ttsflow.memory import Memory, memory_of
from ttsflow.meters.attribution import How
from ttsflow.meters.plain import NoMeter
from ttsflow.origins import naming
from ttsflow.planning import planned
from ttsflow.protocols import CostModel, EnginePart, LoadPart, MeterPart, Stage, Task, VerifierPart
from ttsflow.shape import check_shape, foreign
from ttsflow.sharing import asked, sharing_of
from ttsflow.types import Sampling
from ttsflow.verifiers.served import served

__all__ = ["DEFAULT_COSTS", "Setup", "assemble", "check", "split_engine", "with_plan"]

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
    acceleration: Acceleration = PLAIN
    meter: MeterPart = field(default_factory=NoMeter)
    attribution: How = "token_share"
    load: LoadPart = field(default_factory=NoLoad)
    plan: Plan | None = None
    sharing: Sharing | None = None
    seed: int = 0
    concurrency: int = 8
    limit: int | None = None
    trace: bool = True
    record: int = 0
    names: Mapping[str, str] = field(default_factory=dict)

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
            "budget": asdict(self.budget),
            "sampling": asdict(self.sampling),
            "seed": self.seed,
            "limit": self.limit,
        }
        if not isinstance(self.meter, NoMeter):
            rest["meter"] = explain(self.meter, registry)
        if self.controllers:
            # What one question costs decides what is left for others.
            rest |= {"load": explain(self.load, registry), "concurrency": self.concurrency}
        if self.acceleration.biased:
            rest["speculation"] = asdict(self.acceleration)["speculation"]
        return fingerprint({name: part and explain(part, registry) for name, part in parts.items()} | rest)

    @property
    def controllers(self) -> Mapping[ControllerPart, str]:
        """The controllers of the strategy, and the unit that each spends."""
        return controllers_of(self.strategy, self.budget)

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
        return wanted or (self.record > 0 and self.engine.capabilities.certainty)

    @property
    def _reading(self) -> list[Any]:
        """Parts that may read what an engine says about its tokens."""
        return [self.asked, *(part for _, part in walk(self.strategy))]


def _asks(part: Any) -> bool:
    """Whether a part of a strategy may ask the verifier: it says so, or is another's and says nothing."""
    return "verifier" in getattr(part, "needs", ()) or foreign(part)


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
        seed=root.seed,
        concurrency=root.concurrency,
        limit=root.limit,
        trace=root.trace,
        record=root.record,
        names=_names(mapping, task),
    )
    readers = (setup.engine, *setup.costs.values())
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


def check(setup: Setup) -> None:
    """Refuse what each part alone cannot see: a strategy without what it needs."""
    setup.budget.check(setup.costs)
    check_meter(setup.meter, setup.attribution, setup.costs, setup.engine, setup.concurrency)
    check_controllers(setup.strategy, setup.budget)
    if not setup.controllers and not isinstance(setup.load, NoLoad):
        raise ConfigError("no part of this strategy looks at the load; atest_online does.", "load")
    _ask(setup.load, "check", "load")
    _check_engine(setup)
    parts = list(walk(setup.strategy, "strategy"))
    given = {what for _, part in parts for what in getattr(part, "gives", ())}
    _check_source(setup)
    for path, part in parts:
        _check_needs(setup, path, part)
        if "scores" in getattr(part, "needs", ()) and "scores" not in given:
            raise ConfigError(
                "this needs scores, but no stage of the strategy gives any; add `verify` or `confidence`.",
                path,
            )
        if getattr(part, "unit", None) == "step":
            _check_border(setup, path, part)
        _check_demand(setup, path, part)
    check_shape(parts)
    if setup.verifier is not None:
        _check_needs(setup, "verifier", setup.verifier)
    if setup.record > setup.engine.capabilities.logprobs:
        _too_few(setup, "record", "this", setup.record)


def _check_engine(setup: Setup) -> None:
    capabilities = setup.engine.capabilities
    if not capabilities.seeds:
        raise ConfigError("this engine takes no seeds, which every strategy needs.", "engine")
    if setup.sampling.temperature > capabilities.temperature:
        raise ConfigError(
            f"this engine takes at most {capabilities.temperature}, got {setup.sampling.temperature}.",
            "sampling.temperature",
        )
    if setup.budget and not capabilities.abort:
        raise ConfigError("this engine cannot end a request, so no budget can be kept.", "budget")
    _ask(setup.engine, "check", "engine")
    _ask(setup.engine, "check_task", "", setup.task)
    _ask(setup.engine, "check_sampling", "sampling", setup.sampling)
    _check_verifier(setup)


def _check_verifier(setup: Setup) -> None:
    verifier, engine = setup.verifier, setup.engine
    for path, part in walk(verifier, "verifier"):
        # One may take its scores from another; an engine in it is its own affair.
        if part is verifier or (isinstance(part, VerifierPart) and not hasattr(part, "capabilities")):
            _ask(part, "check", path)
            _ask(part, "check_task", path, setup.task)
    _ask(verifier, "check_beside", "verifier", engine)
    inner = served(verifier)
    if inner is not None and engine in (inner.engines or (engine,)):
        _ask(verifier, "check_engine", "verifier", engine.capabilities)


def _ask(part: Any, check: str, path: str, *beside: Any) -> None:
    """Let a part refuse what it sees only now, by a method that it may have."""
    own = getattr(part, check, None)
    if own is not None:
        try:
            own(*beside)
        except ConfigError as error:
            raise error.below(path) from error


def _check_needs(setup: Setup, path: str, part: Any) -> None:
    registry, capabilities = plugins.load(), setup.engine.capabilities
    name = _name_of(part)
    needs: frozenset[str] = getattr(part, "needs", frozenset())
    if "verifier" in needs and setup.verifier is None:
        known = ", ".join(entry.name for entry in registry.entries("verifier"))
        raise ConfigError(
            f"`{name}` needs scores, but no verifier is set. Set one with verifier=NAME; known: {known}.",
            path,
        )
    wanted = getattr(part, "logprobs", 0)
    if wanted > capabilities.logprobs:
        _too_few(setup, path, f"`{name}`", wanted)
    if getattr(part, "certainty", False) and not capabilities.certainty:
        raise ConfigError(
            f"`{name}` needs the certainty of every token, which this engine does not measure.",
            path,
        )
    if "continuation" in needs and not capabilities.token_prompts:
        raise ConfigError(
            f"`{name}` continues trajectories, which the engine `{_name_of(setup.engine)}` cannot: it plays "
            "samples that were recorded whole. A strategy of whole samples, such as majority, works with it; "
            "engine=vllm and engine=sim go on from any step.",
            path,
        )
    if getattr(part, "watch", None) is not None and not capabilities.abort:
        raise ConfigError("this engine cannot end a request, which a watch needs.", f"{path}.watch")


def _name_of(part: Any) -> str:
    entry = plugins.load().entry_of(type(part))
    return entry.name if entry else type(part).__name__


def _check_source(setup: Setup) -> None:
    """Refuse parts that read recorded samples of another file than the engine plays back."""
    played = getattr(setup.engine, "source", None)
    for name, part in (("task", setup.task), *walk(setup.verifier, "verifier")):
        read = getattr(part, "source", None)
        if read is not None and played is not None and read != played:
            ours, theirs = (
                f"{path or 'the shipped recordings'} by {count}" for path, count in (read, played)
            )
            raise ConfigError(
                f"it reads {ours}, and the engine plays back {theirs}; path and count must be equal.",
                f"{name}.path",
            )


def _check_demand(setup: Setup, path: str, part: Any) -> None:
    """Refuse a stage that may ask for more samples of one problem than the engine has."""
    most: int | None = getattr(setup.engine, "most_samples", None)
    wanted: int | None = getattr(part, "demand", None)
    if most is not None and wanted is not None and wanted > most:
        raise ConfigError(
            f"up to {wanted} samples of a problem are asked for, but this engine has {most} of each; "
            f"set strategy.n={most} or less.",
            path,
        )


def _too_few(setup: Setup, path: str, name: str, wanted: int) -> NoReturn:
    gives = setup.engine.capabilities.logprobs or "none"
    raise ConfigError(f"{name} needs {wanted} log-probabilities per token; this engine gives {gives}.", path)


def _check_border(setup: Setup, path: str, part: Any) -> None:
    separator = setup.task.separator if part.separator is None else part.separator
    if separator in {*setup.task.stop, *setup.sampling.stop}:
        raise ConfigError(
            f"the step separator {separator!r} is also a stop string of this task, so that every "
            "trajectory would end with its first step; set another separator.",
            f"{path}.separator",
        )


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
