"""The samples of a pool, in and out of its file.

Every sample is written whole or not at all. Of one request the file holds what comes furthest; one with fewer
log-probabilities than another stands beside it only if it comes further.
"""

from __future__ import annotations

import sqlite3
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ttsflow.engines.pool_file import check_place, opened, transaction
from ttsflow.engines.samples import (
    Sample,
    Texts,
    key_of,
    pack,
    pack_mappings,
    sampling_of,
    unpack,
    unpack_mappings,
)
from ttsflow.ops import EngineRequest

__all__ = ["SampleStore"]

_FIND = """
SELECT length, tokens, whole, stop, CASE WHEN :top THEN logprobs END, CASE WHEN :certain THEN certainties END
FROM samples WHERE key = :key AND top >= :top AND certain >= :certain
ORDER BY whole DESC, length DESC, top LIMIT 1
"""
_KNOWN = """
SELECT 1 FROM samples WHERE key = :key AND top >= :top AND certain >= :certain
AND (whole OR (NOT :whole AND length >= :length))
"""
_OUTDATED = """
DELETE FROM samples WHERE key = :key AND top <= :top AND certain <= :certain
AND (:whole OR (NOT whole AND length <= :length))
"""
_INSERT = """
INSERT INTO samples(key, top, certain, whole, length, stop, model, prompt, sampling, seed, problem, path,
    written, tokens, text, logprobs, certainties)
VALUES(:key, :top, :certain, :whole, :length, :stop,
    (SELECT id FROM models WHERE digest = :model), (SELECT id FROM prompts WHERE digest = :prompt),
    (SELECT id FROM samplings WHERE settings = :sampling),
    :seed, :problem, :path, :written, :tokens, :text, :logprobs, :certainties)
"""


@dataclass(frozen=True, slots=True)
class _Entry:
    texts: Texts
    request: EngineRequest
    sample: Sample
    text: str


class SampleStore:
    """An open pool. What was added is on disk after ``commit``, a transaction.

    Raises ``ConfigError`` when the file is none, is of another version, or cannot be written. ``key`` is made
    of the engine's texts and the request. ``broken`` says why the file is used no more, once that is so:
    nothing that goes wrong with it later raises.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken: str | None = None
        self.written = self.unwritten = 0
        self._added: list[_Entry] = []
        check_place(path)
        self.connection: sqlite3.Connection | None = opened(path)

    def find(self, texts: Texts, request: EngineRequest, top: int, *, certain: bool) -> Sample | None:
        """Return what is known of a request, with ``top`` log-probabilities per token; None: nothing."""
        if self.broken is not None or self.connection is None:
            return None
        wanted = {"key": key_of(texts.digest, request), "top": top, "certain": certain}
        try:
            row = self.connection.execute(_FIND, wanted).fetchone()
            return None if row is None else _sample(row, top, certain=certain)
        except (sqlite3.Error, zlib.error, ValueError) as error:
            self._leave(f"the pool {self.path} cannot be read: {error}")
            return None

    def add(self, texts: Texts, request: EngineRequest, sample: Sample, text: str) -> None:
        """Add what was decoded for a request."""
        if self.broken is None:
            self._added.append(_Entry(texts, request, sample, text))
        else:
            self.unwritten += 1

    def commit(self) -> None:
        """Write what was added, in one transaction."""
        added, self._added = self._added, []
        if not added:
            return
        try:
            self.written += self._write(added)
        except sqlite3.Error as error:
            self.unwritten += len(added)
            self._leave(f"the pool {self.path} cannot be written: {error}")

    def _leave(self, reason: str) -> None:
        self.broken = reason
        warnings.warn(f"{reason}; the run goes on without it", stacklevel=4)

    def _write(self, added: Iterable[_Entry]) -> int:
        connection = self.connection
        if connection is None:
            raise sqlite3.ProgrammingError("it is closed")
        written, there = 0, set[object]()
        with transaction(connection):
            for entry in added:
                row = _row(entry)
                if connection.execute(_KNOWN, row).fetchone() is not None:
                    continue
                connection.execute(_OUTDATED, row)
                for name, make in _SHARED.items():
                    # In every transaction anew: another process may remove what no sample needs.
                    if row[name] not in there:
                        make(connection, entry, row[name])
                        there.add(row[name])
                connection.execute(_INSERT, row)
                written += 1
        return written

    def close(self) -> None:
        """Write what was added, and close the file; may be called twice."""
        if self.connection is not None:
            self.commit()
            with suppress(sqlite3.Error):
                self.connection.close()
            self.connection = None


def _add_model(connection: sqlite3.Connection, entry: _Entry, digest: bytes) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO models(digest, name, settings) VALUES(?, ?, ?)",
        (digest, entry.texts.name, entry.texts.settings),
    )


def _add_prompt(connection: sqlite3.Connection, entry: _Entry, digest: bytes) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO prompts(digest, tokens) VALUES(?, ?)",
        (digest, zlib.compress(pack("i", entry.request.prompt), 1)),
    )


def _add_sampling(connection: sqlite3.Connection, _: _Entry, settings: str) -> None:
    connection.execute("INSERT OR IGNORE INTO samplings(settings) VALUES(?)", (settings,))


#: What many samples share, by its name in a row.
_SHARED: Mapping[str, Callable[[sqlite3.Connection, _Entry, Any], None]] = {
    "model": _add_model,
    "prompt": _add_prompt,
    "sampling": _add_sampling,
}


def _row(entry: _Entry) -> dict[str, Any]:
    request, sample = entry.request, entry.sample
    prompt = pack("i", request.prompt)
    return {
        "key": key_of(entry.texts.digest, request),
        "top": sample.top,
        "certain": sample.certain,
        "whole": sample.whole,
        "length": len(sample.tokens),
        "stop": sample.stop,
        "model": entry.texts.digest,
        "prompt": blake2b(prompt, digest_size=16).digest(),
        "sampling": sampling_of(request),
        "seed": request.seed,
        "problem": request.problem,
        "path": ".".join(map(str, request.path)),
        "written": time.time(),
        "tokens": pack("i", sample.tokens),
        "text": entry.text,
        "logprobs": pack_mappings(sample.logprobs) if sample.top else None,
        "certainties": pack("d", sample.certainties) if sample.certain else None,
    }


def _sample(row: tuple[Any, ...], top: int, *, certain: bool) -> Sample:
    length, tokens, whole, stop, logprobs, certainties = row
    sample = Sample(
        unpack("i", tokens),
        bool(whole),
        stop,
        top,
        certain,
        unpack_mappings(logprobs, top) if top else (),
        unpack("d", certainties) if certain else (),
    )
    known = [len(sample.tokens)] + [len(sample.logprobs)] * bool(top) + [len(sample.certainties)] * certain
    if any(one != length for one in known):
        msg = "a sample of it has not as many tokens, log-probabilities or certainties as it says"
        raise ValueError(msg)
    return sample
