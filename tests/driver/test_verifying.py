"""A verifier that breaks, hangs or is late costs a candidate its scores, never the run."""

import pytest

from ttsflow.errors import ConfigError
from ttsflow.ops import Verdict
from ttsflow.testing import run_fake
from ttsflow.trace import NoTrace


class Verifier:
    """Scores everything at once; ``hangs`` says which candidates it never gets to."""

    deadline = None

    def __init__(self, hangs=lambda candidate: False):
        self.hangs = hangs
        self.waiting = {}
        self.cancelled = []

    def submit(self, id, problem, candidate):
        self.waiting[id] = candidate

    def step(self):
        done = [name for name, candidate in self.waiting.items() if not self.hangs(candidate)]
        return [Verdict(name, (0.5,), 1) for name in done if self.waiting.pop(name)]

    def cancel(self, ids):
        self.cancelled += ids
        for name in ids:
            self.waiting.pop(name, None)

    def close(self):
        self.waiting.clear()


class Trace(NoTrace):
    enabled = True

    def __init__(self):
        self.events = []

    def event(self, kind, problem, data):
        self.events.append((kind, data))

    @property
    def reasons(self):
        return [data["reason"] for kind, data in self.events if kind == "score" and "reason" in data]


def odd(candidate):
    return candidate.path[0] % 2 == 1


def run(tools, verifier):
    trace = Trace()
    return run_fake(tools.trees.weighted(), verifier=verifier, trace=trace), trace


def test_a_candidate_that_is_late_fails_alone(tools):
    verifier = Verifier(odd)
    verifier.deadline = 0.02
    results, trace = run(tools, verifier)
    assert len(results) == 8
    assert set(trace.reasons) == {"the verifier gave no scores in 0.02 s"}
    assert len(verifier.cancelled) == len(trace.reasons)
    assert not verifier.waiting
    assert all(result.outcome in {"answered", "abstained", "truncated"} for result in results.values())
    assert any(result.outcome == "answered" for result in results.values())


def test_a_deadline_changes_nothing_for_those_in_time(tools):
    plain, _ = run(tools, Verifier())
    timed = Verifier()
    timed.deadline = 60.0
    results, trace = run(tools, timed)
    assert not trace.reasons
    assert {name: result.answer for name, result in results.items()} == {
        name: result.answer for name, result in plain.items()
    }


def test_a_verifier_that_refuses_a_candidate_by_raising_fails_it_alone(tools):
    class Refusing(Verifier):
        def submit(self, id, problem, candidate):
            if odd(candidate):
                raise RuntimeError("no")
            super().submit(id, problem, candidate)

    results, trace = run(tools, Refusing())
    assert set(trace.reasons) == {"the verifier raised RuntimeError: no"}
    assert any(result.outcome == "answered" for result in results.values())


def test_a_verifier_that_raises_when_it_goes_on_fails_what_waits(tools):
    class Breaking(Verifier):
        steps = 0

        def step(self):
            self.steps += 1
            if self.steps == 1:
                raise RuntimeError("boom")
            return super().step()

        def cancel(self, ids):
            super().cancel(ids)
            raise RuntimeError("not even that")

    verifier = Breaking()
    results, trace = run(tools, verifier)
    assert set(trace.reasons) == {"the verifier raised RuntimeError: boom"}
    assert len(verifier.cancelled) == len(trace.reasons)
    assert len(results) == 8
    assert any(result.outcome == "answered" for result in results.values())


@pytest.mark.parametrize("where", ["submit", "step"])
def test_a_config_error_ends_the_run(tools, where):
    verifier = Verifier()

    def refuse(*args):
        raise ConfigError("wrong file", "verifier.path")

    setattr(verifier, where, refuse)
    with pytest.raises(ConfigError, match="wrong file"):
        run(tools, verifier)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"scores": ("0.9",)}, "the score '0.9', which is no number"),
        ({"scores": (True,)}, "the score True, which is no number"),
        ({"scores": ([0.5],)}, "which is no number"),
        ({"scores": None}, "NoneType instead of a list"),
        ({"scores": 0.5}, "float instead of a list"),
        ({"scores": "0.5"}, "str instead of a list"),
        ({"tokens": None}, "counted None tokens"),
        ({"tokens": "3"}, "counted '3' tokens"),
        ({"tokens": -5}, "counted -5 tokens"),
        ({"tokens": 1.5}, "counted 1.5 tokens"),
        ({"tokens": float("nan")}, "counted nan tokens"),
        ({"reason": 7}, "7"),
    ],
)
def test_a_verdict_that_is_none_fails_its_candidate_alone(tools, fields, text):
    class Odd(Verifier):
        def submit(self, id, problem, candidate):
            self.waiting[id] = candidate

        def step(self):
            done, self.waiting = self.waiting, {}
            return [
                Verdict(**{"id": name, "scores": (0.5,), "tokens": 1, **(fields if odd(candidate) else {})})
                for name, candidate in done.items()
            ]

    results, trace = run(tools, Odd())
    assert trace.reasons
    assert all(text in reason for reason in trace.reasons)
    assert any(result.outcome == "answered" for result in results.values())
    assert all(result.usage.verifier >= 0 for result in results.values())


@pytest.mark.parametrize("score", [10**400, float("inf"), float("nan"), None])
def test_a_score_without_a_value_is_missing(tools, score):
    class Missing(Verifier):
        def step(self):
            return [verdict._replace(scores=(score,)) for verdict in super().step()]

    results, trace = run(tools, Missing())
    assert not trace.reasons
    assert {result.outcome for result in results.values()} <= {"abstained", "truncated"}


def test_numbers_of_numpy_are_numbers(tools):
    import numpy as np

    class Numpy(Verifier):
        def step(self):
            return [v._replace(scores=(np.float32(0.5),), tokens=np.int64(2)) for v in super().step()]

    results, trace = run(tools, Numpy())
    scores = [score for kind, data in trace.events if kind == "score" for score in data["scores"]]
    assert set(map(type, scores)) == {float}
    assert all(type(result.usage.verifier) is int for result in results.values())


@pytest.mark.parametrize("news", [("v1", (0.5,), 0, ""), None, {"v1": 0.5}])
def test_what_is_no_verdict_at_all_fails_what_was_asked(tools, news):
    class Strange(Verifier):
        def step(self):
            return [news]

    results, trace = run(tools, Strange())
    assert len(results) == 8
    assert all("where a Verdict is wanted" in reason for reason in trace.reasons)


@pytest.mark.parametrize("place", ["submit", "step"])
def test_an_exit_within_a_verifier_ends_no_process(tools, place):
    class Leaves(Verifier):
        def submit(self, id, problem, candidate):
            if place == "submit":
                raise SystemExit(3)
            super().submit(id, problem, candidate)

        def step(self):
            raise SystemExit(3)

    results, trace = run(tools, Leaves())
    assert len(results) == 8
    assert all("SystemExit" in reason for reason in trace.reasons)
