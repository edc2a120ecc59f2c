import pytest

from ttsflow import Pipeline
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


def step(number):
    return cand(number, "step")


NEVER_COMPLETED = "only the last round of a `repeat` around `unit: step` completes them"
ANSWER = Answer("4", "4")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (State(GRADED), "no sample was drawn"),
        (State(GRADED, stopped="budget: spent"), "no sample was drawn: budget: spent"),
        (State(GRADED, pool=(cand(0), cand(1))), "none of 2 samples gave an answer"),
        (
            State(GRADED, pool=(cand(0), cand(1, "failed", reason="boom"))),
            "none of 2 samples gave an answer, 1 failed: boom",
        ),
        (
            State(GRADED, pool=(cand(0, answer=ANSWER), cand(1))),
            "1 of 2 samples gave an answer, and no stage of the strategy chose one; `aggregate` does",
        ),
        (State(GRADED, pool=(cand(0, answer=ANSWER),), unanswered="no score"), "no score"),
        (
            State(GRADED, pool=(cand(0, answer=ANSWER), cand(1, "length")), unanswered="no score"),
            "no score; 1 of 2 samples were cut by `sampling.max_tokens` or the engine's context",
        ),
        (
            State(GRADED, pool=(cand(0, "length", reason="too long for it"),)),
            "1 of 1 samples were cut: too long for it",
        ),
        (
            State(GRADED, pool=(cand(0, "aborted"), cand(1)), ended="first 1 finished"),
            "none of 2 samples gave an answer; 1 of 2 samples were ended early: first 1 finished",
        ),
        (
            State(GRADED, pool=(step(0), step(1))),
            f"2 of 2 samples were left open after a step: {NEVER_COMPLETED}",
        ),
        (
            State(GRADED, pool=(step(0),), stopped="budget: spent"),
            "1 of 1 samples were left open after a step: budget: spent",
        ),
        (State(GRADED, pool=(cand(0, "failed"),)), "all of 1 samples failed, none with a reason"),
    ],
)
def test_whatever_has_no_answer_says_why(state, reason):
    assert result(state).reason == reason


def test_a_problem_that_never_started_says_why_and_an_answer_needs_no_reason():
    assert result(State(GRADED, stopped="budget: spent"), "deferred").reason.endswith("budget: spent")
    assert result(State(GRADED, answer=ANSWER, pool=(cand(0, "length"),))).reason is None


NO_SCORE = "goes by scores, and none of "


@pytest.mark.parametrize(
    ("strategy", "verifier", "reason"),
    [
        ("best_of_n", {"use": "judge"}, NO_SCORE),
        ("weighted_majority", {"use": "judge"}, NO_SCORE),
        ({"use": "generate", "n": 4}, None, "no stage of the strategy chose one"),
        (
            {
                "use": "sequence",
                "stages": {"s": {"use": "generate", "n": 4, "unit": "step"}, "a": {"use": "aggregate"}},
            },
            None,
            "left open after a step",
        ),
        (
            {"use": "sequence", "stages": {"s": {"use": "generate"}, "a": {"use": "aggregate", "least": 1}}},
            None,
            None,
        ),
    ],
)
def test_a_run_never_leaves_it_open_why_there_is_no_answer(strategy, verifier, reason):
    made = Pipeline(strategy, engine="fake", verifier=verifier, task={"use": "arithmetic", "size": 4})
    results = made.run().results
    assert all((found.reason is None) == (found.outcome == "answered") for found in results)
    assert reason is None or any(reason in (found.reason or "") for found in results)
