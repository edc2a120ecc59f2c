"""Weights and draws: each particle comes in proportion to its weight on average, in every scheme."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ttsflow_particles.weights import draw, effective, factor, shares

HOWS = ["multinomial", "stratified", "systematic"]
WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(lambda found: sum(found) > 1e-3)


class Fixed:
    """Gives the same number whenever it is asked."""

    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
@given(WEIGHTS, st.integers(1, 12), st.integers(0, 99))
def test_as_many_as_asked_for_are_drawn_and_none_without_weight(how, weights, count, seed):
    weights = shares([math.log(w) if w else -math.inf for w in weights])
    places = draw(weights, count, how, random.Random(seed))
    assert len(places) == count
    assert places == sorted(places)
    assert all(weights[place] > 0 for place in places)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("weights", [[0.5, 0.3, 0.2], [0.05, 0.9, 0.0, 0.05], [0.25] * 4])
def test_each_comes_its_share_of_the_draws_on_average(how, weights):
    rng, times, count = random.Random(7), 4000, 5
    found = Counter(place for _ in range(times) for place in draw(weights, count, how, rng))
    for place, weight in enumerate(weights):
        # Of the three schemes independent draws vary most.
        error = math.sqrt(weight * (1 - weight) / (times * count))
        assert abs(found[place] / (times * count) - weight) <= 4 * error


@pytest.mark.slow
@given(WEIGHTS, st.integers(1, 8))
def test_over_all_shifts_the_systematic_draw_is_exact(weights, count):
    weights = shares([math.log(w) if w else -math.inf for w in weights])
    shifts = 400
    found = Counter(
        place
        for number in range(shifts)
        for place in draw(weights, count, "systematic", Fixed((number + 0.5) / shifts))
    )
    for place, weight in enumerate(weights):
        # The share of shifts under which it is drawn once more, up to the two ends of an interval.
        assert abs(found[place] / shifts - weight * count) <= 2 / shifts + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stratified", "systematic"])
@given(WEIGHTS, st.integers(1, 12), st.integers(0, 99))
def test_strata_keep_the_number_of_copies_near_its_share(how, weights, count, seed):
    weights = shares([math.log(w) if w else -math.inf for w in weights])
    found = Counter(draw(weights, count, how, random.Random(seed)))
    most = 1 if how == "systematic" else 2
    assert all(abs(found[place] - weight * count) < most + 1e-6 for place, weight in enumerate(weights))


def test_factors_by_hand():
    assert factor(0.75, None, "logit", 1.0) == pytest.approx(math.log(3))
    assert factor(0.75, 0.5, "logit", 2.0) == pytest.approx(math.log(3) / 2)
    assert factor(0.75, 0.5, "softmax", 0.5) == 1.5
    assert factor(0.75, 0.5, "likelihood", 1.0) == pytest.approx(math.log(0.75))
    assert factor(0.75, 0.5, "ratio", 1.0) == pytest.approx(math.log(1.5))
    assert factor(0.75, None, "ratio", 1.0) == pytest.approx(math.log(0.75))


@pytest.mark.slow
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), st.floats(0.1, 3))
def test_ratios_multiply_to_the_last_score(scores, temperature):
    steps = [factor(s, b, "ratio", temperature) for s, b in zip(scores, [None, *scores], strict=False)]
    assert math.fsum(steps) == pytest.approx(math.log(scores[-1]) / temperature)


@pytest.mark.parametrize("weigh", ["logit", "likelihood", "ratio"])
def test_the_ends_stay_finite_and_what_is_no_probability_is_refused(weigh):
    assert math.isfinite(factor(0.0, 1.0, weigh, 1.0))
    assert math.isfinite(factor(1.0, 0.0, weigh, 1.0))
    with pytest.raises(ValueError, match="is no probability: set `weigh: softmax`"):
        factor(-2.0, None, weigh, 1.0)
    assert factor(-2.0, None, "softmax", 1.0) == -2.0


def test_shares_and_effective_sample_size():
    assert shares([0.0, math.log(3)]) == pytest.approx([0.25, 0.75])
    assert shares([-math.inf, -math.inf]) == shares([]) == []
    assert shares([-1e9, -1e9 - math.log(3)]) == pytest.approx([0.75, 0.25])
    assert effective([0.25] * 4) == pytest.approx(4)
    assert effective([1.0, 0.0]) == 1
