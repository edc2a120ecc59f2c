"""``ttsflow timeline``: what ran when on the engine of a run, as a picture and in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rich.table import Table

from ttsflow.errors import ConfigError, MissingExtra
from ttsflow.listing import wide_console
from ttsflow.runs.timeline import Moment, read_timeline

__all__ = ["draw", "figures", "show_timeline"]

_KINDS = (".svg", ".png", ".pdf")


def figures(moments: Sequence[Moment]) -> dict[str, float]:
    """Return means over time and totals: what an engine did, in a few numbers."""
    last = moments[-1]
    spans = [(then, max(0.0, then.seconds - before.seconds)) for before, then in pairwise(moments)]
    total = sum(seconds for _, seconds in spans) or 1.0

    def mean(name: str) -> float:
        return float(sum(getattr(moment, name) * seconds for moment, seconds in spans)) / total

    return {
        "seconds": last.seconds,
        "mean running": mean("running"),
        "most running": max(moment.running for moment in moments),
        "mean waiting": mean("waiting"),
        "mean blocks in use": mean("used"),
        "most blocks in use": max(moment.used for moment in moments),
        "blocks evicted": last.evicted,
        "sequences preempted": last.preempted,
        "tokens decoded": last.decoded,
        "prompt tokens computed": last.read,
        "share of time verifying": sum(s for m, s in spans if m.verifying) / total,
    }


def show_timeline(folder: Path, file: Path) -> Path:
    """Print the figures of a run and draw its timeline into ``file``.

    Raises ``DataError`` when the run has none, ``ConfigError`` for a file that cannot be written, and
    ``MissingExtra`` without matplotlib.
    """
    _check_file(file)
    moments = read_timeline(folder)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in figures(moments).items():
        table.add_row(name, f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}")
    wide_console().print(table)
    draw(moments, file)
    return file


def draw(moments: Sequence[Moment], file: Path) -> None:
    """Draw sequences, blocks and what was thrown out over time.

    Raises ``MissingExtra`` without matplotlib and ``ConfigError`` for a file that is no picture or cannot be
    written.
    """
    _check_file(file)
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("drawing needs matplotlib: pip install 'ttsflow[plot]'") from error
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    seconds = [moment.seconds for moment in moments]
    figure, (batch, memory, out) = plt.subplots(3, figsize=(8, 7), sharex=True, layout="constrained")
    style = {"step": "pre", "linewidth": 0}
    batch.fill_between(seconds, [m.running for m in moments], label="running", color="#4477aa", **style)
    batch.step(seconds, [m.waiting for m in moments], label="waiting", color="#ee6677", linewidth=1)
    batch.step(seconds, [m.verifying for m in moments], label="being verified", color="#228833", linewidth=1)
    batch.set_ylabel("sequences")
    used = [m.used for m in moments]
    both = [m.used + m.cached for m in moments]
    memory.fill_between(seconds, used, label="in use", color="#4477aa", **style)
    memory.fill_between(seconds, used, both, label="kept for later", color="#bbccdd", **style)
    memory.set_ylabel("KV blocks")
    out.step(seconds, [m.evicted for m in moments], label="blocks evicted", color="#aa3377")
    out.step(seconds, [m.preempted for m in moments], label="sequences preempted", color="#ccbb44")
    out.set_ylabel("so far")
    out.set_xlabel("seconds on the engine's clock")
    for axes in (batch, memory, out):
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize="small", frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylim(bottom=0)
    try:
        figure.savefig(file)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        plt.close(figure)


def _check_file(file: Path) -> None:
    """Raise ``ConfigError`` for a file that is no picture or has no place."""
    if file.suffix.lower() not in _KINDS:
        raise ConfigError(f"{file.suffix or file.name} is no kind of picture; use {', '.join(_KINDS)}.")
    try:
        reason = "" if file.parent.is_dir() else f"there is no folder {str(file.parent)!r}"
        reason = "it is a folder" if file.is_dir() else reason
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise ConfigError(f"{file} cannot be written: {reason}.")
