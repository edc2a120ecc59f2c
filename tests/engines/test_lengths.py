"""What room running requests come to need."""

import random

import pytest

from ttsflow.engines.lengths import Lengths, peak


def test_room_is_kept_for_a_part_of_what_others_had_left():
    lengths = Lengths()
    assert lengths.remaining(5, 128) == 128
    for length in (10, 20, 60):
        lengths.observe(length)
    assert lengths.remaining(0, 128) == pytest.approx(0.35 * 30)
    assert lengths.remaining(10, 128) == pytest.approx(0.35 * 30)
    assert lengths.remaining(20, 128) == pytest.approx(0.35 * 40)
    assert lengths.remaining(0, 3) == 3
    # Longer than any before: the more it has run, the more is left.
    assert 1 < lengths.remaining(60, 128) < lengths.remaining(120, 128)


def test_the_oldest_lengths_are_forgotten():
    lengths = Lengths()
    for length in [1000] * 10 + [20] * 512:
        lengths.observe(length)
    assert lengths.remaining(0, 10_000) == pytest.approx(0.35 * 20)


def test_the_peak_is_that_of_growing_side_by_side():
    """Against going token by token; half a block for the last one of each, and all end somewhere in it."""
    rng = random.Random(4)
    for _ in range(50):
        running = [(rng.randint(1, 90), rng.randint(0, 60)) for _ in range(rng.randint(1, 12))]
        most = max(
            sum((now + t) / 8 + 0.5 for left, now in running if left >= t)
            for t in range(1, 91)
            if any(left >= t for left, _ in running)
        )
        assert peak(running, 8) == pytest.approx(most)
    assert peak([], 8) == 0
