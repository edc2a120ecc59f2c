"""From a problem's final state to its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ttsflow.lineage import Path
from ttsflow.types import Candidate, Outcome, Result, State, Usage

__all__ = ["make_result", "outcome_of"]


def outcome_of(state: State) -> Outcome:
    """Return how a problem ended that ran to its last stage."""
    if state.answer is not None:
        return "answered"
    if state.pool and all(candidate.finish == "failed" for candidate in state.pool):
        return "failed"
    if any(candidate.finish in {"length", "step", "aborted"} for candidate in state.pool):
        return "truncated"
    return "abstained"


def make_result(
    state: State,
    outcome: Outcome,
    usage: Usage,
    cost: Mapping[str, float],
    *,
    correct: bool | None = None,
    reason: str | None = None,
    tree: Mapping[Path, int] | None = None,
) -> Result:
    """Return the record of one problem; ``tree`` holds the tokens decoded for every path."""
    problem = state.problem
    if correct is None and problem.gold is not None and state.answer is None:
        # One rule for missing answers: a question without an answer counts, as wrong.
        correct = False
    pool = {candidate.path: candidate for candidate in state.pool}
    if reason is None and outcome in {"failed", "truncated"}:
        ends = {"failed"} if outcome == "failed" else {"length"}
        reason = next((c.reason for c in pool.values() if c.reason and c.finish in ends), None)
    return Result(
        id=problem.id,
        answer=state.answer.text if state.answer else None,
        outcome=outcome,
        correct=correct,
        stopped=state.stopped,
        usage=usage,
        cost=cost,
        candidates=len(pool),
        truncated=sum(candidate.finish == "length" for candidate in pool.values()),
        path_tokens=_path_tokens(pool.values(), tree or {}),
        gold=problem.gold,
        reason=reason,
        text=state.chosen.text if state.chosen else None,
    )


def _path_tokens(pool: Iterable[Candidate], tree: Mapping[Path, int]) -> int:
    """Return the distinct tokens of finished trajectories: what siblings share counts once."""
    nodes = {c.path[:depth] for c in pool if c.finished for depth in range(1, len(c.path) + 1)}
    return sum(tree.get(node, 0) for node in nodes)
