"""The oracle: refused by default, an upper bound when asked for."""

import pytest

from ttsflow import Pipeline
from ttsflow.errors import ConfigError
from ttsflow.protocols import VerifierPart
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.verify import Verify
from ttsflow.testing import FakeTask, run_fake
from ttsflow.types import Answer, Candidate, Problem
from ttsflow.verifiers.answer import GoldAnswer

FAKE = {"use": "fake"}


def test_it_is_refused_unless_it_is_asked_for_by_name():
    with pytest.raises(ConfigError, match=r"verifier\.evaluation=true") as caught:
        Pipeline("best_of_n", engine=FAKE, verifier="answer")
    assert caught.value.path == "verifier.evaluation"
    Pipeline("best_of_n", engine=FAKE, verifier={"use": "answer", "evaluation": True})


def test_without_a_task_it_cannot_work():
    assert isinstance(GoldAnswer(), VerifierPart)
    with pytest.raises(ConfigError, match="needs the task"):
        GoldAnswer(evaluation=True).open()


def test_right_is_one_wrong_or_missing_is_zero_and_without_gold_there_is_no_score():
    verifier = GoldAnswer(evaluation=True).open_for(FakeTask())
    right, wrong = (Candidate((0,), (), (1,), "x", "stop", answer=Answer(a, a)) for a in "12")
    gold, none = Problem("?", gold="1"), Problem("?")
    for number, (problem, candidate) in enumerate(
        [(gold, right), (gold, wrong), (gold, right.with_(answer=None)), (none, right)]
    ):
        verifier.submit(str(number), problem, candidate)
    assert [verdict.scores for verdict in verifier.step()] == [(1.0,), (0.0,), (0.0,), ()]


def test_best_of_n_with_it_is_right_when_any_sample_is():
    task = FakeTask(size=24)
    stages = {"sample": GenerateStage(4), "score": Verify(), "answer": Aggregate(how="best")}
    oracle = GoldAnswer(evaluation=True)
    best = run_fake(Sequence(stages), task=task, verifier=oracle.open_for(task))

    seen = {}

    class Collect:
        def __call__(self, state):
            seen[state.problem.id] = [task.correct(c.answer, state.problem) for c in state.pool]
            return state

    run_fake(Sequence({"sample": GenerateStage(4), "see": Collect()}), task=task)
    assert {name: result.correct for name, result in best.items()} == {n: any(c) for n, c in seen.items()}
    assert {result.correct for result in best.values()} == {True, False}


def test_the_command_line_and_python_open_it_for_their_task():
    oracle = {"use": "answer", "evaluation": True}
    pipeline = Pipeline("best_of_n", engine=FAKE, verifier=oracle, n=4, chat=False)
    (result,) = pipeline.run([{"prompt": "1 + 2 =", "gold": "3"}]).results
    assert result.correct in {True, False}
    assert result.outcome == "answered"
