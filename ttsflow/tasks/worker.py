"""A process that answers questions as JSON lines, each within a deadline.

For libraries that can hang, take all memory, take down the interpreter or keep its lock: they are loaded by
such a worker, which is started at the first question and replaced when it misses a deadline or dies.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

__all__ = ["GradingError", "Worker", "boot", "questions"]


class GradingError(Exception):
    """Two answers could not be compared; this says nothing about whether they are equal."""


def boot(module: str) -> list[str]:
    """Return the command of a worker that runs ``serve`` of a module, with this process's search path."""
    code = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import serve; serve()"
    return [sys.executable, "-c", code, json.dumps(sys.path)]


class Worker:
    """One worker process called ``name``; ``command`` starts it and ``startup`` seconds are given for that.

    Not safe to call from several threads at once: who owns it holds a lock from question to reply.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[], list[str]],
        *,
        startup: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._command = command
        self._startup = startup
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._buffer = b""

    @property
    def pid(self) -> int | None:
        """The process, None when there is none."""
        return None if self._process is None else self._process.pid

    def ask(self, question: Any) -> None:
        """Send a question, after starting the process where there is none. Raises ``GradingError``."""
        # A process that was forked off must not share the pipes of its parent's worker.
        if self._process is None or self._process.poll() is not None or self._owner != os.getpid():
            self.close()
            self._owner = os.getpid()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **self._environment},
            )
            self.reply(self._startup)
        try:
            _pipe(self._process.stdin).write(json.dumps(question).encode() + b"\n")
            _pipe(self._process.stdin).flush()
        except OSError as error:
            self.close()
            raise GradingError(f"the {self._name} process has died") from error

    def reply(self, seconds: float) -> Any:
        """Return the next reply. Raises ``GradingError`` when none comes within ``seconds``."""
        assert self._process is not None
        pipe = _pipe(self._process.stdout)
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self.close()
                    raise GradingError(f"{self._name} gave no reply within {seconds:g} s")
                chunk = os.read(pipe.fileno(), 1 << 20)
                if not chunk:
                    self.close()
                    raise GradingError(f"the {self._name} process has died")
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """End the process; a later question starts a new one."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def questions(memory: int | None, load: Callable[[], object]) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """Yield every question and the function that replies to it: the worker's side.

    ``memory`` is the most bytes of address space, None for any; ``load`` imports what takes long, and only
    then does the worker say that it is ready. It ends with its input, or with the process that started it.
    """
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the libraries print is not a reply

    def say(reply: Any) -> None:
        out.write(json.dumps(reply) + "\n")
        out.flush()

    load()
    say({"ready": True})
    for line in sys.stdin:
        yield json.loads(line), say


def _end_with_parent(parent: int) -> None:
    """End a worker that is stuck in a computation when the process that asked is gone."""
    while os.getppid() == parent:
        time.sleep(2.0)
    os._exit(1)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
