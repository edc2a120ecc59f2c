"""``ttsflow status``: how far a sweep or a run is, read from its folders alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from rich.table import Table
from rich.text import Text

from ttsflow.errors import DataError
from ttsflow.listing import shortened, wide_console
from ttsflow.runs.locking import Holder, holder
from ttsflow.runs.progress import PLAN, Progress, holds_a_run, progress, read_plan, time_left

__all__ = ["show_status"]


def show_status(folder: Path) -> None:
    """Print a row per job of a sweep, or that of a run. Raises ``DataError`` for a folder that is neither."""
    try:
        sweep, run = (folder / PLAN).is_file(), folder.is_dir() and holds_a_run(folder)
    except OSError as error:
        raise DataError(f"{str(folder)[:200]} cannot be read: {error.strerror}") from error
    if sweep:
        jobs = sorted(read_plan(folder))
        at_work = holder(folder)
        _show([(str(number), words, progress(path)) for number, words, path in jobs], at_work)
        print(f"\nthe sweep is run by {at_work}" if at_work else "\nnobody runs the sweep")  # noqa: T201
    elif run:
        _show([("-", (), progress(folder))])
    else:
        raise DataError(f"{folder} holds neither a sweep nor a run.")


def _show(jobs: Sequence[tuple[str, Sequence[str], Progress]], at_work: Holder | None = None) -> None:
    words = [set(one) for _, one, _ in jobs]
    common = set.intersection(*words) if len(words) > 1 else set()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("job", "overrides", "status", "problems", "accuracy", "decoded", "seconds", "left"):
        table.add_column(name, no_wrap=name == "job", overflow="fold")
    for number, overrides, at in jobs:
        told = " ".join(word for word in overrides if word not in common)
        table.add_row(*(Text(cell) for cell in (number, told, *_cells(at))))
    console = wide_console()
    console.print(table)
    for number, _, at in jobs:
        for remark in _remarks(at):
            console.print(Text(remark if number == "-" else f"job {number}: {remark}"))
    if len(jobs) > 1:
        counts = Counter(at.state for _, _, at in jobs)
        console.print(
            Text(f"\n{len(jobs)} jobs: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
        )
        console.print(Text(_rest([at for _, _, at in jobs], at_work)))


def _cells(at: Progress) -> tuple[str, ...]:
    return (
        at.state,
        f"{at.done} of {at.planned}" if at.planned else (str(at.done) if at.done else ""),
        f"{at.correct / at.graded:.3f}" if at.graded else "",
        f"{at.tokens:,}" if at.done else "",
        f"{at.seconds:.1f}" if at.seconds else "",
        "" if at.left is None else _time(at.left),
    )


def _remarks(at: Progress) -> list[str]:
    """Return what a row has no room for."""
    found = [str(at.holder)] if at.holder is not None else []
    if at.state == "failed" and at.error:
        found.append(shortened(at.error))
    if at.broken:
        found.append(
            f"of its results {len(at.broken)} lines cannot be read: {', '.join(map(str, at.broken[:8]))}"
        )
    return found


def _rest(jobs: Sequence[Progress], at_work: Holder | None) -> str:
    """Say what is left of a sweep; jobs that nothing is known of are as large as the others on average."""
    if all(at.state == "complete" for at in jobs):
        return "nothing is left to do"
    known = [at.planned for at in jobs if at.planned]
    if not known:
        return "nobody knows yet how many problems are left"
    mean = sum(known) / len(known)
    rest = sum(max(0.0, (at.planned or mean) - at.done) for at in jobs if at.state != "complete")
    told = f"about {round(rest)} problem{'s' if round(rest) != 1 else ''} left"
    left = time_left(at_work, sum(at.done for at in jobs), rest)
    if left is None:
        return told
    return f"{told}, about {_time(left)} at the pace since the sweep was started"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
