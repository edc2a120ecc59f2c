"""Adaptive-Consistency and ESC: when the votes so far settle who leads."""

import math
import random
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.strategies.stability import Consistent, WindowAgreed, chance_of_lead

quick = settings(deadline=None, max_examples=50)


def votes(kit, *counts, others=()):
    """Return a state in which the first answer has ``counts[0]`` votes, the second the next, and so on."""
    answers = [chr(ord("A") + place) for place, count in enumerate(counts) for _ in range(count)]
    return kit.state(*(kit.cand(i, a, length=1) for i, a in enumerate(answers)), *others)


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        (3, 0, 0.9375),
        (4, 0, 0.96875),
        (4, 1, 0.890625),
        (5, 1, 0.9375),
        (7, 1, 0.98046875),
        (0, 0, 0.5),
        (9, 9, 0.5),
    ],
)
def test_tabled_values_are_exact(first, second, value):
    assert chance_of_lead(first, second) == Fraction(value)


@quick
@given(st.integers(0, 12), st.integers(0, 12))
def test_the_chance_is_the_sum_over_all_outcomes_and_the_two_chances_add_up_to_one(first, second):
    draws = first + second + 1
    brute = sum(math.comb(draws, i) for i in range(first + 1)) / 2**draws
    assert float(chance_of_lead(first, second)) == brute
    assert chance_of_lead(first, second) + chance_of_lead(second, first) == 1


def test_many_votes_are_settled_at_once():
    started = time.process_time()
    assert float(chance_of_lead(3000, 2000)) == 1.0
    assert time.process_time() - started < 2


@pytest.mark.parametrize("stop", [(4, 0), (6, 1), (8, 2), (9, 3), (11, 4), (12, 5)])
def test_the_votes_at_which_it_stops_at_95_percent(stop, kit):
    first, second = stop
    assert (
        Consistent()(votes(kit, first, second)) == f"beta: {first} against {second} of {first + second} votes"
    )
    for fewer in range(second, first):
        assert Consistent()(votes(kit, fewer, second)) is None


@pytest.mark.parametrize("rule", ["beta", "entropy", "majority"])
@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_tie_settles_nothing(rule, count, kit):
    assert Consistent(rule, threshold=0.01)(votes(kit, count, count)) is None


@pytest.mark.parametrize("rule", ["beta", "entropy", "majority"])
def test_without_votes_it_goes_on(rule, kit):
    nobody = [kit.cand(i) for i in range(9)] + [kit.cand(9, "A", finish="length")]
    assert Consistent(rule, threshold=0.01)(kit.state()) is None
    assert Consistent(rule, threshold=0.01)(kit.state(*nobody)) is None


def test_those_without_an_answer_count_neither_for_nor_against(kit):
    nobody = [kit.cand(20 + i) for i in range(30)]
    assert Consistent()(votes(kit, 4, others=nobody)) == "beta: 4 against 0 of 4 votes"


def test_only_the_two_leaders_matter_for_beta(kit):
    assert Consistent()(votes(kit, 9, 3, 3, 3)) is not None
    assert Consistent()(votes(kit, 8, 3)) is None


@pytest.mark.parametrize(
    ("threshold", "counts", "settled"),
    [
        (0.7, (7, 3), True),
        (0.7, (69, 31), False),
        (0.1, (1,), True),
        (1, (3,), True),
        (1, (30, 1), False),
    ],
)
def test_the_share_of_the_leader(threshold, counts, settled, kit):
    assert (Consistent("majority", threshold)(votes(kit, *counts)) is not None) is settled


def test_entropy_compares_with_the_most_that_so_many_votes_can_have(kit):
    def value(*counts):
        total = sum(counts)
        return 1 + sum(c / total * math.log(c / total) for c in counts) / math.log(total)

    for counts in ((9, 1), (5, 3, 1), (4,), (2, 1)):
        near = value(*counts)
        for threshold, settled in ((near - 1e-6, True), (near + 1e-6, False)):
            if 0 < threshold < 1:
                found = Consistent("entropy", threshold)(votes(kit, *counts))
                assert (found is not None) is settled
    # One vote has no entropy and says nothing; several equal ones settle it.
    assert Consistent("entropy", 0.01)(votes(kit, 1)) is None
    assert Consistent("entropy", 1)(votes(kit, 2)) is not None


def test_a_number_of_votes_may_be_demanded(kit):
    assert Consistent("majority", 0.5, at_least=3)(votes(kit, 2)) is None
    assert Consistent("majority", 0.5, at_least=3)(votes(kit, 3)) is not None


def test_the_threshold_is_the_decimal_that_was_written(kit):
    # The binary number next to 0.9 is a little more than nine tenths.
    assert Consistent("majority", 0.9)(votes(kit, 9, 1)) is not None
    assert Consistent("beta", 0.9375)(votes(kit, 3)) is not None


@quick
@given(st.lists(st.sampled_from(["A", "B", None]), max_size=12), st.integers(0, 99))
def test_the_order_of_the_pool_settles_nothing(kit, answers, seed):
    pool = [kit.cand(i, a) for i, a in enumerate(answers)]
    shuffled = random.Random(seed).sample(pool, len(pool))
    for condition in (Consistent(), Consistent("entropy", 0.5), Consistent("majority", 0.5), WindowAgreed(3)):
        assert condition(kit.state(*pool)) == condition(kit.state(*shuffled))


@pytest.mark.parametrize(
    ("answers", "agreed"),
    [
        ("AAA", True),
        ("ABAAAA", True),
        ("AAAABA", False),
        ("AA", False),
        ("BAAA", False),
        ("AAAA", False),
        ("", False),
        ("ABCBBB", True),
    ],
)
def test_a_window_agrees_when_all_of_it_give_one_answer(answers, agreed, kit):
    pool = [kit.cand(i, a) for i, a in enumerate(answers)]
    reason = "a window of 3 samples agreed"
    assert WindowAgreed(3)(kit.state(*pool)) == (reason if agreed else None)


@pytest.mark.parametrize("finish", ["length", "aborted", "failed", "stop"])
def test_a_sample_without_a_vote_agrees_with_none(finish, kit):
    odd = kit.cand(1, "A" if finish != "stop" else None, finish=finish)
    assert WindowAgreed(3)(kit.state(kit.cand(0, "A"), odd, kit.cand(2, "A"))) is None


def test_windows_follow_sample_order(kit):
    pool = [kit.cand(i, a) for i, a in ((10, "B"), (11, "B"), (2, "A"), (1, "A"))]
    assert WindowAgreed(2)(kit.state(*pool)) is not None
    assert WindowAgreed(4)(kit.state(*pool)) is None


@pytest.mark.parametrize(
    ("part", "settings", "field"),
    [
        (Consistent, {"threshold": 0}, "threshold"),
        (Consistent, {"threshold": 1}, "threshold"),
        (Consistent, {"rule": "majority", "threshold": 1.1}, "threshold"),
        (Consistent, {"at_least": 0}, "at_least"),
        (WindowAgreed, {"size": 0}, "size"),
    ],
)
def test_settings_that_make_no_sense(part, settings, field):
    with pytest.raises(ConfigError) as caught:
        part(**settings)
    assert caught.value.path == field
