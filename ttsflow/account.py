"""What one problem has spent so far, in all and on each further engine."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from ttsflow.types import EngineTokens, Usage

__all__ = ["Account", "EngineBooks", "added"]


class EngineBooks:
    """What one problem has spent on one further engine; ``live`` requests of it are under way."""

    __slots__ = ("aborted", "cached", "live", "live_prompt", "output", "prompt", "requests", "running")

    def __init__(self) -> None:
        self.prompt = self.cached = self.output = self.aborted = self.requests = 0
        self.live = self.live_prompt = self.running = 0


class Account:
    """What one problem has spent so far; the driver writes into it as things happen.

    ``stopped`` is the limit it has reached, ``early`` why a watch last ended requests of it. ``live``
    requests with ``live_prompt`` and ``running`` tokens are under way; ``reserved`` is the price of
    ``quoted`` samples that have not ended yet. ``joules`` are those read so far, None without a meter.
    ``share`` are seconds of the run's clock that are its own: problems side by side share each of them.
    ``fallen``: it has something else in place of the strategy, for lack of funds. ``further`` tells the parts
    of further engines apart, by name.
    """

    __slots__ = (
        "_underway",
        "aborted",
        "adopted",
        "cached",
        "dropped",
        "early",
        "ended",
        "engine_steps",
        "fallen",
        "further",
        "joules",
        "live",
        "live_prompt",
        "output",
        "prompt",
        "quoted",
        "requests",
        "reserved",
        "reused",
        "running",
        "serial",
        "share",
        "started",
        "stopped",
        "verifier",
    )

    def __init__(self, started: float, joules: float | None = None) -> None:
        self.started = started
        self.joules = joules
        self.ended: float | None = None
        self.prompt = self.cached = self.output = self.aborted = self.running = 0
        self.adopted = self.dropped = self.reused = 0
        self.verifier = self.serial = self.requests = self.engine_steps = 0
        self.live = self.live_prompt = self.quoted = 0
        self.share = 0.0
        self.fallen = False
        self.further: dict[str, EngineBooks] = {}
        self.reserved: dict[str, float] = {}
        self.stopped: str | None = None
        self.early: str | None = None
        self._underway: tuple[tuple[int, ...], Usage] = (), _NOTHING

    def usage(self, now: float) -> Usage:
        """Return what is spent by now; tokens of running requests count as output."""
        return self._usage((self.ended if self.ended is not None else now) - self.started)

    def own(self) -> Usage:
        """Return the usage with its share of the run's seconds in place of all that passed meanwhile."""
        return self._usage(self.share)

    def books(self, engine: str) -> EngineBooks:
        """Return the books of a further engine, opened when it is first asked."""
        return self.further.setdefault(engine, EngineBooks())

    def _usage(self, seconds: float) -> Usage:
        return Usage(
            prompt=self.prompt,
            cached=self.cached,
            output=self.output + self.running,
            aborted=self.aborted,
            dropped=self.dropped,
            adopted=self.adopted,
            reused=self.reused,
            verifier=self.verifier,
            serial=self.serial,
            requests=self.requests,
            engine_steps=self.engine_steps,
            seconds=seconds,
            joules=self.joules,
            engines=self._engines() if self.further else (),
        )

    def _engines(self) -> tuple[EngineTokens, ...]:
        return tuple(
            EngineTokens(name, one.prompt, one.cached, one.output + one.running, one.aborted, one.requests)
            for name, one in sorted(self.further.items())
        )

    def underway(self) -> Usage:
        """Return the part of the usage that belongs to requests still running."""
        if not (self.live or self.running or self.live_prompt):
            return _NOTHING if self.joules is None else _METERED
        # Others ask many times between two steps.
        key = self.live_prompt, self.running, self.live, self.joules is None
        if self.further or self._underway[0] != key:
            none = None if self.joules is None else 0.0
            engines = tuple(
                EngineTokens(name, one.live_prompt, output=one.running, requests=one.live)
                for name, one in sorted(self.further.items())
            )
            part = Usage(
                prompt=self.live_prompt,
                output=self.running,
                requests=self.live,
                joules=none,
                engines=engines,
            )
            self._underway = key, part
        return self._underway[1]


_NOTHING, _METERED = Usage(), Usage(joules=0.0)

_SUMMED = (
    "prompt",
    "cached",
    "output",
    "aborted",
    "dropped",
    "adopted",
    "reused",
    "verifier",
    "serial",
    "requests",
    "engine_steps",
)
_counts = attrgetter(*_SUMMED, "running")


def added(start: Usage, accounts: Iterable[Account], now: float) -> Usage:
    """Return ``start`` and the usage of all ``accounts`` by now, in one: a run asks for it at every step."""
    held = list(accounts)
    if any(account.further for account in held):
        return sum((account.usage(now) for account in held), start)
    if not held:
        return start
    *sums, running = map(sum, zip(*map(_counts, held), strict=True))
    counts = {name: getattr(start, name) + more for name, more in zip(_SUMMED, sums, strict=True)}
    counts["output"] += running
    seconds, joules = start.seconds, start.joules
    for account in held:
        seconds += (now if account.ended is None else account.ended) - account.started
        if account.joules is not None:
            joules = account.joules if joules is None else joules + account.joules
    return Usage(**counts, seconds=seconds, joules=joules, engines=start.engines)
