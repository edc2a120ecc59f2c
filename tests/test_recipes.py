"""Each recipe of the documentation does what its text says, on the fake engine."""

from collections import Counter

import pytest

from ttsflow.build import build
from ttsflow.config import compose, strategy
from ttsflow.ledger import Budget
from ttsflow.plugins import load
from ttsflow.run import run_config
from ttsflow.strategies.until import Agreed
from ttsflow.testing import FakeTask, Heard, run_fake
from ttsflow.testing.parts import fake_scores
from ttsflow.types import State
from ttsflow.verifiers.batch import Batched

TASK = FakeTask(size=24)


class Counted(Batched):
    """Remembers which candidates it was asked about, by problem."""

    def __init__(self):
        super().__init__(fake_scores)
        self.asked = {}

    def submit(self, id, problem, candidate):
        self.asked.setdefault(problem.id, []).append(candidate)
        super().submit(id, problem, candidate)


@pytest.fixture
def play(recipes):
    """Return a function that runs a recipe: results, trace, and what the verifier was asked."""

    def run(name, /, budget=None, **settings):
        stage = build("stage", strategy(name, settings, str(recipes)), "strategy", load())
        trace, verifier = Heard(), Counted()
        results = run_fake(stage, task=TASK, trace=trace, verifier=verifier, budget=budget)
        assert {result.outcome for result in results.values()} <= {"answered", "abstained", "truncated"}
        return results, trace, verifier.asked

    return run


def ended(trace, problem):
    """Return the first whole candidates of a problem, in sample order."""
    found = [data for kind, of, data in trace.events if kind == "candidate" and of == problem]
    return sorted(found, key=lambda data: data["path"])


def agreed(results, trace, first, share, least):
    """Return the problems whose first candidates agree, by the answers in the trace."""
    found = set()
    for name in results:
        answers = [data["answer"] for data in ended(trace, name)[:first] if data["answer"] is not None]
        top = Counter(answers).most_common(2)
        tied = len(top) > 1 and top[0][1] == top[1][1]
        if len(answers) >= least and not tied and top[0][1] >= share * len(answers):
            found.add(name)
    return found


def test_there_are_ten_and_more(recipes):
    assert len(list((recipes / "strategy").glob("*.yaml"))) >= 10


def test_ffs_then_judge(play):
    results, _, asked = play("ffs_then_judge")
    assert all(result.usage.aborted for result in results.values())
    assert {len(candidates) for candidates in asked.values()} == {3}
    for name, result in results.items():
        best = max(asked[name], key=lambda c: fake_scores([(None, c)])[0][-1])
        assert result.answer == best.answer.text


@pytest.mark.slow
def test_beam_or_majority(play):
    plain = run_fake(build("stage", strategy("beam_search", {"n": 8}), "strategy", load()), task=TASK)
    free = play("beam_or_majority")[0]
    assert {n: r.answer for n, r in free.items()} == {n: r.answer for n, r in plain.items()}
    tight = Budget(problem={"tokens": 200})
    results, trace, _ = play("beam_or_majority", tight)
    low = [result for result in results.values() if (result.stopped or "").startswith("funds low")]
    assert low
    assert all(result.outcome == "answered" for result in low)
    # The beams descend from samples 0 to 7; those that came instead are whole ones.
    late = {name for name in results if any(tuple(data["path"]) == (8,) for data in ended(trace, name))}
    assert late
    for name in {name for name, result in results.items() if result in low} - late:
        assert results[name].candidates - results[name].truncated >= 8, "enough beams had finished"


@pytest.mark.slow
def test_grow_on_disagreement(play):
    # Answers of the fake engine hardly ever all agree.
    shares = {"eight": {"unless": {"share": 0.6}}, "all": {"unless": {"share": 0.5}}}
    results, trace, _ = play("grow_on_disagreement", stages=shares)
    sizes = {name: len(ended(trace, name)) for name in results}
    assert set(sizes.values()) == {4, 8, 16}
    soon = agreed(results, trace, 4, 0.6, 4)
    assert {name for name, size in sizes.items() if size in {4, 12}} == soon
    for name in {name for name, size in sizes.items() if size == 8}:
        assert name in agreed(results, trace, 8, 0.5, 4)


@pytest.mark.slow
def test_two_verifiers(recipes, tmp_path):
    settings = ["strategy=two_verifiers", "verifier=both", "engine=fake", "limit=6"]
    summary = run_config(compose(settings, str(recipes)), tmp_path / "run")
    assert (summary.status, summary.failed, summary.problems) == ("complete", 0, 6)


def test_short_to_long(play):
    results, trace, _ = play("short_to_long")
    short = {name for name in results if all(data["tokens_new"] <= 24 for data in ended(trace, name))}
    longer = set(results) - short
    assert short
    assert longer
    went_on = {name for name in results if any(len(data["path"]) > 1 for data in ended(trace, name))}
    assert longer <= went_on
    for name in set(results) - went_on:
        result = results[name]
        assert result.usage.decoded <= 6 * 24


def test_second_opinion(play):
    results, trace, asked = play("second_opinion")
    assert set(results) - set(asked) == agreed(results, trace, 5, 0.8, 3)
    assert asked
    assert set(asked) != set(results)


def test_small_then_large(play):
    results, trace, _ = play("small_then_large")
    asked = {name for name, result in results.items() if result.usage.of("large").requests}
    assert set(results) - asked == agreed(results, trace, 3, 0.5, 2)
    assert asked
    assert asked != set(results)
    for name in asked:
        race = [data for data in ended(trace, name) if data["path"][0] >= 3]
        valid = [data for data in race if data["finish"] == "stop" and data.get("answer")]
        assert len(race) == 3
        assert results[name].candidates == (1 if valid else 3)
        if valid:
            assert results[name].answer == min(valid, key=lambda data: data["tokens"])["answer"]


@pytest.mark.slow
def test_vote_then_search(play):
    results, _, asked = play("vote_then_search")
    settled = set(results) - set(asked)
    assert settled
    assert asked
    for name, result in results.items():
        assert (result.candidates == 4) == (name in settled)
        assert (result.usage.requests == 4) == (name in settled)


def test_cut_early(play):
    results, trace, _ = play("cut_early")
    for name, result in results.items():
        assert result.candidates == 4
        assert len([data for data in ended(trace, name) if len(data["path"]) > 1]) <= 4


@pytest.mark.slow
def test_spend_all(play):
    few, many = (play("spend_all", Budget(problem={"tokens": limit}))[0] for limit in (200, 800))
    for name, result in few.items():
        assert result.candidates <= many[name].candidates
        assert many[name].candidates % 4 == 0 or many[name].stopped.startswith("budget")
    drawn = [sum(result.candidates for result in run.values()) for run in (few, many)]
    assert drawn[1] > 2 * drawn[0]
    assert any("samples cost" in (result.stopped or "") for result in many.values())
    assert {result.candidates for result in play("spend_all", n=8)[0].values()} == {8}


@pytest.mark.slow
def test_only_when_sure(play):
    results, trace, _ = play("only_when_sure")
    assert {result.outcome for result in results.values()} == {"answered", "abstained"}
    for name, result in results.items():
        sure = name in agreed(results, trace, 16, 0.7, 4)
        assert (result.outcome == "answered") == sure
        assert sure or len(ended(trace, name)) == 16


@pytest.mark.slow
def test_unique_search(play):
    _, trace, _ = play("unique_search")
    seen = {}
    for kind, problem, data in trace.events:
        if kind == "candidate":
            seen[problem, tuple(data["path"])] = data["text"]
    assert seen
    for kind, problem, data in trace.events:
        if kind == "select" and data.get("copies"):
            texts = [seen[problem, tuple(path)] for path in data["kept"]]
            assert len(texts) == len(set(texts))


def test_no_loops(recipes):
    stage = build("stage", strategy("no_loops", None, str(recipes)), "strategy", load())
    watch = stage.stages["sample"].watch
    assert (type(watch).__name__, watch.times, watch.least) == ("Repetition", 3, 12)
    assert {r.outcome for r in run_fake(stage, task=TASK).values()} <= {"answered", "abstained", "truncated"}


def test_the_condition_of_the_recipes_is_the_one_counted_here():
    assert Agreed(0.5, 2)(State(TASK.problems()[0])) is None
