"""Fits of cost and accuracy: what is there is found, and nothing that cannot be."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.costs.fitting import Cell, fit_accuracy, fit_cost

RUNGS = (1, 3, 4, 6, 8)
LOADS = (0.0, 0.25, 0.55, 0.85)


def cells(cost, rungs=RUNGS, loads=LOADS):
    a, b, c, d = cost
    return [Cell(n, u, a + b * n + c * u + d * n * u) for n in rungs for u in loads]


@pytest.mark.slow
@settings(max_examples=50)
@given(st.tuples(*[st.floats(0, 100)] * 4).filter(lambda cost: cost[0] + cost[1] > 1))
def test_a_line_is_found_exactly(cost):
    found, error = fit_cost(cells(cost))
    assert error < 1e-6
    for cell in cells(cost):
        again = cells(found, (cell.samples,), (cell.load,))[0].cost
        assert again == pytest.approx(cell.cost, rel=1e-5)


def test_no_coefficient_is_below_zero_and_none_is_better():
    bent = [Cell(n, 0.0, n**1.5) for n in RUNGS]
    (a, b, c, d), error = fit_cost(bent)
    assert (a, c, d) == (0.0, 0.0, 0.0), "a bend upwards would ask for a fixed price below 0"
    slopes = np.linspace(0.5 * b, 1.5 * b, 101)
    errors = [np.sqrt(np.mean([(slope * n / n**1.5 - 1) ** 2 for n in RUNGS])) for slope in slopes]
    assert error == pytest.approx(min(errors))


def test_what_one_load_or_one_rung_cannot_tell_is_left_out():
    assert fit_cost(cells((10, 20, 30, 40), loads=(0.5,)))[0][2:] == (0.0, 0.0)
    a, b, c, d = fit_cost(cells((10, 20, 30, 40), rungs=(4,)))[0]
    assert (a, c) == (0.0, 0.0)
    assert (4 * b, 4 * d) == pytest.approx((90, 190))


def test_a_fit_needs_costs():
    for wrong in ([], [Cell(1, 0.0, 0.0)], [Cell(1, 0.0, -1.0)]):
        with pytest.raises(ValueError, match="costs above 0"):
            fit_cost(wrong)


def test_an_accuracy_that_comes_near_a_limit_is_smoothed():
    noise = (0.004, -0.006, 0.005, -0.004, 0.003)
    exact = [0.8 - 0.2 * 0.6 ** (n - 1) for n in RUNGS]
    found = fit_accuracy(RUNGS, [share + off for share, off in zip(exact, noise, strict=True)])
    assert found == pytest.approx(exact, abs=0.006)
    gains = [
        (high - low) / (m - n) for (n, low), (m, high) in itertools.pairwise(zip(RUNGS, found, strict=True))
    ]
    assert gains == sorted(gains, reverse=True)


def test_an_accuracy_that_falls_is_level():
    assert fit_accuracy((1, 3), (0.6, 0.5)) == pytest.approx((0.55, 0.55))
    level = fit_accuracy(RUNGS, (0.3, 0.29, 0.28, 0.26, 0.25))
    assert level == pytest.approx((0.276,) * 5, abs=0.002)


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_accuracies_never_fall_and_stay_shares(measured):
    found = fit_accuracy(RUNGS, measured)
    assert list(found) == sorted(found)
    assert all(0 <= share <= 1 for share in found)
