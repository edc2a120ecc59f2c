"""One job of a sweep: composes its config itself, runs it, and never takes the others down with it."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from ttsflow import interrupt
from ttsflow.config import compose
from ttsflow.listing import shortened, shown
from ttsflow.run import run_config
from ttsflow.runs.earlier import told_summary
from ttsflow.runs.lines import replace_text
from ttsflow.runs.locking import Locked
from ttsflow.runs.progress import read_summary
from ttsflow.summary import Summary

__all__ = ["Ended", "Job", "ended_before"]


@dataclass(frozen=True, slots=True)
class Ended:
    """What one job came to, as a sweeper that searches takes it.

    One with a single aim reads the accuracy, to be maximised; one with two reads accuracy and decoded tokens,
    the latter to be minimised (``hydra.sweeper.direction=[maximize,minimize]``).
    """

    number: int
    overrides: tuple[str, ...]
    folder: str
    status: str
    row: dict[str, Any] = field(default_factory=dict, hash=False)

    def __float__(self) -> float:
        """Return the accuracy. Raises ``ValueError`` when there is none: a sweeper then counts a failure."""
        return self._figure("accuracy")

    def __iter__(self) -> Iterator[float]:
        """Yield accuracy and decoded tokens. Raises ``ValueError`` when there are none."""
        yield self._figure("accuracy")
        yield self._figure("decoded")

    def _figure(self, name: str) -> float:
        value = self.row.get(name)
        if value is None or self.status != "complete":
            raise ValueError(f"job {self.number} is {self.status}, and has no {name} to go by.")
        return float(value)

    def __len__(self) -> int:
        """Return 2."""
        return 2


@dataclass(frozen=True, slots=True)
class Job:
    """Runs one job; may be sent to another process. ``done`` is what this process has run.

    ``numbers`` are those of the plan, by folder: a launcher counts only what is left to do.
    """

    config_dir: str | None
    show: bool
    done: list[Ended] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, config: DictConfig) -> Ended:
        """Compose and run. The config Hydra has composed is left aside: it may lack what was refused."""
        del config
        hydra = HydraConfig.get()
        overrides, folder = tuple(hydra.overrides.task), Path(hydra.runtime.output_dir)
        number = self.numbers.get(str(folder), hydra.job.num)
        status, error, row = "failed", None, {}
        try:
            summary = run_config(compose(overrides, self.config_dir), folder, show=self.show, resume=True)
            status, error, row = summary.status, summary.error, _row(summary)
        except Locked as caught:
            status, error = "running", str(caught)
        except Exception as caught:
            if interrupt.received():
                raise interrupt.Interrupted from caught
            # On a disk that is full it cannot be written either; the line below tells it.
            with contextlib.suppress(OSError):
                record_failure(folder, caught)
            error = str(caught)
        if status != "complete":
            print(f"job {number} {status}: {shortened(error or '')}", file=sys.stderr, flush=True)  # noqa: T201
        elif self.show:
            told = ", ".join(f"{key} {value}" for key, value in shown(row).items() if value is not None)
            print(f"job {number} done: {told}", flush=True)  # noqa: T201
        self.done.append(Ended(number, overrides, str(folder), status, row))
        return self.done[-1]


def ended_before(number: int, overrides: tuple[str, ...], folder: Path) -> Ended:
    """Return what a job came to that ended earlier, or in a process that could not tell."""
    said = read_summary(folder)
    try:
        summary = told_summary(said)
        return Ended(number, overrides, str(folder), summary.status, _row(summary))
    except (TypeError, KeyError):
        return Ended(number, overrides, str(folder), str(said.get("status", "not begun")))


def _row(summary: Summary) -> dict[str, Any]:
    low, high = summary.accuracy_ci95 or (None, None)
    usage: Mapping[str, Any] = summary.usage
    return {
        "accuracy": summary.accuracy,
        "95 % interval": None if low is None or high is None else f"{low:.3f}-{high:.3f}",
        "decoded": usage["decoded_tokens"],
        "serial": usage["serial_tokens"],
        "seconds": round(usage["wall_seconds"], 2),
        "answered": f"{summary.coverage:.1%}",
    }


def record_failure(folder: Path, error: Exception) -> None:
    """Write a summary that says why a job failed, unless the folder holds a run, which has its own."""
    file = folder / "summary.json"
    if (folder / "config.yaml").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    trace = "".join(traceback.format_exception(error))
    record = {"status": "failed", "error": f"{type(error).__name__}: {error}", "traceback": trace}
    replace_text(file, json.dumps(record, indent=2) + "\n")
