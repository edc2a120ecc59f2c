import pytest

from ttsflow.results import make_result, outcome_of
from ttsflow.types import Answer, Candidate, Problem, State, Usage

GRADED = Problem("?", id="p", gold="4")


def cand(number, finish="stop", **changes):
    return Candidate((number,), (), (1, 2), "x", finish, **changes)


def result(state, outcome=None, **settings):
    return make_result(state, outcome or outcome_of(state), Usage(), {}, **settings)


@pytest.mark.parametrize(
    ("finishes", "outcome"),
    [
        ([], "abstained"),
        (["stop", "stop"], "abstained"),
        (["stop", "length"], "truncated"),
        (["step"], "truncated"),
        (["aborted", "stop"], "truncated"),
        (["failed", "stop"], "abstained"),
        (["failed", "length"], "truncated"),
        (["failed", "failed"], "failed"),
    ],
)
def test_outcomes_without_an_answer(finishes, outcome):
    pool = tuple(cand(i, finish) for i, finish in enumerate(finishes))
    assert outcome_of(State(GRADED, pool=pool)) == outcome
    assert outcome_of(State(GRADED, pool=pool, answer=Answer("4", "4"))) == "answered"


@pytest.mark.parametrize("outcome", ["abstained", "truncated", "deferred", "failed"])
@pytest.mark.parametrize("reason", [None, "it broke"])
def test_a_question_without_an_answer_counts_as_wrong_whatever_the_reason(outcome, reason):
    assert result(State(GRADED), outcome, reason=reason).correct is False
    assert result(State(Problem("?", id="p")), outcome, reason=reason).correct is None


def test_an_answer_that_could_not_be_graded_is_neither_right_nor_wrong():
    state = State(GRADED, answer=Answer("4", "4"))
    assert result(state, "failed", reason="grading failed").correct is None


def test_the_reason_of_failed_candidates_is_that_of_the_problem():
    pool = (cand(0, "failed", reason="first"), cand(1, "failed", reason="second"))
    assert result(State(GRADED, pool=pool)).reason == "first"


def test_copies_in_the_pool_count_once():
    copy = cand(0, "length")
    found = result(State(GRADED, pool=(copy, copy, cand(1))))
    assert (found.candidates, found.truncated) == (2, 1)


def test_path_tokens_are_the_distinct_ones_of_finished_trajectories():
    tree = {(0,): 5, (0, 0): 3, (0, 1): 4, (1,): 7, (1, 0): 9}
    pool = tuple(
        Candidate(path, (), (1,), "x", finish)
        for path, finish in (((0, 0), "stop"), ((0, 1), "stop"), ((1, 0), "length"))
    )
    assert result(State(GRADED, pool=pool), tree=tree).path_tokens == 5 + 3 + 4


def test_the_text_is_that_of_the_candidate_the_answer_came_from():
    state = State(GRADED, answer=Answer("4", "4"), chosen=cand(0), stopped="why")
    found = result(state)
    assert (found.answer, found.text, found.stopped, found.gold) == ("4", "x", "why", "4")
