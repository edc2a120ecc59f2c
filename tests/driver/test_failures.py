"""Engine, verifier, task and display that break: every problem has a result with its reason."""

import pytest

from ttsflow.driver.loop import Driver
from ttsflow.driver.settle import Rules
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.ledger import Budget, Ledger
from ttsflow.ops import Generate, Request, Score
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.testing.parts import fake_scores
from ttsflow.types import Answer, Sampling
from ttsflow.verifiers.batch import Batched

BAD = "fake-3"


@pytest.mark.parametrize("name", ["majority", "ffs", "beam", "subtrees"])
@pytest.mark.parametrize("after", [0, 1, 12, 16])
def test_the_death_of_the_engine_fails_what_is_left_with_its_reason(name, after, tools):
    engine = FakeEngine(dies_after=after)
    results = run_fake(
        getattr(tools.trees, name)(), engine=engine, concurrency=3, budget=Budget(run={"tokens": 10**9})
    )
    assert len(results) == 8
    reason = f"the fake engine died after {after} steps, as it was told to."
    failed = [result for result in results.values() if result.outcome == "failed"]
    assert failed
    assert all(result.reason == reason and result.stopped is None for result in failed)
    assert tools.decoded(results) == engine.decoded


def test_what_ended_before_the_engine_died_keeps_its_result(tools):
    healthy = run_fake(tools.trees.majority(4), concurrency=1)
    results = run_fake(tools.trees.majority(4), concurrency=1, engine=FakeEngine(dies_after=200))
    kept = [name for name, result in results.items() if result.outcome != "failed"]
    assert kept
    assert all(results[name] == healthy[name] for name in kept)


def test_a_verifier_that_breaks_on_one_candidate_fails_that_candidate_alone(tools):
    def score(batch):
        if any(candidate.path == (2,) for _, candidate in batch):
            raise ZeroDivisionError("bad candidate")
        return fake_scores(batch)

    trace = tools.Watcher()
    results = run_fake(tools.trees.weighted(), verifier=Batched(score), trace=trace)
    words = {data["path"]: data.get("reason") for _, data in trace.of("score")}
    assert len(words) == 8
    assert {path for path, reason in words.items() if reason} == {(2,)}
    assert "ZeroDivisionError: bad candidate" in words[2,]
    assert tools.outcomes(results)["failed"] == 0
    assert tools.outcomes(results)["answered"] >= 7


def test_problems_whose_every_candidate_fails_are_failed_with_the_reason(tools):
    def score(batch):
        raise ZeroDivisionError("all bad")

    results = run_fake(tools.trees.weighted(), verifier=Batched(score))
    assert tools.outcomes(results) == {"failed": 8}
    assert {result.reason for result in results.values()} == {"ZeroDivisionError: all bad"}


def test_an_answer_parser_that_breaks_fails_its_samples_and_they_do_not_vote(tools):
    class Task(FakeTask):
        def answer(self, text, problem):
            found = super().answer(text, problem)
            if found is not None and found.key in "01":
                raise RecursionError("too deep")
            return found

    trace = tools.Watcher()
    engine = FakeEngine()
    results = run_fake(tools.trees.majority(8), task=Task(), trace=trace, engine=engine)
    failed = [data for _, data in trace.of("candidate") if data["finish"] == "failed"]
    assert failed
    assert {data["reason"] for data in failed} == {"reading the answer failed: RecursionError: too deep"}
    assert all(result.answer not in {"0", "1"} for result in results.values())
    assert tools.decoded(results) == engine.decoded


def test_a_grader_that_breaks_is_an_error_and_never_a_wrong_answer(tools):
    class Task(FakeTask):
        def correct(self, answer, problem):
            if problem.id == BAD:
                raise TimeoutError("grading took too long")
            return super().correct(answer, problem)

    results = run_fake(tools.trees.majority(8), task=Task())
    assert results[BAD].outcome == "failed"
    assert results[BAD].correct is None
    assert results[BAD].reason == "grading failed: TimeoutError: grading took too long"
    assert results[BAD].usage.decoded > 0
    assert tools.outcomes(results)["failed"] == 1


def test_a_prompt_longer_than_the_context_ends_truncated_with_a_reason(tools):
    short, *_ = FakeTask(size=1).problems()
    long = type(short)("x" * 200, id="long", gold="1")
    engine = FakeEngine(context=100)
    results = run_fake(tools.trees.majority(4), [long, short], engine=engine)
    assert results["long"].outcome == "truncated"
    assert results["long"].truncated == 4
    assert "no room" in results["long"].reason
    assert results["long"].usage.decoded == results["long"].usage.requests == 0
    assert results["fake-0"].outcome == "answered"


def test_a_prompt_that_cannot_be_encoded_fails_its_problem(tools):
    class Engine(FakeEngine):
        def encode(self, prompt):
            if "3" in prompt:
                raise ValueError("no chat template")
            return super().encode(prompt)

    results = run_fake(tools.trees.majority(4), engine=Engine())
    assert results[BAD].reason == "the prompt cannot be encoded: ValueError: no chat template"
    assert tools.outcomes(results)["failed"] == 1


def driver_of(strategy, engine, **settings):
    return Driver(strategy, Rules(engine, FakeTask(), Sampling(), 0, 0), Ledger({}, Budget()), **settings)


def test_closing_the_results_early_leaves_no_request_on_the_engine(tools):
    engine = FakeEngine(capacity=8)
    results = driver_of(tools.trees.majority(16), engine).run(FakeTask().problems())
    next(results)
    assert engine._running
    assert engine._waiting
    results.close()
    assert not engine._running
    assert not engine._waiting


def test_an_error_in_the_display_leaves_no_request_on_the_engine(tools):
    def show(status):
        raise KeyboardInterrupt

    engine = FakeEngine()
    with pytest.raises(KeyboardInterrupt):
        list(driver_of(tools.trees.majority(16), engine, on_step=show).run(FakeTask().problems()))
    assert not engine._running
    assert not engine._waiting


def test_scores_without_a_verifier_are_a_config_error():
    def stage(state):
        got = yield Generate((Request(),))
        yield Score(got.candidates)
        return state

    with pytest.raises(ConfigError, match="no verifier is set"):
        list(driver_of(stage, FakeEngine()).run(FakeTask().problems()))


def test_an_engine_that_dies_elsewhere_than_in_a_step_is_not_hidden(tools):
    class Engine(FakeEngine):
        def submit(self, request):
            raise EngineDead("gone")

    results = run_fake(tools.trees.majority(2), engine=Engine())
    assert tools.outcomes(results) == {"failed": 8}
    assert all("gone" in result.reason for result in results.values())


def test_an_answer_is_compared_by_key_and_shown_as_written(tools):
    class Task(FakeTask):
        def answer(self, text, problem):
            found = super().answer(text, problem)
            return found and Answer(f"about {found.text}", found.key)

    plain = run_fake(tools.trees.majority(8))
    shown = run_fake(tools.trees.majority(8), task=Task())
    for name, result in plain.items():
        assert shown[name].answer == (result.answer and f"about {result.answer}")
        assert shown[name].correct == result.correct
