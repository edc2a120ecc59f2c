"""A stage or a watch that breaks ends its own problem with a reason, and nothing else."""

import json

import pytest

from ttsflow.ops import Decision, Fork, Generate, Note, Request, Score, Verdict
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Each, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.trace import JsonTrace

BAD = "fake-3"


class Breaks:
    """A stage that misbehaves on one problem, after it has generated."""

    def __init__(self, how):
        self.how = how

    def __call__(self, state):
        got = yield Generate((Request(),) * 2)
        if state.problem.id == BAD:
            return (yield from self.how(state))
        return state.with_(pool=got.candidates)


def raises(state):
    yield Note("so far so good")
    raise KeyError("no such thing")


def yields_rubbish(state):
    yield "give me tokens"
    return state


def asks_rubbish(state):
    yield Generate((None,))
    return state


def forks_rubbish(state):
    yield Fork(((lambda state: state, state), "no pair"))
    return state


def branch_breaks(state):
    def broken(state):
        raise RuntimeError("branch")

    yield Fork(((GenerateStage(3), state), (broken, state)))
    return state


def returns_rubbish(state):
    yield Note("x")
    return "done"


def pool_of_rubbish(state):
    yield Note("x")
    return state.with_(pool=(1, 2))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (raises, "KeyError: 'no such thing'"),
        (yields_rubbish, "a stage yielded str"),
        (asks_rubbish, "NoneType"),
        (forks_rubbish, "ValueError"),
        (branch_breaks, "RuntimeError: branch"),
        (returns_rubbish, "returned str; a stage returns a State"),
        (pool_of_rubbish, "whose pool"),
    ],
)
def test_a_broken_stage_fails_its_problem_alone(how, reason, tools):
    engine = FakeEngine()
    results = run_fake(Breaks(how), engine=engine)
    assert len(results) == 8
    failed = {name: result for name, result in results.items() if result.outcome == "failed"}
    assert list(failed) == [BAD]
    assert reason in failed[BAD].reason
    assert failed[BAD].answer is None
    assert failed[BAD].correct is False
    assert tools.decoded(results) == engine.decoded
    assert failed[BAD].usage.decoded > 0


def test_a_plain_function_that_raises_is_a_broken_stage_too(tools):
    def stage(state):
        raise StopIteration

    assert tools.outcomes(run_fake(stage)) == {"failed": 8}


def test_the_trace_holds_the_traceback_of_a_broken_stage(tools):
    trace = tools.Watcher()
    run_fake(Breaks(raises), trace=trace)
    ((problem, data),) = trace.of("failed")
    assert problem == BAD
    assert "in raises" in data["traceback"]


class BadWatch:
    def __init__(self, when):
        self.when = when

    def begin(self, size):
        if self.when == "begin":
            raise ValueError("cannot begin")
        steps = []

        def observe(traces, changed):
            steps.append(1)
            if len(steps) == 2:
                raise ValueError("cannot go on")
            return Decision(launch=1) if self.when == "launch" else None

        return observe


@pytest.mark.parametrize("when", ["begin", "observe", "launch"])
def test_a_broken_watch_fails_its_problem_and_leaves_nothing_running(when, tools):
    engine = FakeEngine()
    strategy = Sequence({"s": GenerateStage(3, watch=BadWatch(when)), "vote": Aggregate()})
    results = run_fake(strategy, engine=engine)
    assert tools.outcomes(results) == {"failed": 8}
    assert all("ValueError: cannot" in result.reason for result in results.values())
    assert tools.decoded(results) == engine.decoded
    assert not engine._running
    assert not engine._waiting


def test_two_watches_of_one_problem_may_break_in_the_same_step(tools):
    engine = FakeEngine(capacity=64)
    branch = {"s": GenerateStage(2, watch=BadWatch("launch"))}
    strategy = Sequence({"roots": GenerateStage(3, unit="step"), "each": Each(branch)})
    results = run_fake(strategy, engine=engine)
    assert tools.outcomes(results) == {"failed": 8}
    assert tools.decoded(results) == engine.decoded
    assert not engine._running


class Slow:
    """A verifier that takes many steps and remembers what was cancelled."""

    def __init__(self):
        self.waiting, self.cancelled, self.steps = {}, [], 0

    def submit(self, name, problem, candidate):
        self.waiting[name] = problem.id

    def step(self):
        self.steps += 1
        ready = list(self.waiting) if self.steps > 60 else []
        return [Verdict(name, (0.5,)) for name in ready if self.waiting.pop(name)]

    def cancel(self, ids):
        self.cancelled += [self.waiting.pop(name) for name in ids]

    def close(self):
        pass


def scores(state):
    got = yield Generate((Request(),) * 2)
    yield Score(got.candidates)
    return state.with_(pool=got.candidates)


def breaks_late(state):
    for _ in range(5):
        yield Generate((Request(),))
    if state.problem.id == BAD:
        raise RuntimeError("late")
    return state


def test_what_a_failed_problem_waited_for_is_cancelled_with_the_verifier(tools):
    def both(state):
        ends = yield Fork(((scores, state), (breaks_late, state)))
        return ends[0]

    verifier = Slow()
    results = run_fake(both, verifier=verifier)
    assert verifier.cancelled == [BAD, BAD]
    assert not verifier.waiting
    assert tools.outcomes(results)["failed"] == 1
    assert results[BAD].reason == "RuntimeError: late"


@pytest.mark.slow
def test_a_stage_that_never_waits_fails_its_problem(tools):
    def endless(state):
        while True:
            yield Note("again")

    results = run_fake(endless, task=FakeTask(size=2))
    assert {result.outcome for result in results.values()} == {"failed"}
    assert "without waiting" in next(iter(results.values())).reason


@pytest.mark.parametrize(
    "note",
    [Note("result"), Note("mine", {"value": float("nan")})],
    ids=["an event of the driver", "not a number"],
)
def test_a_note_cannot_spoil_the_trace(note, tmp_path):
    def noisy(state):
        yield note
        return state

    trace = JsonTrace(tmp_path / "trace.jsonl")
    results = run_fake(noisy, trace=trace)
    trace.close()
    assert {result.outcome for result in results.values()} == {"failed"}
    events = [json.loads(line)["event"] for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert events.count("result") == len(results)
