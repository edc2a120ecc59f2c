"""Confidence of tokens and trajectories, against brute force."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.confidence import group_means, token_confidence, trace_confidence

quick = settings(deadline=None, max_examples=50)
CONFIDENCES = st.lists(st.floats(0, 20), max_size=40)


def brute(confidences, group):
    """Return the mean of every window, one by one."""
    if len(confidences) < group:
        return [sum(confidences) / len(confidences)] if confidences else []
    return [sum(confidences[i : i + group]) / group for i in range(len(confidences) - group + 1)]


@pytest.mark.slow
@quick
@given(CONFIDENCES, st.integers(1, 50))
def test_windows_are_those_of_brute_force(confidences, group):
    assert group_means(confidences, group) == pytest.approx(brute(confidences, group), abs=1e-9)


@quick
@given(CONFIDENCES.filter(len), st.integers(1, 50))
def test_measures_are_those_of_brute_force(confidences, group):
    means = sorted(brute(confidences, group))
    weakest = means[: max(1, len(means) // 10)]
    expected = {
        "mean": sum(confidences) / len(confidences),
        "lowest_group": means[0],
        "bottom_groups": sum(weakest) / len(weakest),
        "tail": sum(confidences[-group:]) / len(confidences[-group:]),
        "self_certainty": sum(confidences) / len(confidences),
    }
    for measure, value in expected.items():
        assert trace_confidence(confidences, measure, group) == pytest.approx(value, abs=1e-9)


def test_long_traces_lose_no_precision():
    confidences = [0.1 * (i % 97) for i in range(100_000)]
    means = group_means(confidences, 2048)
    assert means[-1] == pytest.approx(math.fsum(confidences[-2048:]) / 2048, abs=1e-9)


@pytest.mark.parametrize("measure", ["mean", "lowest_group", "bottom_groups", "tail", "self_certainty"])
def test_nothing_has_no_confidence(measure):
    assert trace_confidence([], measure, 4) is None


def test_a_weaker_token_lowers_the_lowest_group_and_a_short_trace_is_one_group():
    assert trace_confidence([3.0, 1.0, 3.0], "lowest_group", 1) == 1.0
    assert trace_confidence([3.0, 1.0, 3.0], "lowest_group", 4) == pytest.approx(7 / 3)


def test_the_confidence_of_a_token_is_minus_the_mean_of_its_highest_log_probabilities():
    assert token_confidence({1: -1.0, 2: -3.0, 3: -8.0}, 2) == 2.0
    assert token_confidence({1: -1.0, 2: -3.0}, 20) == 2.0


def test_the_sampled_token_outside_the_top_is_left_out():
    top = {token: -1.0 - token / 10 for token in range(20)}
    sampled = {999: -30.0}
    assert (
        token_confidence(top | sampled, 20)
        == token_confidence(sampled | top, 20)
        == token_confidence(top, 20)
    )
    assert token_confidence(top | sampled, 21) > token_confidence(top, 20)


def test_impossible_tokens_are_left_out():
    assert token_confidence({1: -1.0, 2: -math.inf}, 20) == 1.0
    assert token_confidence({1: -math.inf}, 20) == token_confidence({}, 20) == 0.0
