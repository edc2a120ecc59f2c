"""Tables for people: installed parts, plugins, and the jobs of a sweep."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ttsflow.plugins import Plugin
from ttsflow.registry import KINDS, Registry

__all__ = ["shortened", "show_jobs", "show_parts", "show_plan", "show_plugins", "shown", "wide_console"]

#: Columns when the output is not a terminal, so that a file or a pipe gets whole lines.
WIDE = 240
#: Characters of an error in a list of jobs; all of it is in the job's `summary.json`.
_LONGEST = 300


def wide_console() -> Console:
    """Return a console that never cuts a line which nobody watches."""
    return _Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)


class _Console(Console):
    """Lets the command line say what it means when a reader such as `head` has seen enough."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise the error instead of ending the process as if a run had failed."""
        raise BrokenPipeError


def _table(columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; cells are plain text, since names and settings may hold brackets."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    wide_console().print(table)


def show_parts(registry: Registry, kind: str | None) -> None:
    """Print all that may be chosen by name, or those of one kind with all they say about themselves."""
    entries = registry.choices(kind)
    if kind is None:
        rows = [(e.kind, e.name, e.provider, e.doc) for e in entries]
        _table(("kind", "name", "provider", "what"), rows)
        return
    notes = [entry.notes for entry in entries]
    extra = [key for key in ("source", "cost") if any(key in note for note in notes)]
    _table(
        ("name", "provider", "what", *extra),
        (
            (entry.name, entry.provider, *(note.get(key, "") for key in ("what", *extra)))
            for entry, note in zip(entries, notes, strict=True)
        ),
    )


def show_plugins(plugins: Sequence[Plugin], problems: Sequence[str]) -> None:
    """Print what is installed, what each adds, and what is wrong."""
    _table(("plugin", "distribution", "version", "state", "adds"), (_plugin_row(p) for p in plugins))
    for problem in problems:
        wide_console().print(Text(f"\nproblem: {problem}"))


def _plugin_row(plugin: Plugin) -> tuple[str, ...]:
    state = "broken" if plugin.error else "blocked" if plugin.blocked else "ok"
    counts = Counter(kind for kind, _ in plugin.parts)
    adds = [f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]]
    adds += [f"configs in {package}" for package in plugin.packages]
    return plugin.name, plugin.provider, plugin.version, state, ", ".join(adds)


def show_plan(jobs: Sequence[Sequence[str]], first: int) -> None:
    """Print the jobs that are about to start."""
    print(f"{len(jobs)} job{'s' if len(jobs) != 1 else ''}:")  # noqa: T201 - what the command is for
    for number, overrides in enumerate(jobs, first):
        print(f"  {number}  {' '.join(overrides)}", flush=True)  # noqa: T201


def shortened(text: str) -> str:
    """Return the first line of a text, cut to what a table has room for."""
    line = next(iter(text.splitlines()), "")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 4].rstrip() + " ..."


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a job came to, as it is printed."""
    return {key: _shown(key, value) for key, value in row.items()}


def _shown(key: str, value: Any) -> Any:
    if key == "accuracy" and value is not None:
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else value


def show_jobs(
    numbers: Sequence[int],
    overrides: Sequence[Sequence[str]],
    states: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Print one line per job: what it differs in from the others, its state, and its results."""
    common = set.intersection(*map(set, overrides)) if len(overrides) > 1 else set()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    _table(
        ("job", "overrides", "status", *(key for key in columns if key != "status")),
        (
            (
                number,
                " ".join(one for one in lines if one not in common),
                state,
                *(_shown(key, row.get(key)) for key in columns if key != "status"),
            )
            for number, lines, state, row in zip(numbers, overrides, states, rows, strict=True)
        ),
    )
