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
import importlib
import importlib.util
import logging
import threading
from collections.abc import Callable
from functools import lru_cache

from ttsflow.errors import MissingExtra
from ttsflow.tasks.choices import Choices, gold_label
from ttsflow.tasks.extract import extract, last_box
from ttsflow.tasks.keys import Kind, decided, key_of, no_number
from ttsflow.tasks.worker import GradingError, Worker, boot, questions
from ttsflow.types import Answer

__all__ = ["GradingError", "MathVerify", "correct", "failures", "gold_text", "need_math_verify"]

_log = logging.getLogger(__name__)
_MEMORY = 4 << 30  # bytes of address space of the worker; powers of powers would take all there is

#: Reasons of comparisons that failed in this process, the oldest first.
failures: list[str] = []


def need_math_verify() -> None:
    """Raise ``MissingExtra`` when math-verify is not installed."""
    if importlib.util.find_spec("math_verify") is None:
        raise MissingExtra(
            "answers of kind 'math' are compared with math-verify, which is not installed; "
            "pip install 'ttsflow[math]', or choose kind: number or text"
        )


@lru_cache(maxsize=100_000)
def gold_text(gold: str, kind: Kind, choices: Choices = ()) -> str:
    r"""Return the answer in a gold text, empty when it parses to nothing, as ``1/0`` does.

    A gold text may be a whole solution that ends in ``#### 18`` or holds a box; else it is the answer.
    """
    if kind == "choice":
        return gold_label(gold, choices) or ""
    box, _ = last_box(gold)
    if box is not None:
        gold = box
    elif "####" in gold:
        gold = gold.rpartition("####")[2].strip()
    key = key_of(gold, kind)
    if not key or (kind != "text" and no_number(key)):
        return ""
    if kind != "number":
        return gold.strip()
    found = extract(gold, "number")
    return "" if found is None or no_number(found.key) else found.text


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
        self._worker = Worker("math-verify", command or _command, startup=startup)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], bool] = {}

    @property
    def pid(self) -> int | None:
        """The worker's process, None when there is none."""
        return self._worker.pid

    def equal(self, gold: str, answer: str) -> bool:
        """Return whether ``answer`` says the same as ``gold``. Raises ``GradingError``, ``MissingExtra``."""
        with self._lock:
            if (gold, answer) not in self._known:
                self._known[gold, answer] = self._ask(gold, answer)
            return self._known[gold, answer]

    def close(self) -> None:
        """End the worker; a later question starts a new one."""
        self._worker.close()

    def _ask(self, gold: str, answer: str) -> bool:
        need_math_verify()
        self._worker.ask([gold, answer])
        reply = self._worker.reply(self._deadline)
        if "error" in reply:
            raise GradingError(reply["error"])
        return bool(reply["equal"])


def _command() -> list[str]:
    return boot(__name__)


def serve() -> None:
    """Answer questions on standard input until it ends: the worker's side."""
    for pair, say in questions(_MEMORY, lambda: importlib.import_module("math_verify")):
        try:
            say(_compared(*pair))
        except Exception as error:  # noqa: BLE001 - any failure is reported, none is a verdict
            say({"error": f"{type(error).__name__}: {error}"})


def _compared(gold: str, answer: str) -> dict[str, object]:
    from math_verify import parse, verify  # noqa: PLC0415 - takes a second, and only the worker needs it

    # The deadline is kept from outside, so the libraries' own alarms are off. A bare answer is only
    # recognised between math delimiters.
    right, said = (
        parse(f"${text.strip().strip('$')}$", parsing_timeout=None, raise_on_error=True)
        for text in (gold, answer)
    )
    if not right:
        return {"error": "the gold answer parses to nothing"}
    return {"equal": bool(said and verify(right, said, timeout_seconds=None, raise_on_error=True))}


_worker = MathVerify()
atexit.register(_worker.close)
