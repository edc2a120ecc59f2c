"""Scores programs by tests, which it runs in a sandbox while the engine goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.lineage import derive
from ttsflow.ops import Verdict
from ttsflow.protocols import Task
from ttsflow.sandbox.runs import Isolation, Limits, Ran, Sandbox, isolation
from ttsflow.tasks.code import Which, job_of
from ttsflow.types import Candidate, Problem

__all__ = ["CodeTests", "Testing"]


@dataclass(frozen=True, slots=True)
class CodeTests:
    """Scores a candidate 1 when its program passes all tests, else 0; with ``partial``, the share it passes.

    The visible tests are the examples in the function's docstring; a problem without any asks only
    whether the program loads. The hidden ones are the gold: choosing by them is an upper bound, never a
    result, so ``which: hidden`` is refused unless ``evaluation`` says that this is wanted. A problem without
    hidden tests then has no scores.

    A program that runs too long, takes too much or ends early fails its test. A candidate that ended
    without a program scores 0; one that can go on, or was cut, has no score yet. When the sandbox itself
    fails, the candidate is failed with the reason.

    A task whose answers are programs says so by ``gives_programs = True``; its problems' data have what
    ``job_of`` reads. Any other task is refused.

    At most ``workers`` programs run at once, each for ``timeout`` seconds with ``memory_mib``. Equal programs
    are run once.
    """

    which: Which = "visible"
    evaluation: bool = False
    partial: bool = False
    timeout: float = 5.0
    memory_mib: int = 512
    workers: int = 2
    isolation: Isolation = "auto"

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"must be at least 1, got {self.workers}.", "workers")
        self.limits()

    def check(self) -> None:
        """Raise ``ConfigError`` for an oracle that is not asked for by name, and where no sandbox works."""
        if self.which == "hidden" and not self.evaluation:
            raise ConfigError(
                "this verifier would read the hidden tests, so what it reaches is an upper bound and no "
                "result; set verifier.evaluation=true to measure that bound.",
                "evaluation",
            )
        isolation(self.isolation)

    def check_task(self, task: Task) -> None:
        """Refuse a task whose answers are no programs."""
        if not getattr(task, "gives_programs", False):
            raise ConfigError(
                "it runs programs, and the answers of this task are none; set task=code or task=humaneval, "
                "or another verifier. A task of your own says `gives_programs = True`.",
                "use",
            )

    def limits(self) -> Limits:
        """Return what one program may take."""
        return Limits(self.timeout, self.memory_mib)

    def open(self) -> Testing:
        """Return the working verifier. Raises ``ConfigError`` as ``check`` does."""
        self.check()
        return Testing(self)


class Testing:
    """The working verifier: a queue in front of a sandbox."""

    def __init__(self, part: CodeTests) -> None:
        self._part = part
        self._sandbox = Sandbox(part.workers, part.isolation)
        self._waiting: dict[str, int] = {}
        self._decided: dict[str, Verdict] = {}
        self._known: dict[int, Ran] = {}

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Queue a candidate under a new id; an id that is waiting is a ``ValueError``."""
        if id in self._waiting or id in self._decided:
            raise ValueError(f"{id!r} is already waiting for its scores")
        verdict = self._without_running(id, problem, candidate)
        if verdict is not None:
            self._decided[id] = verdict
            return
        assert candidate.answer is not None
        part = self._part
        code = candidate.answer.text
        job = job_of(problem, code, part.which, part.limits(), until_failure=not part.partial)
        key = derive(problem.id, code)
        if job is None:
            self._decided[id] = Verdict(id, ())
        elif key in self._known:
            self._decided[id] = self._verdict(id, self._known[key])
        else:
            self._waiting[id] = key
            self._sandbox.submit(id, job)

    def step(self) -> list[Verdict]:
        """Return the verdicts there are by now, without waiting for others."""
        verdicts = list(self._decided.values())
        self._decided.clear()
        for name, ran in self._sandbox.step():
            key = self._waiting.pop(name)
            if not ran.broken:
                self._known[key] = ran
            verdicts.append(self._verdict(name, ran))
        return verdicts

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget candidates and end their programs; unknown ids are ignored."""
        for name in ids:
            self._waiting.pop(name, None)
            self._decided.pop(name, None)
        self._sandbox.cancel(ids)

    def close(self) -> None:
        """End every program; may be called twice."""
        self._waiting.clear()
        self._decided.clear()
        self._sandbox.close()

    def _without_running(self, id: str, problem: Problem, candidate: Candidate) -> Verdict | None:
        if "entry" not in problem.data:
            return Verdict(
                id, (), reason=f"problem {problem.id} asks for no program; use a task such as code"
            )
        if candidate.answer is not None:
            return None
        return Verdict(id, (0.0,) if candidate.finished else ())

    def _verdict(self, id: str, ran: Ran) -> Verdict:
        if ran.broken:
            return Verdict(id, (), reason=ran.reason)
        return Verdict(id, (ran.share if self._part.partial else float(ran.passed),))
