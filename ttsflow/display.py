"""The live view of a run, and the table at its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ttsflow.listing import wide_console
from ttsflow.status import Status
from ttsflow.summary import Summary

__all__ = ["Display", "print_summaries", "remarks"]

_INTERVAL = 0.2
"""Seconds between two updates of the display; an engine step may be far shorter."""


class Display:
    """Shows problems, tokens per second, running accuracy and batch while a run goes on.

    On a terminal it is one line that changes; elsewhere nothing is drawn, the closing table suffices.
    """

    def __init__(self, names: Mapping[str, str], problems: int, *, show: bool) -> None:
        console = Console(file=sys.stderr)
        self._show = show and console.is_terminal
        self._next = 0.0
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f} problems  {task.fields[news]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self._show,
        )
        label = f"{names.get('strategy', '')} on {names.get('task', '')}"
        self._label = label
        self._row: TaskID = self._progress.add_task(f"{label}: loading", total=problems, news="")

    def __enter__(self) -> Self:
        """Start drawing."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing and leave the terminal clean."""
        self._progress.stop()

    def loaded(self) -> None:
        """Say that the engine is ready."""
        self._progress.update(self._row, description=self._label)

    def step(self, status: Status) -> None:
        """Take the driver's status; draws at most a few times a second."""
        now = time.monotonic()
        if not self._show or now < self._next:
            return
        self._next = now + _INTERVAL
        # Over the whole run: requests that no watch hears report their tokens only when they end.
        rate = status.tokens / status.seconds if status.seconds else 0.0
        accuracy = f"{status.correct / status.graded:.1%}" if status.graded else "-"
        news = f"{rate:.0f} tokens/s  accuracy {accuracy}  batch {status.live}"
        self._progress.update(self._row, completed=status.done, news=news)


def print_summaries(summaries: Iterable[Summary], console: Console | None = None) -> None:
    """Print one row per run: accuracy with its interval, tokens, time and what did not end well."""
    console = console or wide_console()
    summaries = list(summaries)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = (
        "strategy",
        "accuracy",
        "95 % interval",
        "decoded",
        "serial",
        "seconds",
        "tok/s",
        "answered",
        "status",
    )
    for name in columns:
        table.add_column(name, justify="left" if name in {"strategy", "status"} else "right", no_wrap=True)
    for summary in summaries:
        table.add_row(*_row(summary))
    console.print(table)
    for summary in summaries:
        for line in remarks(summary):
            console.print(line, highlight=False, markup=False)


def remarks(summary: Summary) -> list[str]:
    """Return what a reader must know besides the figures: what did not end in an answer, and why."""
    counts = {
        "failed": summary.failed,
        "deferred": summary.deferred,
        "truncated": summary.truncated,
        "abstained": summary.abstained,
        "ungraded": summary.ungraded,
    }
    lines = []
    if any(counts.values()):
        named = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        lines.append(f"{summary.strategy}: of {summary.problems} problems {named}; reasons in results.jsonl")
    engines: Mapping[str, Mapping[str, int]] = summary.usage.get("engines", {})
    lines += [
        f"{summary.strategy}: {one['decoded_tokens']:,} of the decoded tokens, and {one['requests']:,} of "
        f"{summary.usage['requests']:,} requests, are of engine {name}"
        for name, one in engines.items()
    ]
    lines += [f"{summary.strategy}: {count} x {why}" for why, count in summary.stopped.items()]
    if summary.exact and summary.exact["differ"]:
        differ, checked = summary.exact["differ"], summary.exact["checked"]
        lines.append(
            f"{summary.strategy}: {len(differ)} of {checked} problems came to something else on the plain "
            f"engine: {', '.join(differ[:5])}"
        )
    if summary.truncation_rate > 0.05:
        lines.append(f"{summary.strategy}: {summary.truncation_rate:.0%} of the samples were cut by a limit")
    return lines


def _row(summary: Summary) -> list[str]:
    usage: Mapping[str, Any] = summary.usage
    seconds = usage["wall_seconds"]
    low, high = summary.accuracy_ci95 or (None, None)
    return [
        summary.strategy,
        "-" if summary.accuracy is None else f"{summary.accuracy:.3f}",
        "-" if low is None or high is None else f"{low:.3f}-{high:.3f}",
        f"{usage['decoded_tokens']:,}",
        f"{usage['serial_tokens']:,}",
        f"{seconds:.1f}",
        f"{usage['decoded_tokens'] / seconds:.0f}" if seconds else "-",
        f"{summary.coverage:.1%}",
        summary.status,
    ]
