"""The engines of a run, by name: who is on which, and whose turn it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ttsflow.driver.flight import Live
from ttsflow.errors import EngineDead
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine, innermost

__all__ = ["Engines"]


class Engines:
    """The engine of the run, named "", and the further ones.

    Names that mean one engine, since their settings are equal, have it advanced once a turn.
    """

    def __init__(self, engine: Engine, further: Mapping[str, Engine]) -> None:
        self._engines = {"": engine, **further}
        self._first = {
            name: next(first for first, other in self._engines.items() if other is one)
            for name, one in self._engines.items()
        }
        self._live = dict.fromkeys(self._engines, 0)
        self._dead: set[str] = set()
        self._wait: Callable[[float], None] | None = getattr(innermost(engine), "wait", None)

    def live(self, name: str) -> int:
        """Return how many requests are on an engine."""
        return self._live[self._first[name]]

    def submit(self, name: str, request: EngineRequest) -> None:
        """Queue a request on an engine."""
        self._live[self._first[name]] += 1
        self._engines[name].submit(request)

    def ended(self, name: str) -> None:
        """Take in that a request has ended, or that nobody waits for it any more."""
        self._live[self._first[name]] -= 1

    def abort(self, requests: Iterable[Live]) -> None:
        """End requests, each on its engine; those of an engine that is dead are gone anyway."""
        ids: dict[str, list[str]] = {}
        for live in requests:
            ids.setdefault(self._first[live.engine], []).append(live.id)
        for name, gone in ids.items():
            if name not in self._dead:
                self._engines[name].abort(gone)

    def turn(self) -> Iterator[list[Progress]]:
        """Advance every engine that has requests, one after the other, and yield the news of each.

        Raises ``EngineDead``.
        """
        for name, engine in self._engines.items():
            if self._live[name]:
                yield self._step(name, engine)

    def _step(self, name: str, engine: Engine) -> list[Progress]:
        try:
            if not name:
                return engine.step()
            began = engine.now()
            news = engine.step()
        except EngineDead as error:
            self._dead.add(name)
            if name:
                raise EngineDead(f"engine `{name}`: {error}") from error
            raise
        if self._wait is not None:
            # A clock that only its own steps move on has to be told what others took.
            self._wait(engine.now() - began)
        return news
