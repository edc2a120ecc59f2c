"""Starts runs of untrusted code, looks after them without waiting, and says what came out."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.sandbox import values

__all__ = ["Isolation", "Job", "Limits", "Ran", "Sandbox", "isolation", "run"]

Isolation = Literal["auto", "namespaces", "limits"]

_WAYS = ("namespaces", "limits")
_STARTUP = 30.0  # seconds that a machine under load may take to start a process, beyond the limit
_LETTING_GO = 2.0  # seconds a watchdog gets to end its children before it is killed as well
_REPORT = 1 << 20  # bytes
_MOST_SECONDS = 1_000_000.0  # what waits in milliseconds counts to 2^31
_MOST_MIB = 1 << 40  # the kernel counts bytes to 2^63
_MOST_FILES = 1 << 20  # Linux opens no more for one process, unless its administrator says so
# The package is entered by a side door, so that nothing else of ttsflow is loaded.
_BOOT = (
    "import sys, types; door = types.ModuleType('ttsflow'); door.__path__ = [sys.argv[1]]; "
    "sys.modules['ttsflow'] = door; from ttsflow.sandbox.child import main; main(int(sys.argv[2]))"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may take: ``seconds`` on the clock and MiB of memory, of files and of each file."""

    seconds: float = 5.0
    memory_mib: int = 512
    disk_mib: int = 16
    files: int = 64

    def __post_init__(self) -> None:
        # What does not fit would fail in the sandbox, once for every program.
        if not 0 < self.seconds <= _MOST_SECONDS:
            raise ConfigError(
                f"must be above 0 and at most {_MOST_SECONDS:,.0f} seconds, got {self.seconds}.", "timeout"
            )
        for name, least, most in (
            ("memory_mib", 64, _MOST_MIB),
            ("disk_mib", 1, _MOST_MIB),
            ("files", 16, _MOST_FILES),
        ):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"must lie between {least} and {most:,}, got {getattr(self, name)}.", name)


@dataclass(frozen=True, slots=True)
class Job:
    """Code to be tested: it must define a function called ``entry``.

    A test is Python text that calls this function, also known as ``candidate``, and raises when it does
    not do what it should. ``setup`` is run before the tests, beside them and away from the code. With
    ``until_failure`` the first failed test is the last one.
    """

    code: str
    entry: str
    tests: tuple[str, ...] = ()
    setup: str = ""
    limits: Limits = Limits()
    until_failure: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a job.

    ``passed``: the code loaded and passed every test; else ``reason`` says what happened. ``share`` of
    the tests were passed; without tests, 1 when the code loaded. ``isolation`` is what held the code.
    ``broken``: the sandbox itself failed, so that nothing is known about the code.
    """

    passed: bool
    reason: str = ""
    share: float = 0.0
    isolation: str = ""
    broken: bool = False


class Sandbox:
    """Runs jobs, at most ``workers`` at once. Nothing here waits, except ``close`` for what it ends.

    ``asked`` is the isolation: auto takes the strongest that works. Raises ``ConfigError`` when none does.
    """

    def __init__(self, workers: int = 1, asked: Isolation = "auto") -> None:
        self._workers = workers
        self._way = isolation(asked)
        self._waiting: deque[tuple[str, Job]] = deque()
        self._running: dict[str, _Run] = {}
        self._leaving: list[_Run] = []
        self._failed: dict[str, Ran] = {}

    def submit(self, id: str, job: Job) -> None:
        """Queue a job under a new id."""
        self._waiting.append((id, job))
        self._start()

    def step(self) -> list[tuple[str, Ran]]:
        """Return the results there are by now."""
        self._leaving = [run for run in self._leaving if not run.gone()]
        done = [(name, ran) for name, run in self._running.items() if (ran := run.poll()) is not None]
        for name, _ in done:
            del self._running[name]
        self._start()
        failed, self._failed = self._failed, {}
        return [*failed.items(), *done]

    def cancel(self, ids: Sequence[str]) -> None:
        """End or forget jobs; no result of them follows. Unknown ids are ignored."""
        gone = set(ids)
        self._waiting = deque(entry for entry in self._waiting if entry[0] not in gone)
        for name in ids:
            self._failed.pop(name, None)
        for name in gone & set(self._running):
            run = self._running.pop(name)
            run.let_go()
            self._leaving.append(run)
        self._start()

    def close(self) -> None:
        """End everything and wait until it is gone; may be called twice."""
        self._waiting.clear()
        self._failed.clear()
        self.cancel(list(self._running))
        for run in self._leaving:
            run.wait()
        self._leaving.clear()

    def _start(self) -> None:
        while self._waiting and len(self._running) + len(self._leaving) < self._workers:
            name, job = self._waiting.popleft()
            try:
                self._running[name] = _Run(job, self._way)
            except OSError as error:  # no memory or no files left for a process
                self._failed[name] = Ran(passed=False, reason=f"the sandbox failed: {error}", broken=True)


def run(job: Job, asked: Isolation = "auto") -> Ran:
    """Run one job and wait for its result."""
    return _wait(_Run(job, isolation(asked)))


@lru_cache
def isolation(asked: Isolation) -> str:
    """Return the isolation that ``asked`` comes to on this machine, after a trial run of it.

    Raises ``ConfigError`` when it does not work here, with what the kernel said.
    """
    if asked not in ("auto", *_WAYS):
        raise ConfigError(f"there is no {asked!r}; known: auto, {', '.join(_WAYS)}", "isolation")
    trial = Job("import json, math\ndef f(x):\n    return [x]", "f", ("assert f(1) == [1]",))
    failed = []
    for way in _WAYS if asked == "auto" else (asked,):
        ran = _wait(_Run(trial, way))
        if ran.passed:
            return way
        failed.append(f"{way}: {ran.reason}")
    raise ConfigError(
        f"{asked}: code cannot be run so on this machine ({'; '.join(failed)}). Namespaces need Linux 5.12 "
        "that lets users make them, limits Linux 5.3 with seccomp, both on x86_64 or aarch64.",
        "isolation",
    )


def _wait(run: _Run) -> Ran:
    try:
        while (ran := run.poll()) is None:
            time.sleep(0.002)
    finally:
        run.let_go()
        run.wait()
    return ran


class _Run:
    """One job in its processes."""

    def __init__(self, job: Job, way: str) -> None:
        self._job = job
        self._report = b""
        self._killed = False
        self._latest = time.monotonic() + job.limits.seconds + _STARTUP
        package = Path(__file__).parent.parent
        flags = ["-s", "-S", "-P", "-X", "utf8"]
        with contextlib.ExitStack() as stack:
            file = os.memfd_create("job")
            stack.callback(os.close, file)
            with os.fdopen(os.dup(file), "wb") as writer:
                writer.write(_message(job, way))
            os.lseek(file, 0, os.SEEK_SET)
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [os.path.realpath(sys.executable), *flags, "-c", _BOOT, str(package), str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[file],
                env=_environment(),
                cwd="/",
                start_new_session=True,
            )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def poll(self) -> Ran | None:
        """Return the result once there is one and every process is gone."""
        self._read()
        if time.monotonic() > self._latest:
            self._kill()
        return self._result() if self.gone() else None

    def gone(self) -> bool:
        """Return whether every process is gone, after freeing what is known of them."""
        if self._process.poll() is None:
            return False
        self._read()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return True

    def let_go(self) -> None:
        """Have the watchdog end everything; does not wait."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self) -> None:
        """Wait until every process is gone, for a short time, then kill."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LETTING_GO)
        if not self.gone():
            self._kill()
            self._process.wait()
            self.gone()

    def _kill(self) -> None:
        # No one of the group can leave it; its leader is not waited for yet, so the number is still theirs.
        self._killed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        """Take in what there is of the report."""
        pipe = self._process.stdout
        assert pipe is not None
        while not pipe.closed:
            try:
                part = os.read(pipe.fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not part:
                return
            self._report = (self._report + part)[:_REPORT]

    def _result(self) -> Ran:
        lines = [line.partition(" ") for line in self._report.decode("utf-8", "replace").splitlines()]
        told = {kind: text for kind, _, text in reversed(lines)}
        kinds = [kind for kind, _, _ in lines]
        way = told.get("isolation", "")
        passed, tests = kinds.count("pass"), len(self._job.tests)
        if "broken" in told or not {"end", "time"} & set(told):
            late = "it did not answer in time" if self._killed else "it ended without a result"
            return Ran(passed=False, reason=f"the sandbox failed: {told.get('broken') or late}", broken=True)
        loaded = "loaded" in told
        share = passed / tests if tests else float(loaded)
        if "end" in told and loaded and passed == tests:
            return Ran(passed=True, share=share, isolation=way)
        which = f"test {_first_failed(kinds)} of {tests}: " if loaded and tests else ""
        reason = told.get("fail", f"not done after {self._job.limits.seconds:g} s")
        return Ran(passed=False, reason=which + reason, share=share, isolation=way)


def _first_failed(kinds: Sequence[str]) -> int:
    results = [kind for kind in kinds if kind in {"pass", "fail"}]
    return (results.index("fail") if "fail" in results else len(results)) + 1


def _message(job: Job, way: str) -> bytes:
    """Return the two messages a watchdog reads: what the code may be told, and the tests."""
    limits = job.limits
    first = {
        "code": job.code,
        "entry": job.entry,
        "isolation": way,
        "seconds": float(limits.seconds),
        "cpu": math.ceil(limits.seconds) + 1,
        "memory_mib": limits.memory_mib,
        "disk_mib": limits.disk_mib,
        "files": limits.files,
    }
    second = {"setup": job.setup, "tests": job.tests, "until_failure": job.until_failure}
    parts = [values.encode(part) for part in (first, second)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _environment() -> dict[str, str]:
    """Return the little that the interpreter needs; sets of strings then have one order in every run."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {**kept, "PYTHONHASHSEED": "0"}
