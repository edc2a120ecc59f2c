"""One engine for several users, such as the driver and a judge: each has a port of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ttsflow.engines.utilisation import Meter
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine
from ttsflow.types import Prompt, Tokens

__all__ = ["Port", "share"]


def share(engine: Engine) -> tuple[Port, Port]:
    """Return two ports to one engine: the host's and a guest's.

    The host turns the engine whenever it has a request, and what the guest asked for goes along in the same
    batch. The guest turns the engine itself only while the host has nothing there, so that an iteration is
    counted where it belongs: by the host, for its own requests.
    """
    core = _Core(engine)
    return Port(core, guest=False), Port(core, guest=True)


class _Core:
    """The engine, who asked for what, and the news that its owner has not seen."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.owners: dict[str, Port] = {}
        self.hosted = 0

    def step(self) -> None:
        """Advance the engine and hand the news to those who asked."""
        for news in self.engine.step():
            owner = self.owners.get(news.id)
            if owner is not None:
                owner.news.append(news)
                if news.finish is not None:
                    self.forget(news.id)

    def forget(self, name: str) -> Port | None:
        """Take a request off the books; return whose it was."""
        owner = self.owners.pop(name, None)
        if owner is not None and not owner.guest:
            self.hosted -= 1
        return owner


class Port:
    """An ``Engine`` that shows one user its own requests of a shared engine."""

    def __init__(self, core: _Core, *, guest: bool) -> None:
        self.guest = guest
        self.news: list[Progress] = []
        self.capabilities = core.engine.capabilities
        self._core = core

    @property
    def dead(self) -> bool:
        """Whether the engine has failed."""
        return bool(getattr(self._core.engine, "dead", False))

    @property
    def capacity(self) -> int:
        """Sequences decoded at once, for all users together."""
        return self._core.engine.capacity

    @property
    def context(self) -> int:
        """Most tokens of prompt and output together."""
        return self._core.engine.context

    def now(self) -> float:
        """Return seconds on the engine's clock."""
        return self._core.engine.now()

    def encode(self, prompt: Prompt) -> Tokens:
        """Return the token ids of a prompt."""
        return self._core.engine.encode(prompt)

    def tokenize(self, text: str) -> Tokens:
        """Return the token ids of a text within a trajectory."""
        return self._core.engine.tokenize(text)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of output tokens."""
        return self._core.engine.decode(tokens)

    def submit(self, request: EngineRequest) -> None:
        """Queue a request; its id must be new to all users. A guest's runs before those of the host.

        What a guest is asked for is what a problem waits for, and it is short.
        """
        if request.id in self._core.owners:
            raise ValueError(f"request id in use: {request.id}")
        if self.guest:
            request = replace(request, priority=-1)
        self._core.engine.submit(request)
        self._core.owners[request.id] = self
        self._core.hosted += not self.guest

    def abort(self, ids: Sequence[str]) -> None:
        """End own requests now; those of others and unknown ones are left alone."""
        own = [name for name in ids if self._core.owners.get(name) is self]
        for name in own:
            self._core.forget(name)
        gone = set(ids)
        self.news = [news for news in self.news if news.id not in gone]
        if own:
            self._core.engine.abort(own)

    def step(self) -> list[Progress]:
        """Return the news of own requests, after an iteration of the engine if it is up to this user.

        Raises ``EngineDead``.
        """
        if not self.guest or not self._core.hosted:
            self._core.step()
        news, self.news = self.news, []
        return news

    def counters(self) -> dict[str, float]:
        """Return what the engine has counted, for all users together."""
        own: Callable[[], dict[str, float]] | None = getattr(self._core.engine, "counters", None)
        return own() if own is not None else {}

    @property
    def load(self) -> Callable[[], Any] | None:
        """What says how busy the engine is with the requests of all users, None where it does not tell."""
        own: Callable[[], Any] | None = getattr(self._core.engine, "load", None)
        return own

    @property
    def wait(self) -> Callable[[float], None] | None:
        """What moves a virtual clock on, None where there is none."""
        own: Callable[[float], None] | None = getattr(self._core.engine, "wait", None)
        return own

    def meter(self) -> Meter | None:
        """Begin to measure how busy the device is, as far as the engine can."""
        own: Callable[[], Meter | None] | None = getattr(self._core.engine, "meter", None)
        return own() if own is not None else None

    def reset(self) -> None:
        """Reset the engine, which ends the requests of all users."""
        self._core.engine.reset()
        for owner in set(self._core.owners.values()):
            owner.news.clear()
        self._core.owners.clear()
        self._core.hosted = 0

    def close(self) -> None:
        """End own requests; the engine stays open for the others."""
        self.abort([name for name, owner in self._core.owners.items() if owner is self])
        self.news.clear()
