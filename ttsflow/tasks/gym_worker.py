"""Reasoning Gym in a process of its own: it makes the entries and scores the answers.

The package takes seconds to import, and some of its scorers evaluate what a model has written, which may
take for ever. So it is only ever loaded by one worker process, which has a deadline per entry and per
answer, a limit on memory, and is replaced when it misses one. This keeps a run going; it is not a
sandbox. The worker's hash seed is fixed, because some of the package's data sets depend on it.
"""

from __future__ import annotations

import atexit
import base64
import importlib
import json
import pickle
import threading
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from ttsflow.tasks.worker import GradingError, Worker, boot, questions

__all__ = ["Gym", "serve", "worker"]

_MEMORY = 8 << 30  # bytes of address space
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}


class Gym:
    """The worker as its user sees it: started at the first request. Safe to call from several threads.

    ``startup``, ``making`` (per entry) and ``scoring`` (per answer) are seconds of wall-clock time.
    """

    def __init__(self, startup: float = 300.0, making: float = 120.0, scoring: float = 20.0) -> None:
        self._worker = Worker(
            "reasoning_gym", lambda: boot(__name__), startup=startup, environment=_ENVIRONMENT
        )
        self._making = making
        self._scoring = scoring
        self._lock = threading.Lock()

    def entries(self, source: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the entries of a data set, each with ``question``, ``answer`` and an opaque ``entry``.

        Or else one mapping with the key ``error``. ``source`` has ``name``, ``size``, ``seed`` and
        ``settings``. Raises ``GradingError`` when an entry takes too long or the worker dies.
        """
        with self._lock:
            self._worker.ask({"do": "make", **source})
            made: list[dict[str, Any]] = []
            while len(made) < source["size"]:
                made.append(self._worker.reply(self._making))
                if "error" in made[-1]:
                    return made[-1:]
            return made

    def score(self, source: Mapping[str, Any], entry: str, answer: str) -> float:
        """Return the package's score of an answer. Raises ``GradingError`` when there is none."""
        with self._lock:
            self._worker.ask({"do": "score", **source, "entry": entry, "answer": answer})
            reply = self._worker.reply(self._scoring)
        if "error" in reply:
            raise GradingError(reply["error"])
        return float(reply["score"])

    def close(self) -> None:
        """End the worker; a later request starts a new one."""
        self._worker.close()


def serve() -> None:
    """Answer requests on standard input until it ends: the worker's side."""
    for request, say in questions(_MEMORY, lambda: importlib.import_module("reasoning_gym")):
        for reply in _made(request) if request["do"] == "make" else iter([_scored(request)]):
            say(reply)


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


#: The one worker of this process.
worker = Gym()
atexit.register(worker.close)
