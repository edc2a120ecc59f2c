"""Budgets, breakers and reserves: what may be set, and when a breaker trips."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.budget import Breaker, Budget, Fuse
from ttsflow.errors import ConfigError

OUTCOMES = ("answered", "truncated", "abstained", "deferred", "failed")


def tripped(breaker, outcomes):
    """Return after how many ends a breaker trips, and why; None for never."""
    fuse = Fuse(breaker)
    for place, outcome in enumerate(outcomes, 1):
        reason = fuse.ended(outcome)
        if reason is not None:
            return place, reason
    return None


def test_so_many_in_a_row_trip_it_and_one_good_end_begins_anew():
    ends = ["failed", "failed", "answered", "failed", "failed", "failed", "failed"]
    assert tripped(Breaker(last=3), ends) == (6, "breaker: 3 of the last 3 problems failed")
    assert tripped(Breaker(last=5), ends) is None
    assert tripped(Breaker(last=1), ends) == (1, "breaker: 1 of the last 1 problems failed")


def test_a_share_of_the_last_trips_it_once_there_are_so_many():
    breaker = Breaker(last=4, share=0.5, counts=("failed", "truncated"))
    ends = ["failed", "truncated", "answered", "answered"]
    reason = "breaker: 2 of the last 4 problems failed or were truncated"
    assert tripped(breaker, ends) == (4, reason)
    assert tripped(breaker, ends[:3]) is None
    assert tripped(Breaker(last=4, share=0.5, counts=("truncated",)), ends) is None


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(OUTCOMES), max_size=30),
    st.integers(1, 6),
    st.floats(0.05, 1.0),
    st.sampled_from([("failed",), ("truncated",), ("failed", "truncated")]),
)
def test_it_trips_at_the_first_end_where_the_share_is_reached(ends, last, share, counts):
    tried = [(place, end) for place, end in enumerate(ends, 1) if end != "deferred"]
    expected = None
    for number in range(last, len(tried) + 1):
        bad = sum(end in counts for _, end in tried[number - last : number])
        if bad >= share * last or math.isclose(bad, share * last):
            expected = tried[number - 1][0]
            break
    found = tripped(Breaker(last=last, share=share, counts=counts), ends)
    assert (found and found[0]) == expected


@pytest.mark.slow
@given(st.lists(st.sampled_from(["answered", "abstained", "deferred"]), max_size=40), st.integers(1, 3))
def test_answers_right_or_wrong_never_trip_it(ends, last):
    assert tripped(Breaker(last=last, share=0.01, counts=("failed", "truncated")), ends) is None


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"last": 0}, "last"),
        ({"last": -3}, "last"),
        ({"share": 0.0}, "share"),
        ({"share": 1.01}, "share"),
        ({"share": float("nan")}, "share"),
        ({"counts": ()}, "counts"),
        ({"counts": ("failed", "failed")}, "counts"),
    ],
)
def test_a_breaker_that_could_not_work_is_refused(settings, path):
    with pytest.raises(ConfigError) as caught:
        Breaker(**settings)
    assert caught.value.path == path


@pytest.mark.parametrize("reserve", [0.0, -0.1, 1.0, 2.0, float("nan")])
def test_a_reserve_is_a_share(reserve):
    with pytest.raises(ConfigError, match="between 0 and 1") as caught:
        Budget(run={"tokens": 5}, reserve=reserve, fallback="single")
    assert caught.value.path == "reserve"


@pytest.mark.parametrize(
    ("settings", "path", "told"),
    [
        ({"reserve": 0.1, "run": {"tokens": 5}}, "reserve", "budget.fallback=single"),
        ({"fallback": "single", "run": {"tokens": 5}}, "fallback", "budget.reserve=0.1"),
        ({"fallback": "single", "reserve": 0.1}, "reserve", "budget.run.tokens"),
        ({"fallback": "single", "reserve": 0.1, "problem": {"tokens": 5}}, "reserve", "budget.run.tokens"),
    ],
)
def test_reserve_and_fallback_belong_together_and_to_a_run(settings, path, told):
    with pytest.raises(ConfigError) as caught:
        Budget(**settings)
    assert caught.value.path == path
    assert told in str(caught.value)


def test_a_breaker_alone_is_a_budget_and_what_is_not_set_is_not_described():
    assert Budget(breaker=Breaker())
    assert Budget().described() == {"problem": {}, "run": {}}
    told = Budget(run={"tokens": 5}, reserve=0.1, fallback="single", breaker=Breaker(last=2)).described()
    assert told["breaker"] == {"last": 2, "share": 1.0, "counts": ("failed",)}
    assert (told["reserve"], told["fallback"]) == (0.1, "single")
