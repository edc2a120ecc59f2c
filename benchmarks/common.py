"""What the scripts of this folder share: runs by override, results by problem, one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ttsflow.config import compose
from ttsflow.run import run_config
from ttsflow.summary import Summary


class Done(NamedTuple):
    """One run: its summary, and its results by problem id in the order of the task."""

    summary: Summary
    results: Mapping[str, Mapping[str, Any]]

    @property
    def correct(self) -> list[float]:
        """1.0 for every problem answered right, 0.0 for the others, in the order of ids."""
        return [float(bool(self.results[name]["correct"])) for name in sorted(self.results)]


def run(label: str, overrides: Sequence[str], folder: Path, *, show: bool = True) -> Done:
    """Run one config; the row of the table is called ``label``. Exits when the run does not complete."""
    mapping = {**compose(overrides), "choices": {"strategy": label, "task": "arithmetic", "engine": "vllm"}}
    summary = run_config(mapping, folder / label, show=show)
    if summary.status != "complete":
        message = f"{label}: {summary.status}: {summary.error}"
        raise SystemExit(message)
    lines = (folder / label / "results.jsonl").read_text(encoding="utf-8").splitlines()
    results = {record["id"]: record for record in map(json.loads, lines)}
    return Done(summary, results)


def events(folder: Path, label: str, kind: str) -> list[dict[str, Any]]:
    """Return the trace events of one kind of a run."""
    lines = (folder / label / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def finish(figures: Mapping[str, Any], checks: Mapping[str, bool]) -> int:
    """Print the figures and whether each target is reached, as the last line; return the exit code."""
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}
    print(json.dumps({**rounded, "reached": dict(checks)}), flush=True)
    return 0 if all(checks.values()) else 1
