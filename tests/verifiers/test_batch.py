import math

import numpy as np
import pytest

from ttsflow.errors import ConfigError
from ttsflow.protocols import Verifier, VerifierPart
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import Batched, steps_of
from ttsflow.verifiers.constant import Constant, RandomScore

PROBLEM = Problem("p", id="p")


def candidate(text="a\nb"):
    return Candidate((0,), (), text=text)


def verdicts(score, texts, **settings):
    verifier = Batched(score, **settings)
    for number, text in enumerate(texts):
        verifier.submit(str(number), PROBLEM, candidate(text))
    return verifier.step()


def test_all_pending_candidates_are_one_batch():
    sizes = []

    def score(batch):
        sizes.append(len(batch))
        return [[1.0] for _ in batch]

    verifier = Batched(score)
    assert isinstance(verifier, Verifier)
    assert verifier.step() == []
    for number in range(3):
        verifier.submit(str(number), PROBLEM, candidate())
    assert [(v.id, v.scores, v.reason) for v in verifier.step()] == [(str(n), (1.0,), "") for n in range(3)]
    assert verifier.step() == []
    assert sizes == [3]


def test_a_failure_is_confined_to_the_candidate_that_causes_it():
    def score(batch):
        if any(item.text == "bad" for _, item in batch):
            raise RuntimeError("boom")
        return [[0.5] for _ in batch]

    good, bad, other = verdicts(score, ["x", "bad", "y"])
    assert good.scores == other.scores == (0.5,)
    assert good.reason == other.reason == ""
    assert bad.scores == ()
    assert "boom" in bad.reason


def test_a_wrong_number_of_results_is_no_score():
    for verdict in verdicts(lambda batch: [], ["x", "y"]):
        assert verdict.scores == ()
        assert "0 results for 1 candidates" in verdict.reason


def test_a_batch_that_only_fails_together_is_scored_alone():
    assert [v.scores for v in verdicts(lambda batch: [[1.0]], ["x", "y"])] == [(1.0,), (1.0,)]


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.5", True, [0.5]])
def test_what_is_no_finite_number_is_none_with_a_reason(value):
    (verdict,) = verdicts(lambda batch: [[0.25, value]], ["x"])
    assert verdict.scores == (0.25, None)
    assert verdict.reason


def test_none_is_a_legal_score_and_numbers_become_floats():
    (verdict,) = verdicts(lambda batch: [[None, 1, np.float32(0.5)]], ["x"])
    assert verdict.scores == (None, 1.0, 0.5)
    assert all(type(score) is float for score in verdict.scores[1:])
    assert verdict.reason == ""


@pytest.mark.parametrize("reply", [0.5, None, 3])
def test_a_reply_that_is_no_list_is_no_score(reply):
    (verdict,) = verdicts(lambda batch: [reply], ["x"])
    assert verdict.scores == ()
    assert "list of step scores" in verdict.reason


def test_one_score_per_step_is_checked_when_a_separator_is_given():
    right, wrong = verdicts(lambda batch: [[0.5, 0.5]] * len(batch), ["a\nb\n", "a\nb\nc"], separator="\n")
    assert right.scores == (0.5, 0.5)
    assert wrong.scores == ()
    assert "2 scores for 3 steps" in wrong.reason


def test_cancelled_and_closed_candidates_are_not_scored():
    verifier = Batched(lambda batch: [[1.0] for _ in batch])
    for name in ("a", "b"):
        verifier.submit(name, PROBLEM, candidate())
    verifier.cancel(["a", "unknown"])
    assert [verdict.id for verdict in verifier.step()] == ["b"]
    verifier.submit("c", PROBLEM, candidate())
    verifier.close()
    verifier.close()
    assert verifier.step() == []


def test_a_waiting_id_cannot_be_used_again():
    verifier = Batched(lambda batch: [[1.0] for _ in batch])
    verifier.submit("a", PROBLEM, candidate())
    with pytest.raises(ValueError, match="'a'"):
        verifier.submit("a", PROBLEM, candidate())


def test_a_separator_at_the_end_starts_no_step():
    assert steps_of("a\n\nb\n \n", "\n") == ["a", "b"]
    assert steps_of("", "\n") == []


def scored(part, text, problem=PROBLEM):
    verifier = part.open()
    verifier.submit("x", problem, candidate(text))
    (verdict,) = verifier.step()
    assert verdict.reason == ""
    return verdict.scores


@pytest.mark.parametrize("part", [Constant(), RandomScore()])
def test_controls_are_verifier_parts_with_a_score_per_step(part):
    assert isinstance(part, VerifierPart)
    assert len(scored(part, "a\nb\n\nc\n")) == 3
    assert scored(part, "") == ()


def test_constant():
    assert scored(Constant(0.25), "a\nb") == (0.25, 0.25)
    with pytest.raises(ConfigError):
        Constant(math.nan)


def test_random_scores_are_a_function_of_seed_problem_and_text():
    short, long = scored(RandomScore(), "a\nb"), scored(RandomScore(), "a\nb\nc")
    assert long[:2] == short
    assert len({*long, *scored(RandomScore(seed=1), "a\nb\nc")}) == 6
    assert scored(RandomScore(), "a", Problem("q", id="q")) != scored(RandomScore(), "a")
    assert all(0 <= score < 1 for score in long)


@pytest.mark.parametrize("separator", ["", "\\n"])
def test_separators_are_checked(separator):
    with pytest.raises(ConfigError) as caught:
        RandomScore(separator=separator)
    assert caught.value.path == "separator"
