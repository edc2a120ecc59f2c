"""What a whole run came to: the keys of ``summary.json``, which are public API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ttsflow.metrics import wilson
from ttsflow.types import EngineTokens, Result, Usage

__all__ = ["RunStatus", "Summary", "summarize"]

RunStatus = Literal["complete", "partial", "failed"]

_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?(?:e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Summary:
    """One run. Rates are shares of ``problems``, the problems that have a result.

    ``accuracy`` is None when no problem has a gold answer; a problem without an answer counts as
    wrong, one whose grading failed (``ungraded``) not at all. ``goodput`` is distinct tokens of
    finished trajectories per wall second. ``usage`` and ``cost`` are sums over problems, except
    ``usage.wall_seconds``, the time of the whole run. ``stopped`` counts why problems ended early,
    numbers that differ between them left out. ``work`` is what the engine counted, ``exact`` what a
    comparison with the plain engine found.
    """

    status: RunStatus
    strategy: str
    task: str
    engine: str
    seed: int
    fingerprint: str
    problems: int
    planned: int
    accuracy: float | None
    accuracy_ci95: tuple[float, float] | None
    coverage: float
    truncated: int
    abstained: int
    deferred: int
    failed: int
    ungraded: int
    usage: Mapping[str, Any]
    goodput: float
    cost: Mapping[str, float]
    stopped: Mapping[str, int] = field(default_factory=dict)
    truncation_rate: float = 0.0
    work: Mapping[str, float] = field(default_factory=dict)
    exact: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    data: str = ""
    folder: str = ""
    error: str | None = None
    traceback: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as it is written to ``summary.json``."""
        return asdict(self)


def summarize(
    results: Iterable[Result],
    *,
    status: RunStatus,
    names: Mapping[str, str],
    seed: int,
    fingerprint: str,
    planned: int,
    wall_seconds: float,
    joules_source: str = "none",
    **extra: Any,
) -> Summary:
    """Return the summary of ``results``; ``names`` holds strategy, task and engine."""
    results = list(results)
    count = len(results)
    graded = [result.correct for result in results if result.correct is not None]
    usage = sum((result.usage for result in results), Usage())
    outcomes = [result.outcome for result in results]
    candidates = sum(result.candidates for result in results)
    stopped = _kinds([result.stopped for result in results if result.stopped])
    costs: dict[str, float] = {}
    for result in results:
        costs = {unit: costs.get(unit, 0.0) + cost for unit, cost in result.cost.items()}
    return Summary(
        status=status,
        strategy=names.get("strategy", ""),
        task=names.get("task", ""),
        engine=names.get("engine", ""),
        seed=seed,
        fingerprint=fingerprint,
        problems=count,
        planned=planned,
        accuracy=sum(graded) / len(graded) if graded else None,
        accuracy_ci95=wilson(sum(graded), len(graded)) if graded else None,
        coverage=outcomes.count("answered") / count if count else 0.0,
        truncated=outcomes.count("truncated"),
        abstained=outcomes.count("abstained"),
        deferred=outcomes.count("deferred"),
        failed=outcomes.count("failed"),
        ungraded=sum(r.gold is not None and r.correct is None for r in results),
        usage=_usage_keys(usage, wall_seconds, joules_source),
        goodput=sum(result.path_tokens for result in results) / wall_seconds if wall_seconds > 0 else 0.0,
        cost=costs,
        stopped=stopped,
        truncation_rate=sum(r.truncated for r in results) / candidates if candidates else 0.0,
        **extra,
    )


def _kinds(reasons: Iterable[str]) -> dict[str, int]:
    """Count reasons that differ in numbers alone as one; numbers that are always the same are kept."""
    alike: dict[str, list[list[str]]] = {}
    for reason in reasons:
        alike.setdefault(_NUMBER.sub("\0", reason), []).append(_NUMBER.findall(reason))
    kinds: dict[str, int] = {}
    for template, numbers in alike.items():
        same = [column[0] if len(set(column)) == 1 else "…" for column in zip(*numbers, strict=True)]
        pieces = template.split("\0")
        told = "".join(piece + number for piece, number in zip(pieces, [*same, ""], strict=True))
        kinds[told] = len(numbers)
    return kinds


def _usage_keys(usage: Usage, wall_seconds: float, joules_source: str) -> dict[str, Any]:
    tokens = ("prompt", "cached", "output", "aborted", "dropped", "adopted", "reused", "decoded")
    keys: dict[str, Any] = {
        f"{name}_tokens": getattr(usage, name) for name in (*tokens, "verifier", "serial")
    }
    keys |= {"requests": usage.requests, "engine_steps": usage.engine_steps, "wall_seconds": wall_seconds}
    keys |= {"joules": usage.joules, "joules_source": joules_source}
    return keys | {"engines": {one.engine: _engine_keys(one) for one in usage.engines}}


def _engine_keys(one: EngineTokens) -> dict[str, int]:
    tokens = ("prompt", "cached", "output", "aborted", "decoded")
    return {f"{name}_tokens": getattr(one, name) for name in tokens} | {"requests": one.requests}
