"""Engines of a run besides its own: which stages name one, and what does not go with several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ttsflow.build import walk
from ttsflow.costs.by_engine import ByEngine
from ttsflow.errors import ConfigError, suggest
from ttsflow.meters.plain import NoMeter
from ttsflow.protocols import EnginePart, Stage
from ttsflow.setup import Setup

__all__ = ["check_further", "engines_of", "engines_that_serve"]


def engines_of(strategy: Any) -> dict[str, str]:
    """Return the further engines that the stages of a strategy name, each with the path of the first."""
    found: dict[str, str] = {}
    for path, part in walk(strategy, "strategy"):
        name = getattr(part, "engine", None)
        if isinstance(part, Stage) and isinstance(name, str):
            found.setdefault(name, f"{path}.engine")
    return found


def engines_that_serve(setup: Setup, part: Any) -> Iterator[tuple[str, EnginePart]]:
    """Yield the engines, with their paths, that may have to do what a part of the strategy asks for.

    A stage that makes candidates says which; whatever reads or continues those of others may meet any.
    """
    if isinstance(part, Stage) and hasattr(part, "engine"):
        name: str | None = part.engine
        yield ("engine", setup.engine) if name is None else (f"engines.{name}", setup.engines[name])
        return
    yield "engine", setup.engine
    for name, engine in setup.engines.items():
        yield f"engines.{name}", engine


def check_further(setup: Setup) -> None:
    """Refuse engines that nobody asks for, names without an engine, and what knows one model only."""
    named = engines_of(setup.strategy)
    for name, path in named.items():
        if name not in setup.engines:
            raise ConfigError(
                f"there is no engine '{name}' under `engines`. {suggest(name, setup.engines)} One is added "
                f"with +engine@engines.{name}=vllm engines.{name}.model=MODEL.",
                path,
            )
    for name in setup.engines:
        if name not in named:
            asked = (
                f"Those named are: {', '.join(named)}." if named else "`generate` has the setting `engine`."
            )
            raise ConfigError(f"no stage of this strategy asks for it. {asked}", f"engines.{name}")
    if setup.engines:
        _check_clocks(setup)
        _check_costs(setup)
        _check_measures(setup)


def _check_clocks(setup: Setup) -> None:
    parts = {"engine": setup.engine} | {f"engines.{name}": part for name, part in setup.engines.items()}
    for path, part in parts.items():
        if getattr(part, "virtual", False) and not getattr(part, "waits", False):
            raise ConfigError(
                "its time is virtual, and it cannot know what another engine takes meanwhile: one engine "
                "alone is simulated or played back. With `engines` all of them are real, or fake.",
                path,
            )


def _check_costs(setup: Setup) -> None:
    for name, cost in setup.costs.items():
        path = f"cost.{name}"
        if isinstance(cost, ByEngine):
            for other in cost.engines:
                if other not in setup.engines:
                    raise ConfigError(
                        f"this run has no engine '{other}'. {suggest(other, setup.engines)}",
                        f"{path}.engines.{other}",
                    )
            for other in setup.engines:
                if other not in cost.engines:
                    raise ConfigError(f"engine '{other}' has no price here.", f"{path}.engines")
        elif getattr(cost, "of_model", False):
            raise ConfigError(
                f"it prices the tokens of one model, and this run has {1 + len(setup.engines)} engines. Give "
                f"each its own: {path}.use=by_engine, with a cost model under `run` and one under `engines` "
                f"for each of {', '.join(setup.engines)}.",
                path,
            )


def _check_measures(setup: Setup) -> None:
    if not isinstance(setup.meter, NoMeter) and setup.attribution == "token_share":
        raise ConfigError(
            "joules are shared by tokens, and a token of one model takes more than one of another. With "
            "several engines use attribution=occupancy and concurrency=1.",
            "attribution",
        )
