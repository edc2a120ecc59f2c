"""Reasoning Gym in a process of its own: it makes the entries and scores the answers.

The package takes seconds to import, and some of its scorers evaluate what a model has written, which may
take for ever. So it is only ever loaded by one worker process, which has a deadline per entry and per
answer, a limit on memory, and is replaced when it misses one. This keeps a run going; it is not a
sandbox. The worker's hash seed is fixed, because some of the package's data sets depend on it.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import pickle
import resource
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from ttsflow.tasks.grade import GradingError

__all__ = ["Worker", "serve", "worker"]

_MEMORY = 8 << 30  # bytes of address space
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ttsflow.tasks.gym_worker import serve; serve()"
)
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}


class Worker:
    """The worker as its user sees it: started at the first request. Safe to call from several threads.

    ``startup``, ``making`` (per entry) and ``scoring`` (per answer) are seconds of wall-clock time.
    """

    def __init__(self, startup: float = 300.0, making: float = 120.0, scoring: float = 20.0) -> None:
        self._startup = startup
        self._making = making
        self._scoring = scoring
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._buffer = b""

    def entries(self, source: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the entries of a data set, each with ``question``, ``answer`` and an opaque ``entry``.

        Or else one mapping with the key ``error``. ``source`` has ``name``, ``size``, ``seed`` and
        ``settings``. Raises ``GradingError`` when an entry takes too long or the worker dies.
        """
        with self._lock:
            self._send({"do": "make", **source})
            made: list[dict[str, Any]] = []
            while len(made) < source["size"]:
                made.append(json.loads(self._line(self._making)))
                if "error" in made[-1]:
                    return made[-1:]
            return made

    def score(self, source: Mapping[str, Any], entry: str, answer: str) -> float:
        """Return the package's score of an answer. Raises ``GradingError`` when there is none."""
        with self._lock:
            self._send({"do": "score", **source, "entry": entry, "answer": answer})
            reply = json.loads(self._line(self._scoring))
        if "error" in reply:
            raise GradingError(reply["error"])
        return float(reply["score"])

    def close(self) -> None:
        """End the worker; a later request starts a new one."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, request: Mapping[str, Any]) -> None:
        # A process that was forked off must not share the pipes of its parent's worker.
        if self._process is None or self._process.poll() is not None or self._owner != os.getpid():
            self.close()
            self._owner = os.getpid()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-c", _BOOT, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ENVIRONMENT},
            )
            self._line(self._startup)
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            self.close()
            raise GradingError("the process with reasoning_gym has died") from error

    def _line(self, seconds: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self.close()
                    raise GradingError(f"reasoning_gym gave no reply within {seconds:g} s")
                chunk = os.read(self._process.stdout.fileno(), 1 << 20)
                if not chunk:
                    self.close()
                    raise GradingError("the process with reasoning_gym has died")
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def serve() -> None:
    """Answer requests on standard input until it ends: the worker's side."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the package prints is not a reply
    import reasoning_gym  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401, PLC0415 - takes seconds, and only the worker needs it

    out.write("{}\n")
    out.flush()
    for line in sys.stdin:
        request = json.loads(line)
        replies = _made(request) if request["do"] == "make" else iter([_scored(request)])
        for reply in replies:
            out.write(json.dumps(reply) + "\n")
            out.flush()


def _made(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        wrong = _wrong(request)
        if wrong is not None:
            yield wrong
            return
        data = _data_set(*_key(request))
        for place in range(request["size"]):
            entry = data[place]
            yield {
                "question": str(entry["question"]),
                "answer": None if entry["answer"] is None else str(entry["answer"]),
                "entry": base64.b64encode(pickle.dumps(entry)).decode(),
            }
    except Exception as error:  # noqa: BLE001 - whatever the package refuses is reported
        yield {"error": "settings", "message": f"{type(error).__name__}: {error}"}


def _scored(request: Mapping[str, Any]) -> dict[str, Any]:
    entry = pickle.loads(base64.b64decode(request["entry"]))  # noqa: S301 - written by this very module
    try:
        data = _data_set(*_key(request))
        try:
            return {"score": float(data.score_answer(request["answer"], entry))}
        except Exception:
            # A scorer that takes the right answer and raises at this one cannot read it.
            if entry["answer"] is None or not data.score_answer(entry["answer"], entry):
                raise
            return {"score": 0.0}
    except Exception as error:  # noqa: BLE001 - any failure is reported, none is a verdict
        return {"error": f"{type(error).__name__}: {error}"}


def _wrong(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is wrong with the name or the settings of a request."""
    from reasoning_gym.factory import DATASETS  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415

    if request["name"] not in DATASETS:
        return {"error": "name", "known": sorted(DATASETS)}
    known = sorted({field.name for field in fields(DATASETS[request["name"]][1])} - {"size", "seed"})
    for name in request["settings"]:
        if name not in known:
            return {"error": "setting", "name": name, "known": known}
    return None


def _key(request: Mapping[str, Any]) -> tuple[str, int, int, str]:
    return request["name"], request["size"], request["seed"], json.dumps(request["settings"])


@lru_cache(maxsize=8)
def _data_set(name: str, size: int, seed: int, settings: str) -> Any:
    from reasoning_gym.factory import create_dataset  # noqa: PLC0415

    return create_dataset(name, **json.loads(settings), size=size, seed=seed)


def _end_with_parent(parent: int) -> None:
    """End a worker that is stuck in a computation when the process that asked is gone."""
    while os.getppid() == parent:
        time.sleep(2.0)
    os._exit(1)


#: The one worker of this process.
worker = Worker()
atexit.register(worker.close)
