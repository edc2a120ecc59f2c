"""What no part of a run can see alone: that they go together."""

from __future__ import annotations

from typing import Any, NoReturn

from ttsflow import plugins
from ttsflow.build import walk
from ttsflow.choosers import check_choosers
from ttsflow.engines.pool_file import check_pool
from ttsflow.errors import ConfigError
from ttsflow.further import check_further, engines_that_serve
from ttsflow.load.idle import NoLoad
from ttsflow.measuring import check_controllers, check_meter
from ttsflow.protocols import EnginePart, VerifierPart
from ttsflow.setup import Setup
from ttsflow.shape import check_shape
from ttsflow.verifiers.served import served

__all__ = ["check"]


def check(setup: Setup) -> None:
    """Refuse what each part alone cannot see: a strategy without what it needs."""
    setup.budget.check(setup.costs)
    check_meter(setup.meter, setup.attribution, setup.costs, setup.engine, setup.concurrency)
    check_controllers(setup.strategy, setup.budget)
    check_choosers(setup.strategy, setup.budget, setup.costs)
    if not setup.controllers and not isinstance(setup.load, NoLoad):
        raise ConfigError("no part of this strategy looks at the load; atest_online does.", "load")
    _ask(setup.load, "check", "load")
    _ask(setup.logger, "check", "logger")
    check_further(setup)
    _check_engine(setup, setup.engine, "engine")
    for name, engine in setup.engines.items():
        _check_engine(setup, engine, f"engines.{name}")
    _check_verifier(setup)
    _check_pool(setup)
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
    for place, engine in engines_that_serve(setup, None):
        if setup.record > engine.capabilities.logprobs:
            _too_few("record", "this", setup.record, place, engine)


def _check_engine(setup: Setup, engine: EnginePart, place: str) -> None:
    capabilities = engine.capabilities
    if not capabilities.seeds:
        raise ConfigError("this engine takes no seeds, which every strategy needs.", place)
    if setup.sampling.temperature > capabilities.temperature:
        raise ConfigError(
            f"{_called(place)} takes at most {capabilities.temperature}, got {setup.sampling.temperature}.",
            "sampling.temperature",
        )
    if setup.budget and not capabilities.abort:
        raise ConfigError(f"{_called(place)} cannot end a request, so no budget can be kept.", "budget")
    _ask(engine, "check", place)
    _ask(engine, "check_task", "", setup.task)
    _ask(engine, "check_sampling", "sampling", setup.sampling)


def _check_pool(setup: Setup) -> None:
    """Refuse a pool that cannot be used, or that this engine cannot use."""
    asked = setup.acceleration.pool
    if asked is None:
        return
    why: str | None = getattr(setup.engine, "unpooled", None)
    if why is not None:
        raise ConfigError(why, "engine.pool")
    check_pool(asked)


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
    registry = plugins.load()
    name = _name_of(part)
    needs: frozenset[str] = getattr(part, "needs", frozenset())
    if "verifier" in needs and setup.verifier is None:
        known = ", ".join(entry.name for entry in registry.entries("verifier"))
        raise ConfigError(
            f"`{name}` needs scores, but no verifier is set. Set one with verifier=NAME; known: {known}.",
            path,
        )
    for place, engine in engines_that_serve(setup, part):
        _check_capabilities(path, part, place, engine)


def _check_capabilities(path: str, part: Any, place: str, engine: EnginePart) -> None:
    name, capabilities = _name_of(part), engine.capabilities
    needs: frozenset[str] = getattr(part, "needs", frozenset())
    wanted = getattr(part, "logprobs", 0)
    if wanted > capabilities.logprobs:
        _too_few(path, f"`{name}`", wanted, place, engine)
    if getattr(part, "certainty", False) and not capabilities.certainty:
        raise ConfigError(
            f"`{name}` needs the certainty of every token, which {_called(place)} does not measure.",
            path,
        )
    if "continuation" in needs and not capabilities.token_prompts:
        raise ConfigError(
            f"`{name}` continues trajectories, which the engine `{_name_of(engine)}` cannot: it plays "
            "samples that were recorded whole. A strategy of whole samples, such as majority, works with it; "
            "engine=vllm and engine=sim go on from any step.",
            path,
        )
    if getattr(part, "watch", None) is not None and not capabilities.abort:
        raise ConfigError(f"{_called(place)} cannot end a request, which a watch needs.", f"{path}.watch")


def _name_of(part: Any) -> str:
    entry = plugins.load().entry_of(type(part))
    return entry.name if entry else type(part).__name__


def _check_source(setup: Setup) -> None:
    """Refuse parts that read recorded samples of another file than the engine plays back."""
    played = getattr(setup.engine, "source", None)
    if played is None and getattr(setup.task, "names_alone", False):
        raise ConfigError(
            "its problems are names of what was recorded, without the questions, and this engine plays no "
            "recordings; set engine=replay.",
            "task",
        )
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


def _too_few(path: str, name: str, wanted: int, place: str, engine: EnginePart) -> NoReturn:
    gives = engine.capabilities.logprobs or "none"
    raise ConfigError(
        f"{name} needs {wanted} log-probabilities per token; {_called(place)} gives {gives}.", path
    )


def _called(place: str) -> str:
    return "this engine" if place == "engine" else f"`{place}`"


def _check_border(setup: Setup, path: str, part: Any) -> None:
    separator = setup.task.separator if part.separator is None else part.separator
    if separator in {*setup.task.stop, *setup.sampling.stop}:
        raise ConfigError(
            f"the step separator {separator!r} is also a stop string of this task, so that every "
            "trajectory would end with its first step; set another separator.",
            f"{path}.separator",
        )
