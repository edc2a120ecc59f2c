"""Whether an answer is right: canonical keys first, math-verify in a process of its own for the rest.

The keys decide every pair of exact numbers, lists of them and words. Only two expressions that differ
in text go to math-verify, which compares ``gold`` with ``answer`` in that direction. Its comparison is
not symmetric, raises inside threads and can run without end; so it lives in one worker process, is
given a deadline per question, and is replaced when it misses it.

An error is not a wrong answer: the verdict is then None, the reason is logged and kept in
``failures``. A question with a gold answer and no answer is wrong, never equal.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import logging
import os
import resource
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache

from ttsflow.errors import MissingExtra
from ttsflow.tasks.choices import Choices, gold_label
from ttsflow.tasks.extract import extract, last_box
from ttsflow.tasks.keys import Kind, decided, key_of
from ttsflow.types import Answer

__all__ = ["GradingError", "MathVerify", "correct", "failures", "gold_text", "need_math_verify"]

_log = logging.getLogger(__name__)
_MEMORY = 4 << 30  # bytes of address space of the worker; powers of powers would take all there is
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from ttsflow.tasks.grade import serve; serve()"
)

#: Reasons of comparisons that failed in this process, the oldest first.
failures: list[str] = []


class GradingError(Exception):
    """Two answers could not be compared; this says nothing about whether they are equal."""


def need_math_verify() -> None:
    """Raise ``MissingExtra`` when math-verify is not installed."""
    if importlib.util.find_spec("math_verify") is None:
        raise MissingExtra(
            "answers of kind 'math' are compared with math-verify, which is not installed; "
            "pip install 'ttsflow[math]', or choose kind: number or text"
        )


@lru_cache(maxsize=100_000)
def gold_text(gold: str, kind: Kind, choices: Choices = ()) -> str:
    r"""Return the answer in a gold text, empty when it parses to nothing.

    A gold text may be a whole solution that ends in ``#### 18`` or holds a box; else it is the answer.
    """
    if kind == "choice":
        return gold_label(gold, choices) or ""
    box, _ = last_box(gold)
    if box is not None:
        gold = box
    elif "####" in gold:
        gold = gold.rpartition("####")[2].strip()
    if kind == "number":
        found = extract(gold, "number")
        return "" if found is None else found.text
    return gold.strip() if key_of(gold, kind) else ""


def correct(
    answer: Answer | None, gold: str | None, kind: Kind, choices: Choices = (), tolerance: float = 0.0
) -> bool | None:
    """Return whether ``answer`` equals ``gold``; None without a gold answer or after a failure.

    ``tolerance`` is relative, for single numbers; 0 compares exactly.
    """
    if gold is None or not (text := gold_text(gold, kind, tuple((name, said) for name, said in choices))):
        return None
    if answer is None:
        return False
    key = key_of(text, kind)
    if kind in ("choice", "text"):
        return answer.key == key
    known = decided(answer.key, key, tolerance)
    if known is not None or kind == "number":
        return bool(known)
    try:
        return _worker.equal(text, answer.text)
    except GradingError as error:
        reason = f"cannot compare {answer.text!r} with gold {text!r}: {error}"
        if reason not in failures:
            failures.append(reason)
            _log.warning(reason)
        return None


class MathVerify:
    """math-verify in a worker process: started at the first question, replaced when it hangs or dies.

    ``deadline`` and ``startup`` are seconds of wall-clock time. Safe to call from several threads.
    """

    def __init__(
        self, deadline: float = 20.0, startup: float = 120.0, command: Callable[[], list[str]] | None = None
    ) -> None:
        self._deadline = deadline
        self._startup = startup
        self._command = command or (lambda: [sys.executable, "-c", _BOOT, json.dumps(sys.path)])
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._buffer = b""
        self._known: dict[tuple[str, str], bool] = {}

    def equal(self, gold: str, answer: str) -> bool:
        """Return whether ``answer`` says the same as ``gold``. Raises ``GradingError``, ``MissingExtra``."""
        with self._lock:
            if (gold, answer) not in self._known:
                self._known[gold, answer] = self._ask(gold, answer)
            return self._known[gold, answer]

    def close(self) -> None:
        """End the worker; a later question starts a new one."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, gold: str, answer: str) -> bool:
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps([gold, answer]).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            self.close()
            raise GradingError("the math-verify process has died") from error
        reply = json.loads(self._line(process, self._deadline))
        if "error" in reply:
            raise GradingError(reply["error"])
        return bool(reply["equal"])

    def _started(self) -> subprocess.Popen[bytes]:
        # A process that was forked off must not share the pipes of its parent's worker.
        alive = self._process is not None and self._process.poll() is None and self._owner == os.getpid()
        if not alive:
            self.close()
            need_math_verify()
            self._owner = os.getpid()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._line(self._process, self._startup)
        assert self._process is not None
        return self._process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes:
        assert process.stdout is not None
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self.close()
                    raise GradingError(f"math-verify gave no reply within {seconds:g} s")
                chunk = os.read(process.stdout.fileno(), 65536)
                if not chunk:
                    self.close()
                    raise GradingError("the math-verify process has died")
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def serve() -> None:
    """Answer questions on standard input until it ends: the worker's side."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the libraries print is not a reply
    from math_verify import parse, verify  # noqa: PLC0415 - takes a second, and only the worker needs it

    def say(reply: dict[str, object]) -> None:
        out.write(json.dumps(reply) + "\n")
        out.flush()

    say({"ready": True})
    for line in sys.stdin:
        try:
            # The deadline is kept from outside, so the libraries' own alarms are off. A bare answer is
            # only recognised between math delimiters.
            gold, answer = (
                parse(f"${text.strip().strip('$')}$", parsing_timeout=None, raise_on_error=True)
                for text in json.loads(line)
            )
            if not gold:
                say({"error": "the gold answer parses to nothing"})
            else:
                equal = bool(answer) and verify(gold, answer, timeout_seconds=None, raise_on_error=True)
                say({"equal": bool(equal)})
        except Exception as error:  # noqa: BLE001 - any failure is reported, none is a verdict
            say({"error": f"{type(error).__name__}: {error}"})


def _end_with_parent(parent: int) -> None:
    """End a worker that is stuck in a computation when the process that asked is gone."""
    while os.getppid() == parent:
        time.sleep(2.0)
    os._exit(1)


_worker = MathVerify()
atexit.register(_worker.close)
