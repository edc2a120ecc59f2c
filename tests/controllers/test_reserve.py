"""Reserve: a sample is kept for every question, and what is above that is spent where it is worth most."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.control import Asking, Controller, ControllerPart
from ttsflow.controllers.prices import Prices
from ttsflow.controllers.reserve import Reserve
from ttsflow.errors import ConfigError, DataError
from ttsflow.strategies.climbing import plan

#: A sample costs 10 at no load and 30 at full load, with nothing above it.
LOADED = Prices(prior=(0.0, 10.0, 0.0, 20.0), beta=0.0)
FLAT = Prices(prior=(0.0, 10.0, 0.0, 0.0), beta=0.0)


def opened(problems=100, limit=4000.0, **settings):
    controller = Reserve(**{"prices": FLAT, **settings}).open("tokens")
    controller.begin(problems, limit)
    return controller


def asking(samples=1, *, first=False, left=4000.0, ahead=100, load=0.0):
    return Asking(samples, first, left, 4000.0, ahead, load)


def test_it_is_what_it_says_it_is():
    assert isinstance(Reserve(), ControllerPart)
    assert isinstance(opened(), Controller)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"rungs": ()}, "rungs"),
        ({"rungs": (3, 1)}, "rungs"),
        ({"rungs": (0, 3)}, "rungs"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"quantile": 0.0}, "quantile"),
        ({"quantile": 1.1}, "quantile"),
        ({"window": 0.5}, "window"),
        ({"window": float("inf")}, "window"),
        ({"loads": (0.5, 1.5)}, "loads"),
        ({"loads": (float("nan"),)}, "loads"),
    ],
)
def test_settings_that_cannot_be_name_their_field(settings, field):
    with pytest.raises(ConfigError) as caught:
        Reserve(**settings)
    assert caught.value.path == field


def test_a_first_sample_is_granted_as_long_as_there_are_funds():
    controller = opened()
    assert controller.offer(asking(first=True, left=10.0)).refused is None
    refused = controller.offer(asking(first=True, left=9.0)).refused
    assert refused == "1 more would cost up to 10 tokens, and 9 are left"


def test_further_samples_leave_a_sample_for_every_question_that_waits():
    controller = opened()
    assert controller.offer(asking(2, left=1020.0, ahead=100)).refused is None
    refused = controller.offer(asking(2, left=1019.0, ahead=100)).refused
    assert refused == (
        "2 more would cost up to 20 tokens; of 1019 that are left 1000 are kept for 100 questions"
    )
    # More than one at the beginning: this question is none of those that wait.
    assert controller.offer(asking(3, first=True, left=1020.0, ahead=100)).refused is None
    assert controller.offer(asking(3, first=True, left=1019.0, ahead=100)).refused


def test_the_reserve_is_at_the_worst_load_that_is_possible_or_was_seen():
    controller = opened(prices=LOADED, loads=(0.0, 0.5))
    assert "of 100 that are left 200 are kept for 10" in controller.offer(asking(left=100, ahead=10)).refused
    controller.offer(asking(first=True, load=1.0))
    assert "300 are kept for 10" in controller.offer(asking(left=100, ahead=10)).refused
    for _ in range(100):
        controller.offer(asking(first=True, load=0.0))
    assert "300 are kept for 10" in controller.offer(asking(left=100, ahead=10)).refused
    usual = opened(prices=LOADED, loads=(0.0, 0.5), quantile=0.5)
    assert "100 are kept for 10" in usual.offer(asking(left=100, ahead=10)).refused


@pytest.mark.slow
@settings(max_examples=50)
@given(st.integers(1, 8), st.booleans(), st.floats(-100, 3000), st.integers(0, 200), st.floats(0, 1))
def test_nothing_is_granted_that_costs_more_than_is_left(samples, first, left, ahead, load):
    controller = opened(prices=LOADED)
    offer = controller.offer(Asking(samples, first, left, 4000.0, max(1, ahead) if first else ahead, load))
    if offer.refused is None:
        assert offer.expected <= left
        if samples > 1 or not first:
            assert left - offer.expected >= (max(1, ahead) - 1 if first else ahead) * 10.0


def test_before_there_is_a_price_everything_is_granted_at_the_rate_of_atest():
    controller = opened(prices=Prices())
    offer = controller.offer(asking(first=True))
    assert (offer.price, offer.refused) == (None, None)
    assert offer.rate == pytest.approx(4 * 0.02 * 100 / 4000)
    controller.observe(1, 0.0, 10.0)
    assert controller.offer(asking(first=True)).price is not None


def rate(left, **settings):
    return opened(**settings).offer(asking(first=True, left=left)).rate


def test_where_samples_agree_more_a_question_takes_less_and_the_rate_is_lower():
    rates = [rate(2000.0, alpha=alpha) for alpha in (0.25, 1.0, 3.0)]
    assert rates == sorted(rates)
    assert rates[0] < 0.9 * rates[2]


def test_the_rate_falls_when_funds_are_plentiful():
    rates = [rate(left) for left in (1000.0, 1500.0, 2000.0, 3000.0, 5000.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[1] > rates[2] > rates[3] > rates[4]
    # All eight for everybody.
    assert rate(1e6) < 1e-5
    # One for nearly everybody: nothing is worth more.
    assert rate(1000.0) > 0.05 / 10


@pytest.mark.parametrize("limit", [600.0, 1000.0, 2000.0])
def test_funds_are_spent_on_all_questions_alike(limit):
    """Questions of the urn, each of which plans at the rate it is told."""
    rungs, rng = (1, 3, 4, 6, 8), random.Random(0)
    controller, left, taken = opened(40, limit), limit, []
    for question in range(40):
        votes, reached, waiting = [], 0, 40 - question
        while reached is not None:
            offer = controller.offer(Asking(1, not votes, left, limit, waiting, 0.0))
            wanted = plan(sorted(Counter(votes).values()), rungs, fixed=0.0, each=10 * offer.rate)[0]
            waiting = 39 - question
            reached = wanted or (None if votes else 1)
            if reached is not None:
                more = reached - len(votes)
                offer = controller.offer(Asking(more, not votes, left, limit, waiting + (not votes), 0.0))
                if offer.refused is not None:
                    break
                for _ in range(more):
                    fresh = rng.random() * (len(votes) + 1) < 1
                    votes.append(len(votes) if fresh else rng.choice(votes))
                left -= 10.0 * more
                controller.observe(more, 0.0, 10.0 * more)
        controller.closed(10.0 * len(votes))
        taken.append(len(votes))
    assert min(taken) >= 1
    assert 0 <= left < 0.1 * limit
    early, late = sum(taken[:20]), sum(taken[20:])
    assert late == pytest.approx(early, rel=0.5)


def test_what_questions_cost_above_what_was_foreseen_raises_the_rate():
    calm, dear = opened(), opened()
    for controller, spent in ((calm, 25.0), (dear, 75.0)):
        for _ in range(60):
            # Which question asks is told by how many wait.
            controller.offer(asking(first=True, left=2500.0, ahead=101))
            controller.closed(spent)
            controller.offer(asking(first=True, left=2500.0, ahead=100))
            controller.closed(spent)
    assert dear.state()["factor"] > 1.5
    assert calm.state()["factor"] == pytest.approx(1.0, abs=0.2)
    assert dear.state()["rate"] > calm.state()["rate"]


def test_a_question_that_was_deferred_says_nothing_of_what_questions_cost():
    controller = opened()
    controller.offer(asking(first=True, left=5.0))
    controller.closed(0.0)
    assert controller.state()["factor"] == 1.0


def test_rungs_above_n_are_not_foreseen():
    assert opened(n=2, rungs=(1, 3, 4)).offer(asking(first=True, left=1e6)).rate < 1e-5
    assert opened(n=1, limit=10.0).offer(asking(first=True, left=10.0, ahead=1)).refused is None


def test_what_it_has_learnt_goes_on_in_another_run(tmp_path):
    first = opened(prices=Prices())
    for i in range(12):
        first.offer(asking(first=True, load=i % 3 / 3))
        first.observe(1 + i % 4, i % 3 / 3, 10.0 + i)
        first.closed(12.0)
    path = tmp_path / "learnt.json"
    path.write_text(json.dumps(first.state()))
    second = Reserve(prices=Prices(start=str(path))).open("tokens")
    second.begin(100, 4000.0)
    assert second.state()["prices"] == first.state()["prices"]
    ours, theirs = (one.offer(asking(2, load=0.5)) for one in (first, second))
    assert (theirs.price, theirs.margin) == (ours.price, ours.margin)


def test_it_learns_how_far_samples_agree_and_tells_ladders():
    controller = opened()
    assert controller.offer(asking(first=True)).alpha == 1.0
    for _ in range(200):
        controller.agreed(0, 1, 1)
        controller.agreed(1, 3, 0)
    assert controller.offer(asking(2)).alpha < 0.1
    fixed = opened(alpha=2.0)
    fixed.agreed(0, 8, 1)
    assert fixed.offer(asking(first=True)).alpha == 2.0


def test_how_far_samples_agree_goes_on_in_another_run(tmp_path):
    first = opened(prices=Prices())
    for _ in range(30):
        first.observe(4, 0.0, 40.0)
        first.agreed(0, 4, 1)
    path = tmp_path / "learnt.json"
    path.write_text(json.dumps(first.state()))
    second = Reserve(prices=Prices(start=str(path))).open("tokens")
    assert second.state()["agreement"] == first.state()["agreement"]
    # A file of a run that did not learn it, and one that is damaged.
    path.write_text(json.dumps({key: value for key, value in first.state().items() if key != "agreement"}))
    assert Reserve(prices=Prices(start=str(path))).open("tokens").state()["agreement"]["alpha"] == 1.0
    path.write_text(json.dumps(dict(first.state()) | {"agreement": {"fresh": -1}}))
    with pytest.raises(DataError, match="how far samples agree"):
        Reserve(prices=Prices(start=str(path))).open("tokens")


def test_what_touches_the_reserve_is_granted_later_and_what_is_not_there_never():
    controller = opened()
    assert controller.offer(asking(2, left=1019.0)).later
    assert not controller.offer(asking(2, left=19.0)).later
    assert not controller.offer(asking(2, left=1020.0)).later
    assert not opened(wait=False).offer(asking(2, left=1019.0)).later


def test_the_rate_leaves_their_part_to_those_that_wait():
    alone, beside = opened(), opened()
    one = alone.offer(Asking(1, True, 1000.0, 4000.0, 40, 0.0)).rate
    two = beside.offer(Asking(1, True, 1000.0, 4000.0, 40, 0.0, held=30)).rate
    assert two > one
