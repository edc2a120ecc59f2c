"""From a problem's final state to its result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ttsflow.lineage import Path
from ttsflow.types import Candidate, Outcome, Result, State, Usage

__all__ = ["make_result", "outcome_of"]


def outcome_of(state: State) -> Outcome:
    """Return how a problem ended that ran to its last stage."""
    if state.answer is not None:
        return "answered"
    if not state.pool and state.stopped is not None and not state.spent.requests:
        return "deferred"
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
    if reason is None and outcome != "answered":
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


def _why(outcome: Outcome, pool: Sequence[Candidate], state: State) -> str:
    """Return why there is no answer, as far as the final state shows it."""
    if not pool:
        return "no sample was drawn" + (f": {state.early}" if state.early else "")
    if outcome == "failed":
        told = next((c.reason for c in pool if c.reason and c.finish == "failed"), None)
        return told or f"all of {len(pool)} samples failed, none with a reason"
    told = state.unanswered or _unchosen(pool)
    return "; ".join([*([told] if told else []), *_unfinished(pool, state.early)])


def _unchosen(pool: Sequence[Candidate]) -> str | None:
    """Return why no answer was chosen, as far as no stage has said it; None where no sample could tell."""
    answered = sum(bool(c.finished and c.answer) for c in pool)
    if answered:
        return (
            f"{answered} of {len(pool)} samples gave an answer, and no stage of the strategy chose one; "
            "`aggregate` does"
        )
    failed = [candidate for candidate in pool if candidate.finish == "failed"]
    ended = len(failed) + sum(candidate.finished for candidate in pool)
    if not ended:
        return None
    told = next((c.reason for c in failed if c.reason), "")
    broken = f", {len(failed)} failed" + (f": {told}" if told else "") if failed else ""
    return f"none of {len(pool)} samples gave an answer{broken}"


def _unfinished(pool: Sequence[Candidate], early: str | None) -> Iterator[str]:
    """Yield how many samples did not come to their end, and what kept each kind from it."""
    size = len(pool)
    cut = [candidate for candidate in pool if candidate.finish == "length"]
    if cut:
        told = next((c.reason for c in cut if c.reason), "")
        why = told or "by `sampling.max_tokens` or the engine's context"
        yield f"{len(cut)} of {size} samples were cut{': ' if told else ' '}{why}"
    aborted = sum(candidate.finish == "aborted" for candidate in pool)
    if aborted:
        yield f"{aborted} of {size} samples were ended early" + (f": {early}" if early else "")
    left = sum(candidate.finish == "step" for candidate in pool)
    if left:
        why = early or "only the last round of a `repeat` around `unit: step` completes them"
        yield f"{left} of {size} samples were left open after a step: {why}"


def _path_tokens(pool: Iterable[Candidate], tree: Mapping[Path, int]) -> int:
    """Return the distinct tokens of finished trajectories: what siblings share counts once."""
    nodes = {c.path[:depth] for c in pool if c.finished for depth in range(1, len(c.path) + 1)}
    return sum(tree.get(node, 0) for node in nodes)
