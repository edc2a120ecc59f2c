"""Calibrated: how many samples a question gets follows from its profile and what is left."""

import dataclasses
import json
import math
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.control import Asking, Controller, ControllerPart
from ttsflow.controllers.calibrated import Calibrated
from ttsflow.controllers.prices import Prices, open_prices
from ttsflow.costs.calibrated import Calibration
from ttsflow.errors import ConfigError, DataError
from ttsflow.strategies.rungs import rungs_to

RUNGS = (1, 3, 4, 6, 8)

#: A sample costs 10 at no load and 30 at full load.
PROFILE = Calibration(
    model="demo",
    task="sums",
    unit="tokens",
    rungs=RUNGS,
    loads=(0.0,),
    cost=(0.0, 10.0, 0.0, 20.0),
    error=0.0,
    accuracy=(0.5, 0.7, 0.75, 0.8, 0.82),
    measured=(0.5, 0.7, 0.75, 0.8, 0.82),
    questions=20,
    samples=0,
    seconds=0.0,
)


def opened(**changes):
    part = Calibrated(**{"beta": 0.0, **changes.pop("part", {})})
    return part.with_profile(dataclasses.replace(PROFILE, **changes))


def asking(samples=1, *, first=True, left=4000.0, ahead=100, load=0.0):
    return Asking(samples, first, left, 4000.0, ahead, load)


def granted(controller, **asked):
    """Return how many samples a question gets, 0 for none."""
    offers = {n: controller.offer(asking(n, **asked)) for n in (8, 6, 4, 3, 1)}
    return max((n for n, offer in offers.items() if offer.refused is None), default=0)


def played(controller, funds, questions, load=lambda place: 0.0):
    """Return the samples of every question of a run, whose costs are as the profile says."""
    drawn, left = [], funds
    for place in range(questions):
        u = load(place)
        count = granted(controller, left=left, ahead=questions - place, load=u)
        if count:
            cost = PROFILE.price(count, u)
            left -= cost
            controller.observe(count, u, cost)
        drawn.append(count)
    assert left >= -1e-6
    return drawn


def test_it_is_what_it_says_it_is():
    assert isinstance(Calibrated(), ControllerPart)
    assert isinstance(opened(), Controller)


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"n": 0}, "n"), ({"rungs": ()}, "rungs"), ({"rungs": (4, 3)}, "rungs"), ({"beta": -1}, "beta")],
)
def test_settings_that_cannot_be_name_their_field(settings, field):
    with pytest.raises(ConfigError) as caught:
        Calibrated(**settings)
    assert caught.value.path == field


@pytest.mark.parametrize(("share", "samples"), [(10, 1), (30, 3), (40, 4), (80, 8), (1000, 8)])
def test_a_question_gets_what_its_share_of_the_funds_buys(share, samples):
    assert set(played(opened(), 100 * share, 100)) == {samples}


def test_between_two_rungs_questions_take_turns():
    drawn = played(opened(), 100 * 50, 100)
    assert set(drawn) == {4, 6}
    assert sum(drawn) == pytest.approx(500, abs=6)
    assert fmean(drawn[:20]) == pytest.approx(5, abs=0.3)


def test_samples_are_bought_where_they_are_cheap():
    def cycling(place):
        return (0.0, 1.0)[place // 10 % 2]

    drawn = played(opened(loads=(0.0, 1.0)), 200 * 60, 200, cycling)
    low = [count for place, count in enumerate(drawn) if not cycling(place)]
    high = [count for place, count in enumerate(drawn) if cycling(place)]
    assert 0 not in drawn
    assert fmean(low) > fmean(high) + 1


def test_a_lowest_rung_is_kept_for_all_that_wait_at_the_worst_load():
    # One for each of the others at the worst load, 30, leaves less than three cost now.
    controller = opened(loads=(1.0,))
    assert granted(controller, left=2999.0, ahead=100) == 1
    assert granted(opened(loads=(0.0,)), left=3000.0, ahead=100) == 3


def test_a_question_is_deferred_when_there_are_no_funds_for_a_sample():
    assert granted(opened(), left=9.0, ahead=1) == 0
    refused = opened().offer(asking(1, left=9.0, ahead=1)).refused
    assert refused == "1 more would cost up to 10 tokens, and 9 are left"


def test_what_is_not_granted_says_why():
    controller = opened()
    refused = controller.offer(asking(8, left=3000.0)).refused
    assert refused == "3 samples are what a question's share of the funds buys at this load"
    assert controller.offer(asking(3, left=3000.0)).refused is None


def test_an_accuracy_that_does_not_rise_buys_nothing():
    flat = opened(accuracy=(0.6,) * 5, measured=(0.6,) * 5)
    assert set(played(flat, 1e6, 10)) == {1}


@pytest.mark.parametrize(("correct", "samples"), [(True, 3), (False, 6)])
def test_prices_are_corrected_if_that_is_wanted(correct, samples):
    controller = opened(part={"correct": correct})
    for _ in range(50):
        controller.observe(4, 0.0, 80.0)
        controller.observe(1, 0.0, 20.0)
    assert granted(controller, left=6000.0, ahead=100) == samples


@pytest.mark.slow
@settings(max_examples=50)
@given(st.floats(1, 200), st.integers(1, 60), st.sampled_from([(0.0,), (0.0, 0.5), (1.0,)]))
def test_funds_are_never_exceeded_and_none_waits_in_vain(share, questions, loads):
    def load(place):
        return loads[place % len(loads)]

    drawn = played(opened(loads=loads), share * questions, questions, load)
    if share >= PROFILE.price(1, max(loads)) * 1.001:
        assert 0 not in drawn


def test_its_state_can_begin_another_controller(tmp_path):
    controller = opened()
    controller.observe(4, 0.0, 44.0)
    path = tmp_path / "learnt.json"
    path.write_text(json.dumps(controller.state(), allow_nan=False))
    assert open_prices(Prices(start=str(path)), "tokens").seen == 1


def test_without_a_profile_it_says_how_to_make_one():
    with pytest.raises(ConfigError, match="ttsflow calibrate") as caught:
        Calibrated().open("tokens")
    assert caught.value.path == "profile"


def test_a_profile_is_read_with_its_unit_and_rungs(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(PROFILE.dumped())
    assert isinstance(Calibrated(profile=str(path)).open("tokens"), Controller)
    with pytest.raises(ConfigError, match="costs in tokens, and this run counts joules"):
        Calibrated(profile=str(path)).open("joules")
    with pytest.raises(ConfigError, match="no accuracy of 5 samples"):
        Calibrated(profile=str(path), rungs=(1, 5), n=8).open("tokens")
    with pytest.raises(DataError, match="no such file"):
        Calibrated(profile=str(tmp_path / "none.json")).open("tokens")


def test_others_begin_with_the_costs_of_a_profile(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(PROFILE.dumped())
    prices = open_prices(Prices(start=str(path), beta=1.0, forgetting=0.5), "tokens")
    assert prices.estimate(4, 0.5).mean == pytest.approx(PROFILE.price(4, 0.5))
    assert prices.state()["model"]["forgetting"] == 0.5
    with pytest.raises(ConfigError, match="costs in tokens, and this run counts seconds") as caught:
        open_prices(Prices(start=str(path)), "seconds")
    assert caught.value.path == "prices.start"


def test_rungs_end_at_n():
    assert rungs_to(RUNGS, 5) == (1, 3, 4, 5)
    assert rungs_to(RUNGS, 16) == (*RUNGS, 16)
    assert not math.isnan(opened().offer(asking(4)).price)
