"""A price for every engine of a run, where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ttsflow.errors import ConfigError, suggest
from ttsflow.protocols import CostModel
from ttsflow.types import Usage

__all__ = ["ByEngine"]

_TOKENS = Usage(prompt=1000, cached=100, output=1000, aborted=100, requests=10)
_TIME = Usage(seconds=1000.0)


@dataclass(frozen=True, slots=True)
class ByEngine:
    """Prices each engine of a run by a cost model of its own, and adds up.

    ``run`` prices the tokens and requests of the engine of the run, and all that belongs to no engine: time,
    tokens of a verifier. ``engines`` price the tokens and requests of further ones by name, and nothing else.
    All have one unit. Additive where its parts are.
    """

    run: CostModel
    engines: Mapping[str, CostModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.engines:
            raise ConfigError("without further engines the cost model under `run` says it all.", "engines")
        for name, model in self.engines.items():
            path = f"engines.{name}"
            if model.unit != self.run.unit:
                raise ConfigError(
                    f"it counts {model.unit}, and `run` counts {self.run.unit}; only one unit adds up.", path
                )
            if getattr(model, "needs", ()) or model(_TIME):
                raise ConfigError("time and energy are those of the run; price them under `run`.", path)
            if not model(_TOKENS):
                raise ConfigError("it prices neither tokens nor requests, so that this engine is free.", path)

    @property
    def unit(self) -> str:
        """That of all its parts."""
        return self.run.unit

    @property
    def needs(self) -> frozenset[str]:
        """What the cost model of the run needs."""
        found: frozenset[str] = getattr(self.run, "needs", frozenset())
        return found

    def __call__(self, usage: Usage) -> float:
        """Return the price of ``usage``. Raises ``ConfigError`` for tokens of an engine without a price."""
        own, further = usage, 0.0
        for name, part in self._parts(usage):
            own, further = own.less(part), further + self.engines[name](part)
        return self.run(own) + further

    def _parts(self, usage: Usage) -> Iterator[tuple[str, Usage]]:
        for name in [one.engine for one in usage.engines]:
            if name not in self.engines:
                raise ConfigError(f"engine '{name}' has no price. {suggest(name, self.engines)}", "engines")
            yield name, usage.of(name)
