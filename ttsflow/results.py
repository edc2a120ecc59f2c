"""From a problem's final state to its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
    if reason is None and outcome in {"failed", "truncated", "abstained"}:
        reason = _why(outcome, list(pool.values()), state)
    return Result(
        id=problem.id,
        answer=state.answer.text if state.answer else None,
        outcome=outcome,
        correct=correct,
        stopped=state.early,
        usage=usage,
        cost=cost,
        candidates=len(pool),
        truncated=sum(candidate.finish == "length" for candidate in pool.values()),
        path_tokens=_path_tokens(pool.values(), tree or {}),
        gold=problem.gold,
        reason=reason,
        text=state.chosen.text if state.chosen else _partial(outcome, list(pool.values())),
    )


def _partial(outcome: Outcome, pool: Sequence[Candidate]) -> str | None:
    """Return the best of what was cut, by score and then length, where nothing else came of a problem."""
    cut = [candidate for candidate in pool if candidate.finish in {"length", "step", "aborted"}]
    if outcome != "truncated" or not cut:
        return None
    return max(cut, key=lambda c: (c.score is not None, c.score or 0.0, len(c.tokens))).text


def _why(outcome: Outcome, pool: Sequence[Candidate], state: State) -> str | None:
    """Return why there is no answer, as far as the pool shows it."""
    if outcome == "abstained":
        if any(candidate.answer for candidate in pool):
            return state.early
        return f"none of {len(pool)} samples gave an answer" if pool else "no sample was drawn"
    ends = {"failed"} if outcome == "failed" else {"length"}
    told = next((c.reason for c in pool if c.reason and c.finish in ends), None)
    cut = sum(candidate.finish == "length" for candidate in pool)
    if told is None and outcome == "truncated" and cut:
        return f"{cut} of {len(pool)} samples were cut by `sampling.max_tokens` or the engine's context"
    return told


def _path_tokens(pool: Iterable[Candidate], tree: Mapping[Path, int]) -> int:
    """Return the distinct tokens of finished trajectories: what siblings share counts once."""
    nodes = {c.path[:depth] for c in pool if c.finished for depth in range(1, len(c.path) + 1)}
    return sum(tree.get(node, 0) for node in nodes)
