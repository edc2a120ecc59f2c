"""Forecasts lie within what was seen and given, grow with the quantile, and forget."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.load.forecast import PRIOR, Forecast
from ttsflow.load.smooth import Smooth

values = st.floats(-1e6, 1e6)
lists = st.lists(values, max_size=40)
quantiles = st.floats(0, 1)


def told(forecast, seen):
    for value in seen:
        forecast.observe(value)
    return forecast


@pytest.mark.slow
@given(quantiles, st.floats(1, 1000), lists, st.lists(values, min_size=1, max_size=8))
def test_within_what_was_seen_and_given(quantile, window, seen, prior):
    ahead = told(Forecast(quantile, window, prior), seen).ahead()
    assert ahead in {*seen, *prior}


@pytest.mark.slow
@given(st.lists(quantiles, min_size=2, max_size=6), lists)
def test_no_lower_for_a_higher_quantile(asked, seen):
    ahead = [told(Forecast(quantile), seen).ahead() for quantile in sorted(asked)]
    assert ahead == sorted(ahead)


@pytest.mark.slow
@given(quantiles, st.floats(1, 30), lists, lists, st.lists(values, min_size=1, max_size=3))
def test_state_goes_through_json_and_back(quantile, window, seen, more, prior):
    one = told(Forecast(quantile, window, prior), seen)
    other = Forecast.from_state(json.loads(json.dumps(one.state())))
    assert other.state() == one.state()
    assert told(other, more).ahead() == told(one, more).ahead()


def test_the_weighted_quantile_by_hand():
    forecast = told(Forecast(0.5, 2, ()), [3.0, 1.0, 2.0])
    # Weights e^-1, e^-1/2, 1: of 1.974 in all, 1 has .607 and 2 reaches 1.607, above one half.
    assert forecast.ahead() == 2.0
    assert told(Forecast(0, 2, ()), [3.0, 1.0, 2.0]).ahead() == 1.0
    assert told(Forecast(1, 2, ()), [3.0, 1.0, 2.0]).ahead() == 3.0


def test_without_anything_seen_it_is_the_quantile_of_the_prior():
    assert Forecast().ahead() == max(PRIOR)
    assert Forecast(0.5).ahead() == 0.25
    with pytest.raises(ConfigError, match="nothing was seen"):
        Forecast(prior=()).ahead()


def test_it_forgets_the_prior_and_old_values():
    forecast = told(Forecast(1.0, 10, (0.9,)), [0.8] + [0.1] * 50)
    assert forecast.ahead() == 0.9, "all weigh something"
    told(forecast, [0.1] * 50)
    assert forecast.ahead() == 0.1
    told(forecast, [0.1] * 5000)
    assert len(forecast.state()["seen"]) == math.ceil(10 * math.log(1e4)), "memory is bounded"


def test_a_low_window_follows_a_jump_sooner():
    short, long = (told(Forecast(0.5, window, ()), [0.0] * 20 + [1.0] * 5).ahead() for window in (3, 100))
    assert (short, long) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"quantile": 1.1}, "quantile"),
        ({"quantile": math.nan}, "quantile"),
        ({"window": 0.5}, "window"),
        ({"prior": (math.inf,)}, "prior"),
    ],
)
def test_bad_settings_are_refused(changes, place):
    with pytest.raises(ConfigError) as caught:
        Forecast(**changes)
    assert caught.value.path == place


def test_bad_values_and_states_are_refused():
    forecast = Forecast()
    with pytest.raises(ConfigError, match="finite"):
        forecast.observe(math.nan)
    for state in ({}, {**forecast.state(), "seen": ["x"]}, {**forecast.state(), "seen": [1.0]}):
        with pytest.raises(ConfigError):
            Forecast.from_state(state)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=20), st.floats(0, 10))
def test_what_is_smoothed_stays_a_share_whatever_comes(stretches, constant):
    smooth = Smooth(constant)
    for value, seconds in stretches:
        smooth.add(value, seconds)
        assert 0 <= smooth.value <= 1


def test_smoothing_is_the_same_in_one_stretch_or_many():
    one, many = Smooth(0.5), Smooth(0.5)
    for smooth in (one, many):
        smooth.add(1.0, 1.0)
    one.add(0.25, 0.5)
    for _ in range(10):
        many.add(0.25, 0.05)
    assert one.value == pytest.approx(many.value) == pytest.approx(0.25 + 0.75 / math.e)
