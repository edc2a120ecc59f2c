"""What is relied on in stages, and in what they ask: watches, conditions, predictors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ttsflow.acceleration import Acceleration
from ttsflow.ops import Trace
from ttsflow.parts import walk
from ttsflow.protocols import Predictor, Stage, Until, Watch
from ttsflow.testing.contracts.parts import PartContract
from ttsflow.testing.drive import run_fake
from ttsflow.testing.fake import FakeEngine
from ttsflow.types import Answer, Candidate, Problem, State

__all__ = ["NEEDS", "PredictorContract", "StageContract", "UntilContract", "WatchContract"]

#: All that a stage or a condition may say it needs.
NEEDS = frozenset({"verifier", "scores", "continuation", "steps"})


class StageContract(PartContract):
    """A stage maps a state to a state. Needs a fixture ``part``: a stage that can run on its own."""

    def test_runs_and_is_deterministic(self, part: Stage) -> None:
        """Seats and concurrency change no answer."""
        runs = [self.run(part, capacity, concurrency) for capacity, concurrency in ((4, 1), (64, 8))]
        assert runs[0] == runs[1]
        assert all(outcome != "failed" for _, outcome, _, _ in runs[0]), runs[0]

    def test_what_makes_a_run_faster_changes_nothing(self, part: Stage) -> None:
        """Neither what is begun early, nor scores as steps end, nor an engine short of memory."""
        faster = Acceleration(prefix_order=True, speculation=True, eager_verify=True)
        assert self.run(part, 16, 8, preempt=0.3, acceleration=faster) == self.run(part, 16, 8)

    def run(
        self,
        part: Stage,
        capacity: int,
        concurrency: int,
        *,
        preempt: float = 0.0,
        acceleration: Acceleration | None = None,
    ) -> list[Any]:
        """Return answer, outcome, candidates and distinct tokens of every problem of a run."""
        run = run_fake(
            part,
            engine=FakeEngine(capacity=capacity, preempt=preempt),
            concurrency=concurrency,
            logprobs=20,
            certainty=True,
            acceleration=acceleration,
        )
        results = [run[name] for name in sorted(run)]
        return [(r.answer, r.outcome, r.candidates, r.path_tokens) for r in results]

    def test_says_what_it_needs_in_words_that_are_known(self, part: Stage) -> None:
        """A misspelt need would never be checked."""
        for path, inner in walk(part):
            assert set(getattr(inner, "needs", ())) <= NEEDS, path
            assert set(getattr(inner, "gives", ())) <= {"scores"}, path


class WatchContract(PartContract):
    """A watch decides on traces. Needs a fixture ``part``."""

    def test_decisions_are_well_formed(self, part: Watch) -> None:
        """It only aborts what exists, launches no negative number, and observers share nothing."""
        for size in (1, 4):
            observers = [part.begin(size), part.begin(size)]
            for step in range(1, 6):
                decisions = []
                for observer in observers:
                    traces = [_trace(index, step) for index in range(size)]
                    decisions.append(observer(traces, list(range(size))))
                assert decisions[0] == decisions[1]
                decision = decisions[0]
                if decision is not None:
                    assert all(0 <= index < size for index in decision.abort)
                    assert decision.launch >= 0


class UntilContract(PartContract):
    """A condition on a state. Needs a fixture ``part``."""

    def test_a_reason_or_none_and_always_the_same(self, part: Until) -> None:
        """It is asked of pools of all kinds, the empty one too, and depends on the state alone."""
        for state in _states():
            said = part(state)
            assert said is None or isinstance(said, str)
            assert part(state) == said


class PredictorContract(PartContract):
    """Foresees how long a trajectory will be. Needs a fixture ``part``."""

    def test_a_length_lies_between_its_bounds(self, part: Predictor) -> None:
        """At least what there is already, and at most no less than at least; asked twice, the same."""
        for step in range(1, 6):
            trace = _trace(3, step)
            least, most = part(trace)
            assert least >= len(trace.tokens)
            assert most is None or most >= least
            assert part(trace) == (least, most)


def _trace(index: int, step: int) -> Trace:
    """Return the state of request ``index`` after ``step`` steps; it ends after ``index + 2``."""
    trace = Trace(lambda tokens: "1" * len(tokens))
    trace.tokens = [1] * min(step, index + 2)
    trace.logprobs = [{1: -0.5}] * len(trace.tokens)
    trace.certainties = [5.0] * len(trace.tokens)
    if step >= index + 2:
        answer = Answer(str(index), str(index))
        tokens = tuple(trace.tokens)
        trace.candidate = Candidate((index,), (), tokens, "1", finish="stop", answer=answer)
    return trace


def _states() -> Iterator[State]:
    """Yield states with nothing, with what can go on, what has finished, both, and what was cut."""
    tokens = (1, 2, 3)
    active = [Candidate((i,), (), tokens, "1\n", "step", scores=(0.5,), score=0.5) for i in range(2)]
    done = [
        Candidate((i + 2,), (), tokens, "1", "stop", answer=Answer(key, key), scores=(0.9,), score=0.9)
        for i, key in enumerate("aab")
    ]
    cut = [Candidate((7,), (), tokens, "1", "length"), Candidate((8,), (), (), "", "failed")]
    for pool in ([], active, done, active + done, cut, [*done, *cut, *active]):
        yield State(Problem("?"), pool=tuple(pool))
    yield State(Problem("?"), pool=tuple(done), stopped="funds low", round=3)
