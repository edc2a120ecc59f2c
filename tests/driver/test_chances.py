"""How likely a candidate survives, against drawing it many times."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.driver.chances import survival, tiered

SCORES = st.lists(st.integers(0, 8).map(lambda value: value / 8), min_size=1, max_size=8)


@pytest.mark.slow
@given(SCORES, st.integers(0, 20), st.integers(1, 6), st.data())
def test_certain_and_beaten_are_exact(scores, pending, slots, data):
    score = data.draw(st.sampled_from(scores))
    chance = survival(score, sorted(scores), pending, slots)
    assert 0 <= chance <= 1
    others = list(scores)
    others.remove(score)
    if sum(other > score for other in others) >= slots:
        assert chance == 0
    elif sum(other >= score for other in others) + pending < slots:
        assert chance == 1
    else:
        assert 0 < chance < 1 or math.isclose(chance, 0, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("better", "known", "pending", "slots"), [(0, 1, 7, 2), (1, 4, 4, 2), (3, 12, 52, 16)]
)
def test_the_tail_is_that_of_the_binomial(better, known, pending, slots):
    scores = sorted([1.0] * better + [0.5] + [0.0] * (known - better - 1))
    chance = (better + 1) / (known + 1)
    tail = sum(
        math.comb(pending, hits) * chance**hits * (1 - chance) ** (pending - hits)
        for hits in range(slots - better)
    )
    assert survival(0.5, scores, pending, slots) == pytest.approx(tail, rel=1e-9)


def test_many_pending_ones_go_by_the_normal_distribution():
    scores = [0.1, 0.2, 0.3, 0.5, 0.9]
    few, many = survival(0.5, scores, 64, 30), survival(0.5, scores, 65, 30)
    assert many == pytest.approx(few, abs=0.08)


def test_the_foreseen_share_survives():
    """Of independent draws, those given a chance near p survive about p of the time."""
    rng = random.Random(7)
    foreseen, came = 0.0, 0
    for _ in range(3000):
        scores = [rng.random() for _ in range(8)]
        known = sorted(scores[:4])
        foreseen += survival(scores[0], known, 4, 2)
        came += scores[0] in sorted(scores)[-2:]
    assert foreseen / 3000 == pytest.approx(came / 3000, abs=0.04)


def test_tiers_give_the_likeliest_all_their_children_and_the_hopeless_none():
    assert [tiered(chance, 4, 4) for chance in (1.0, 0.9, 0.6, 0.3, 0.01, 0.0)] == [4, 4, 3, 2, 1, 0]
    assert tiered(0.01, 4, 1) == 4
    assert tiered(0.0, 4, 1) == 0
