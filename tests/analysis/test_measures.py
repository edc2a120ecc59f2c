"""What a run comes to in numbers, and which runs no other beats."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.analysis.measures import front, measure
from ttsflow.analysis.runs import read_run
from ttsflow.config import compose
from ttsflow.run import run_config


def test_the_numbers_are_those_of_the_summary(tmp_path):
    summary = run_config(compose(["engine=fake", "limit=12", "sampling.max_tokens=14"]), tmp_path / "run")
    found = measure(read_run(tmp_path / "run"))
    assert found.accuracy == summary.accuracy
    assert found.interval == pytest.approx(summary.accuracy_ci95)
    assert found.coverage == summary.coverage
    assert found.truncation == summary.truncation_rate > 0
    assert found.decoded == summary.usage["decoded_tokens"] / 12
    assert found.serial == summary.usage["serial_tokens"] / 12
    assert found.joules is found.joules_per_correct is None


def test_a_missing_answer_counts_as_wrong_and_an_open_verdict_not_at_all(write_run):
    unanswered = {"correct": False, "outcome": "truncated", "answer": None}
    found = measure(read_run(write_run("run", {"a": True, "b": unanswered, "c": False, "d": None})))
    assert (found.problems, found.graded, found.correct) == (4, 3, 1)
    assert found.accuracy == pytest.approx(1 / 3)
    assert found.coverage == 0.75
    assert found.accuracy_answered == 0.5


def test_joules_are_known_of_all_or_of_none(write_run):
    rows = {
        "a": {"correct": True, "usage": {"joules": 6.0}},
        "b": {"correct": False, "usage": {"joules": 2.0}},
    }
    assert measure(read_run(write_run("metered", rows))).joules_per_correct == 8.0
    found = measure(read_run(write_run("half", {**rows, "c": True})))
    assert (found.joules, found.joules_per_correct) == (None, None)


def test_nothing_is_made_up_of_nothing(write_run):
    found = measure(read_run(write_run("run", {})))
    assert (found.accuracy, found.interval, found.decoded, found.p95, found.coverage) == (None,) * 5


@pytest.mark.slow
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_quantiles_are_those_of_numpy(tmp_path_factory, seconds):
    from ttsflow.analysis.measures import _quantile

    for share in (0.5, 0.95):
        assert _quantile(sorted(seconds), share) == pytest.approx(float(np.quantile(seconds, share)))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_the_front_is_what_no_other_beats(points):
    kept = front(points)
    assert [points[place][0] for place in kept] == sorted(points[place][0] for place in kept)
    assert len(kept) == len(set(kept)) == sum(points.count(one) for one in {points[place] for place in kept})

    def beats(one, other):
        return one[0] <= other[0] and one[1] >= other[1] and one != other

    alone = {point for point in points if not any(beats(other, point) for other in points)}
    assert {points[place] for place in kept} == alone
    assert not any(beats(points[a], points[b]) for a, b in product(kept, kept))


def test_costs_that_differ_by_rounding_are_the_same():
    """The better of them is on the front, whichever is cheaper by a hair; equal ones are both."""
    assert front([(100.0, 0.4), (100.00001, 0.7), (200.0, 0.7), (50.0, 0.1)]) == [3, 1]
    assert front([(100.00001, 0.7), (100.0, 0.7), (300.0, 0.8)]) == [1, 0, 2]
