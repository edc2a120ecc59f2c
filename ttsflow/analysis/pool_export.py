"""The samples of a pool as JSON lines or Parquet, one row a sample."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from ttsflow.engines.samples import unpack, unpack_mappings
from ttsflow.errors import ConfigError, MissingExtra
from ttsflow.runs.lines import replacing

__all__ = ["export"]

_ROWS = """
SELECT models.name, models.settings, problem, path, seed, samplings.settings, prompts.tokens, samples.tokens,
    text, whole, stop, written, top, logprobs, certainties
FROM samples JOIN models ON models.id = model JOIN prompts ON prompts.id = prompt
    JOIN samplings ON samplings.id = sampling ORDER BY samples.id
"""
_BATCH = 1000


def export(connection: sqlite3.Connection, target: Path) -> int:
    """Write all samples to a new file and return how many; its ending says the format.

    Raises ``ConfigError`` for a file that is there, cannot be written or has another ending, ``MissingExtra``
    without what Parquet needs.
    """
    writers = {".jsonl": _jsonl, ".parquet": _parquet}
    if target.suffix not in writers:
        raise ConfigError(f"a file that ends in .jsonl or .parquet is wanted, got {target}.", "--export")
    if target.exists():
        raise ConfigError(f"{target} is there already, and nothing is overwritten.", "--export")
    try:
        with replacing(target) as part:
            return writers[target.suffix](_rows(connection), part)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}.", "--export") from error


def _rows(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for row in connection.execute(_ROWS):
        name, engine, problem, path, seed, sampling, prompt, tokens, text, whole, stop, written, *told = row
        top, logprobs, certainties = told
        yield {
            "model": name,
            "engine": engine,
            "problem": problem,
            "path": [int(number) for number in path.split(".")] if path else [],
            "seed": seed,
            "sampling": sampling,
            "prompt": list(unpack("i", zlib.decompress(prompt))),
            "tokens": list(unpack("i", tokens)),
            "text": text,
            "whole": bool(whole),
            "stop": stop,
            "written": datetime.fromtimestamp(written, UTC).isoformat(),
            "logprobs": None if logprobs is None else _pairs(logprobs, top),
            "certainties": None if certainties is None else list(unpack("d", certainties)),
        }


def _pairs(data: bytes, top: int) -> list[list[dict[str, Any]]]:
    return [
        [{"token": token, "logprob": value} for token, value in mapping.items()]
        for mapping in unpack_mappings(data, top)
    ]


def _jsonl(rows: Iterator[dict[str, Any]], file: Path) -> int:
    count = 0
    with file.open("w", encoding="utf-8") as out:
        for count, row in enumerate(rows, 1):  # noqa: B007 - counted
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    return count


def _parquet(rows: Iterator[dict[str, Any]], file: Path) -> int:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra(
            "Parquet needs pyarrow: pip install 'ttsflow[parquet]', or export to .jsonl"
        ) from error
    texts = ("model", "engine", "problem", "sampling", "text", "stop", "written")
    numbers = pa.list_(pa.int32())
    pair = pa.struct([("token", pa.int32()), ("logprob", pa.float64())])
    kinds = dict.fromkeys(texts, pa.string()) | {
        "path": numbers,
        "prompt": numbers,
        "tokens": numbers,
        "seed": pa.int64(),
        "whole": pa.bool_(),
        "logprobs": pa.list_(pa.list_(pair)),
        "certainties": pa.list_(pa.float64()),
    }
    count = 0
    schema = pa.schema(kinds)
    with parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(rows, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
            count += len(batch)
    return count
