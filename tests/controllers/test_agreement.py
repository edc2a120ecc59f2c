"""The concentration of the urn, learnt from samples that agree or do not."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.controllers.agreement import Agreement

#: Twelve values per decade: neighbours differ by this factor.
STEP = 10 ** (1 / 12)


def heard(*told):
    agreement = Agreement()
    for drawn, more, fresh in told:
        agreement.observe(drawn, more, fresh)
    return agreement


def solution(told):
    """The alpha at which as many new answers are expected as there were, by bisection over all draws."""
    draws = [1] * 4 + [i for drawn, more, _ in told for i in range(max(1, drawn), drawn + more)]
    fresh = 2 + sum(new - (drawn == 0) for drawn, _, new in told)
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        if math.fsum(middle / (middle + i) for i in draws) < fresh:
            low = middle
        else:
            high = middle
    return low


def test_before_anything_was_seen_it_is_one():
    assert Agreement().alpha == 1.0


def test_a_first_sample_tells_nothing():
    assert heard(*[(0, 1, 1)] * 50).alpha == 1.0


@pytest.mark.parametrize(
    "told",
    [
        [(0, 8, 1)] * 3 + [(0, 8, 4)],
        [(0, 1, 1), (1, 2, 1), (3, 1, 0)] * 10,
        [(0, 2, 2)] * 9 + [(0, 2, 1)],
        [(0, 4, 2)] * 40,
    ],
)
def test_it_solves_the_equation_to_its_grid(told):
    assert heard(*told).alpha == pytest.approx(solution(told), rel=STEP**0.5 - 1 + 0.01)


@pytest.mark.parametrize(("told", "end"), [((0, 16, 1), 10**-1.5), ((0, 16, 16), 10**1.5)])
def test_it_stays_within_its_ends(told, end):
    assert heard(*[told] * 5000).alpha == pytest.approx(end, rel=0.01)


def test_in_parts_or_at_once_is_the_same():
    parts = heard((0, 1, 1), (1, 2, 1), (3, 3, 2))
    assert parts.state() == heard((0, 6, 4)).state()


@pytest.mark.parametrize("alpha", [0.2, 0.6, 2.0])
def test_that_questions_stop_when_samples_agree_does_not_move_it(alpha):
    rng, agreement = random.Random(0), Agreement()
    for _ in range(4000):
        votes = []
        # Stops at the first pair that agrees: what is seen last is always agreement, or nothing was.
        while len(votes) < 8 and (len(votes) < 2 or len({*votes}) == len(votes)):
            fresh = rng.random() * (len(votes) + alpha) < alpha
            agreement.observe(len(votes), 1, int(fresh))
            votes.append(len(votes) if fresh else rng.choice(votes))
    assert agreement.alpha == pytest.approx(alpha, rel=STEP - 0.99)


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 8), st.integers(1, 8)), max_size=20))
def test_what_was_saved_goes_on_as_it_was(told):
    one = heard(*[(drawn, more, min(fresh, more)) for drawn, more, fresh in told])
    two = Agreement.from_state(json.loads(json.dumps(one.state())))
    assert two.alpha == one.alpha
    for agreement in (one, two):
        agreement.observe(2, 3, 1)
    assert two.state() == one.state()


@pytest.mark.parametrize("numbers", [(-1, 1, 0), (0, 0, 0), (0, 1, 0), (2, 1, 2), (1, 1, -1)])
def test_numbers_that_cannot_be_are_refused_and_change_nothing(numbers):
    agreement = Agreement()
    with pytest.raises(ValueError, match="cannot bring"):
        agreement.observe(*numbers)
    assert agreement.state() == Agreement().state()


@pytest.mark.parametrize(
    "state",
    [
        None,
        [],
        {},
        {"fresh": 1.0},
        {"fresh": "x", "draws": [[1, 2]]},
        {"fresh": 10**400, "draws": [[1, 2]]},
        {"fresh": 1.0, "draws": [[math.inf, 2]]},
        {"fresh": 3.0, "draws": [[1, 2]]},
        {"fresh": -1.0, "draws": [[1, 2]]},
        {"fresh": float("nan"), "draws": [[1, 2]]},
        {"fresh": 1.0, "draws": []},
        {"fresh": 1.0, "draws": [[0, 2]]},
        {"fresh": 1.0, "draws": [[1, -2], [2, 9]]},
        {"fresh": 1.0, "draws": [[1, float("inf")]]},
    ],
)
def test_what_is_no_state_is_refused(state):
    with pytest.raises(ValueError, match="no saved state of how far samples agree"):
        Agreement.from_state(state)
