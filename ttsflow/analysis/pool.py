"""``ttsflow pool``: what a pool of samples holds, its samples in another format, and less of them."""

# ruff: noqa: T201 - it prints

from __future__ import annotations

import argparse
import re
import sqlite3
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.table import Table

from ttsflow.analysis.pool_export import export
from ttsflow.engines.pool_file import opened, transaction
from ttsflow.errors import ConfigError, suggest
from ttsflow.listing import wide_console

__all__ = ["main"]

_HOURS = {"h": 1, "d": 24, "w": 7 * 24}
_MODELS = """
SELECT name, count(samples.id), sum(whole), sum(length), count(DISTINCT prompt), min(written), max(written)
FROM samples JOIN models ON models.id = model GROUP BY model ORDER BY name, model
"""


def main(argv: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Show, export or prune a pool; returns the exit code. Raises ``ConfigError`` and ``MissingExtra``."""
    parser.add_argument("path", metavar="PATH", type=Path, help="the file that engine.pool named")
    parser.add_argument("--export", metavar="FILE", type=Path, help="a new .parquet or .jsonl file")
    parser.add_argument("--prune", action="store_true", help="remove all that has what the next three say")
    parser.add_argument("--model", metavar="NAME", help="samples of this model")
    parser.add_argument("--older-than", metavar="AGE", help="written longer ago than 12h, 30d or 8w")
    parser.add_argument(
        "--partials", action="store_true", help="only beginnings: what was cut or ended early"
    )
    parser.add_argument("--yes", action="store_true", help="with --prune: do it, instead of saying what")
    args = parser.parse_args(argv)
    conditions = [args.model is not None, args.older_than is not None, args.partials]
    if args.prune and not any(conditions):
        raise ConfigError("say what to remove: --model NAME, --older-than 30d or --partials.", "--prune")
    if not args.prune and (any(conditions) or args.yes):
        raise ConfigError("--model, --older-than, --partials and --yes belong to it.", "--prune")
    if args.prune and args.export is not None:
        raise ConfigError("one thing at a time: export first, then prune.", "--export")
    if not args.path.is_file():
        raise ConfigError(f"there is no pool at {args.path}; engine.pool=FILE makes one.", "PATH")
    with closing(opened(args.path, writes=args.prune and args.yes)) as connection:
        try:
            if args.export is not None:
                print(f"{export(connection, args.export)} samples in {args.export}")
            elif args.prune:
                _prune(connection, args)
            else:
                _show(connection, args.path)
        except sqlite3.DatabaseError as error:
            raise ConfigError(f"{args.path} cannot be read to its end: {error}.", "PATH") from error
        except (TypeError, ValueError, OverflowError, zlib.error) as error:
            # SQLite keeps whatever somebody has put into a column; what reads it meets a text for a number.
            raise ConfigError(
                f"{args.path} holds values that no run writes, so something else has changed it "
                f"({type(error).__name__}: {error}). `--prune` may remove the samples that have them; else "
                "name another pool, and delete this one.",
                "PATH",
            ) from error
    return 0


def _show(connection: sqlite3.Connection, path: Path) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(("model", "samples", "partials", "tokens", "prompts", "first", "last")):
        table.add_column(column, no_wrap=True, justify="right" if 0 < number < 5 else "left")
    for name, count, whole, tokens, prompts, first, last in connection.execute(_MODELS):
        numbers = (f"{number:,}" for number in (whole, count - whole, tokens, prompts))
        table.add_row(name, *numbers, _day(first), _day(last))
    if table.row_count:
        wide_console().print(table)
    size = sum(file.stat().st_size for file in (path, Path(f"{path}-wal")) if file.exists())
    print(f"{path}: {'' if table.row_count else 'no samples, '}{size / 1e6:,.1f} MB")


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _prune(connection: sqlite3.Connection, args: argparse.Namespace) -> None:
    where, values = _chosen(connection, args)
    found = f"FROM samples WHERE {where}"  # the values stand apart; what is put together is written below
    count, whole, tokens = connection.execute(
        f"SELECT count(*), coalesce(sum(whole), 0), coalesce(sum(length), 0) {found}",
        values,
    ).fetchone()
    told = f"{whole:,} samples and {count - whole:,} partials, {tokens:,} tokens"
    if not args.yes or not count:
        print(f"{told} would be removed" + ("; add --yes to do it." if count else "."))
        return
    with transaction(connection):
        connection.execute(f"DELETE {found}", values)
        for table, column in (("prompts", "prompt"), ("samplings", "sampling"), ("models", "model")):
            connection.execute(
                f"DELETE FROM {table} WHERE id NOT IN (SELECT {column} FROM samples)"  # noqa: S608 - as said
            )
    try:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        print(f"the file keeps its size for now ({error}); the room is used for what comes.")
    print(f"{told} removed")


def _chosen(connection: sqlite3.Connection, args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return the condition of what is to be removed, and its values. Raises ``ConfigError``."""
    where, values = [], {}
    if args.model is not None:
        names = {name for (name,) in connection.execute("SELECT DISTINCT name FROM models")}
        if args.model not in names:
            raise ConfigError(
                f"there is no model '{args.model}' in it. {suggest(args.model, names)}", "--model"
            )
        where.append("model IN (SELECT id FROM models WHERE name = :model)")
        values["model"] = args.model
    if args.older_than is not None:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", args.older_than)
        if match is None:
            raise ConfigError(f"an age is written 12h, 30d or 8w, got {args.older_than!r}.", "--older-than")
        where.append("written < :written")
        values["written"] = time.time() - float(match[1]) * _HOURS[match[2]] * 3600
    if args.partials:
        where.append("NOT whole")
    return " AND ".join(where), values
