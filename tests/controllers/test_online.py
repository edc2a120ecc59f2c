"""ATEST-Online: a question is admitted at its share, and goes on at one rate in stability."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.control import Asking, Controller, ControllerPart
from ttsflow.controllers.online import Online
from ttsflow.controllers.prices import Prices
from ttsflow.errors import ConfigError

#: A sample costs 10, with beta=0 nothing above it.
TEN = Prices(prior=(0.0, 10.0, 0.0, 0.0), beta=0.0)


def opened(problems=10, limit=100.0, **settings):
    controller = Online(**{"prices": TEN, **settings}).open("tokens")
    controller.begin(problems, limit)
    return controller


def asking(samples=1, *, first=True, left=100.0, ahead=10, load=0.0):
    return Asking(samples, first, left, 100.0, ahead, load)


def test_it_is_what_it_says_it_is():
    assert isinstance(Online(), ControllerPart)
    assert isinstance(opened(), Controller)


@pytest.mark.parametrize("gain", [0.0, 1.0, -1.0, float("nan")])
def test_a_gain_that_is_no_stability_is_refused(gain):
    with pytest.raises(ConfigError, match="between 0 and 1") as caught:
        Online(gain=gain)
    assert caught.value.path == "gain"


def test_a_first_sample_is_granted_up_to_an_equal_share_of_what_is_left():
    controller = opened()
    assert controller.offer(asking(left=100.0, ahead=10)).refused is None
    refused = controller.offer(asking(left=99.0, ahead=10)).refused
    assert refused == "a sample would cost up to 10 tokens, and the share of a question is 9.9"
    assert controller.offer(asking(left=11.0, ahead=1)).refused is None


def test_the_margin_counts_as_well():
    controller = opened(prices=Prices(prior=(0.0, 10.0, 0.0, 0.0), beta=2.0))
    offer = controller.offer(asking(left=1000.0, ahead=1))
    assert offer.margin >= 0.2 * offer.price
    assert offer.expected == offer.price + offer.margin
    assert controller.offer(asking(left=offer.expected - 0.1, ahead=1)).refused
    assert controller.offer(asking(left=offer.expected + 0.1, ahead=1)).refused is None


def test_with_carry_what_others_have_left_is_shared_and_without_it_is_not():
    carrying, plain = opened(), opened(carry=False)
    for left, ahead, carried in ((100.0, 10, True), (50.0, 2, True), (45.0, 9, False)):
        assert (carrying.offer(asking(left=left, ahead=ahead)).refused is None) == carried
        assert plain.offer(asking(left=left, ahead=ahead)).refused is None
    poor = opened(limit=90.0, carry=False)
    assert "share of a question is 9" in poor.offer(asking(left=90.0, ahead=1)).refused


def test_further_samples_are_granted_as_long_as_there_are_funds():
    controller = opened()
    assert controller.offer(asking(2, first=False, left=20.0)).refused is None
    refused = controller.offer(asking(2, first=False, left=19.0)).refused
    assert refused == "2 more would cost up to 20 tokens, and 19 are left"
    assert controller.offer(asking(2, first=False, left=-5.0)).refused.endswith("and 0 are left")


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.builds(
        asking,
        st.integers(1, 8),
        first=st.booleans(),
        left=st.floats(-100, 5000),
        ahead=st.integers(1, 1000),
        load=st.floats(0, 1),
    ),
    st.lists(st.tuples(st.integers(1, 8), st.floats(0, 1), st.floats(0.1, 1e4)), max_size=6),
)
def test_nothing_is_granted_that_costs_more_than_is_left(asked, seen):
    controller = opened(prices=Prices())
    for one in seen:
        controller.observe(*one)
    offer = controller.offer(asked)
    assert (offer.price is None) == (not seen)
    if offer.refused is None and seen:
        assert offer.expected <= asked.left
        assert not asked.first or offer.expected <= asked.left / asked.ahead


def test_a_question_is_never_deferred_before_there_is_a_price():
    controller = opened(prices=Prices())
    offer = controller.offer(asking(left=1e-9, ahead=1000))
    assert (offer.price, offer.refused) == (None, None)
    controller.observe(1, 0.0, 7.0)
    assert controller.offer(asking(left=1e-9, ahead=1000)).refused


@settings(max_examples=30)
@given(st.floats(1e-3, 0.9), st.integers(1, 5000), st.floats(1.0, 1e9))
def test_the_rate_is_the_gain_for_a_sample_when_four_are_a_share(gain, problems, limit):
    controller = opened(problems, limit, gain=gain)
    assert controller.offer(asking(left=limit)).rate == pytest.approx(4 * gain * problems / limit)
    assert controller.offer(asking(3, first=False)).rate == pytest.approx(4 * gain * problems / limit)


def test_a_run_without_problems_begins():
    opened(problems=0)


def test_what_it_has_learnt_goes_on_in_another_run(tmp_path):
    first = opened(prices=Prices())
    for i in range(12):
        first.observe(1 + i % 4, i % 3 / 3, 10.0 + i)
    path = tmp_path / "learnt.json"
    path.write_text(json.dumps(first.state()))
    second = opened(prices=Prices(start=str(path)))
    assert second.state() == first.state()
    for load in (0.0, 0.5):
        assert second.offer(asking(2, load=load)) == first.offer(asking(2, load=load))
