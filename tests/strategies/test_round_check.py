"""A search that buys its rounds: what it asks, when it ends, and with what."""

import pytest

from ttsflow.controllers.shares import Shares
from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note, Offer, Quotation, Quote
from ttsflow.results import outcome_of
from ttsflow.strategies.round_check import RoundCheck
from ttsflow.testing import drive
from ttsflow.types import Answer, Candidate, Problem, State, Usage

BY = Shares()


def cand(place, score=None, *, finish="step", answer=None):
    known = None if answer is None else Answer(answer, answer)
    return Candidate((place,), (), (7,), finish=finish, score=score, answer=known)


def buy(*pool, most=99, worth=0.0, n=4):
    """Run the stage with a controller that grants so many; return state, what was asked, drawn and told."""
    asked, drawn, told = [], [], []

    def answer(op):
        if isinstance(op, Quote):
            asked.append(op.samples if op.by is not None else None)
            refused = f"no more than {most}" if op.samples > most else None
            offers = {op.samples: Offer("tokens", 1.0, refused=refused)} if op.by is BY else {}
            return Quotation({}, {}, {}, Usage(), offers)
        if isinstance(op, Generate):
            (request,) = op.requests
            assert request.unit == "whole"
            path = (9,) if request.parent is None else (*request.parent.path, 0)
            drawn.append(request.parent)
            new = Candidate(path, (), (7,), finish="stop", answer=Answer("5", "5"))
            return Generated((new,), Usage(requests=1))
        assert isinstance(op, Note)
        told.append(dict(op.data))
        return None

    state = drive(RoundCheck(BY, n=n, worth=worth), State(Problem("?"), pool=pool), answer)
    return state, asked, drawn, told


def test_a_round_that_is_granted_changes_nothing():
    pool = (cand(0, 0.5), cand(0, 0.5), cand(1, 0.2), cand(2, 0.9, finish="stop", answer="1"))
    state, asked, drawn, told = buy(*pool)
    assert (state.pool, state.stopped) == (pool, None)
    assert asked == [3], "a step for every entry that goes on"
    assert not drawn
    assert not told


def test_a_first_round_costs_n_steps():
    assert buy(n=16)[1] == [16]


def test_a_search_that_is_over_is_not_asked_about():
    assert buy(cand(0, 0.5, finish="stop"), most=0)[1] == []


def test_the_best_is_completed_when_the_next_round_is_refused():
    pool = (cand(0, 0.2), cand(1, 0.7), cand(1, 0.7), cand(2, 0.3, finish="stop", answer="1"), cand(3, None))
    state, asked, drawn, told = buy(*pool, most=1)
    assert [parent.path for parent in drawn] == [(1,)]
    assert [c.path for c in state.pool] == [(2,), (1, 0)]
    assert (state.stopped, state.ended) == ("no more than 1", None)
    assert asked == [4, 1, None], "nothing stays set aside"
    assert told == [{"reason": "no more than 1", "active": 4, "completed": (1,)}]


@pytest.mark.parametrize("score", [0.7, 0.9])
def test_one_that_has_finished_and_scores_as_high_is_enough(score):
    done = cand(2, score, finish="stop", answer="1")
    state, asked, drawn, told = buy(cand(0, 0.7), cand(1, 0.1), done, most=1)
    assert not drawn
    assert state.pool == (done,)
    assert asked == [2, None]
    assert told[0]["completed"] is None


def test_one_that_has_finished_without_an_answer_is_not_enough():
    state, _, drawn, _ = buy(cand(0, 0.1), cand(1, 0.1), cand(2, 0.9, finish="stop"), most=1)
    assert [parent.path for parent in drawn] == [(0,)]
    assert [c.path for c in state.pool] == [(2,), (0, 0)]


def test_without_funds_for_a_completion_what_has_finished_answers():
    done = cand(2, 0.1, finish="stop", answer="1")
    state, asked, drawn, _ = buy(cand(0, 0.7), cand(1, 0.1), done, most=0)
    assert not drawn
    assert state.pool == (done,)
    assert asked == [2, 1, None]


def test_without_funds_and_without_an_answer_the_best_stays_open():
    state, _, drawn, _ = buy(cand(0, 0.2), cand(1, 0.7), most=0)
    assert not drawn
    assert [c.path for c in state.pool] == [(1,)]
    assert outcome_of(state) == "truncated"


def test_a_search_that_cannot_begin_is_one_sample():
    state, asked, drawn, _ = buy(most=1, n=8)
    assert drawn == [None]
    assert [c.path for c in state.pool] == [(9,)]
    assert state.stopped == "no more than 1"
    assert asked == [8, 1, None]


def test_where_that_is_refused_too_the_question_is_deferred():
    state, _, drawn, _ = buy(most=0, n=8)
    assert not drawn
    assert (state.pool, state.stopped) == ((), "no more than 0")
    assert outcome_of(state) == "deferred"


@pytest.mark.parametrize(
    ("scores", "worth", "ends"),
    [
        ((0.9, 0.7, 0.8), 0.09, False),
        ((0.9, 0.7, 0.8), 0.11, True),
        ((0.8, 0.8), 0.01, True),
        ((0.8, 0.8), 0.0, False),
        # One alone, and scores that nobody has, say nothing.
        ((0.8,), 0.5, False),
        ((None, None), 0.5, False),
        ((0.8, None), 0.5, False),
    ],
)
def test_a_round_is_not_worth_it_where_scores_hardly_differ(scores, worth, ends):
    pool = tuple(cand(place, score) for place, score in enumerate(scores) for _ in range(2))
    state, _, drawn, _ = buy(*pool, worth=worth)
    assert bool(drawn) is ends
    assert (state.stopped or "").startswith("not worth it: the best of") is ends


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"n": 0}, "n"),
        ({"n": -1}, "n"),
        ({"n": 10**9}, "n"),
        ({"worth": -0.1}, "worth"),
        ({"worth": float("nan")}, "worth"),
        ({"worth": float("inf")}, "worth"),
    ],
)
def test_settings_that_cannot_be_name_their_field(settings, field):
    with pytest.raises(ConfigError) as caught:
        RoundCheck(BY, **settings)
    assert caught.value.path == field
