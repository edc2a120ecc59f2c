import json

import pytest

from ttsflow.summary import summarize
from ttsflow.types import Result, Usage

KEYS = {
    "status", "strategy", "task", "engine", "seed", "fingerprint", "problems", "accuracy", "accuracy_ci95",
    "coverage", "truncated", "abstained", "deferred", "failed", "usage", "goodput", "cost",
}  # fmt: skip
USAGE_KEYS = {
    "prompt_tokens", "cached_tokens", "output_tokens", "aborted_tokens", "dropped_tokens", "adopted_tokens",
    "reused_tokens", "decoded_tokens", "verifier_tokens", "serial_tokens", "requests", "engine_steps",
    "wall_seconds", "joules", "joules_source",
}  # fmt: skip


def result(number, outcome="answered", correct=True, **changes):
    fields = {
        "id": str(number), "answer": "4" if outcome == "answered" else None, "outcome": outcome,
        "correct": correct, "stopped": None,
        "usage": Usage(output=10, aborted=2, serial=6, requests=3, seconds=1.0),
        "cost": {"tokens": 12.0}, "candidates": 4, "truncated": 1, "path_tokens": 5,
    }  # fmt: skip
    return Result(**{**fields, **changes})


def summary(results, **changes):
    settings = {
        "status": "complete", "names": {"strategy": "ffs", "task": "sums", "engine": "fake"}, "seed": 3,
        "fingerprint": "f", "planned": len(results), "wall_seconds": 2.0,
    }  # fmt: skip
    return summarize(results, **{**settings, **changes})


def test_all_public_keys_are_there_and_it_is_valid_json():
    record = json.loads(json.dumps(summary([result(0)]).as_dict(), allow_nan=False))
    assert set(record) >= KEYS
    assert set(record["usage"]) >= USAGE_KEYS
    assert record["accuracy_ci95"] == [pytest.approx(0.2065, abs=1e-4), 1.0]
    assert (record["status"], record["strategy"], record["seed"]) == ("complete", "ffs", 3)


@pytest.mark.parametrize(
    ("right", "wrong", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 0, 0.7225, 1.0), (8, 2, 0.4902, 0.9433), (5, 5, 0.2366, 0.7634)],
)
def test_accuracy_has_its_wilson_interval(right, wrong, low, high):
    results = [result(i, correct=i < right) for i in range(right + wrong)]
    found = summary(results)
    assert found.accuracy == right / (right + wrong)
    assert found.accuracy_ci95 == pytest.approx((low, high), abs=5e-5)


def test_problems_without_an_answer_count_as_wrong_and_lower_the_coverage():
    results = [result(0), result(1)]
    results += [
        result(i, outcome, False)
        for i, outcome in enumerate(
            ("truncated", "abstained", "abstained", "deferred", "failed", "failed"), 2
        )
    ]
    found = summary(results)
    assert found.problems == 8
    assert found.accuracy == 2 / 8
    assert found.coverage == 2 / 8
    assert (found.truncated, found.abstained, found.deferred, found.failed) == (1, 2, 1, 2)


def test_without_gold_answers_there_is_no_accuracy():
    found = summary([result(0, correct=None)])
    assert found.accuracy is None
    assert found.accuracy_ci95 is None
    assert summary([result(0, correct=None), result(1, correct=False)]).accuracy == 0.0


def test_usage_and_cost_are_sums_and_the_clock_is_that_of_the_run():
    found = summary([result(0), result(1)])
    assert found.usage["output_tokens"] == 20
    assert found.usage["aborted_tokens"] == 4
    assert found.usage["decoded_tokens"] == 24
    assert found.usage["serial_tokens"] == 12
    assert found.usage["requests"] == 6
    assert found.usage["wall_seconds"] == 2.0
    assert found.usage["joules"] is None
    assert found.usage["joules_source"] == "none"
    assert found.cost == {"tokens": 24.0}
    assert found.goodput == 10 / 2.0
    assert found.truncation_rate == 2 / 8


def test_an_empty_run_divides_by_nothing():
    found = summary([], status="partial", planned=5, wall_seconds=0.0)
    assert (found.problems, found.planned, found.accuracy, found.goodput, found.coverage) == (
        0,
        5,
        None,
        0.0,
        0.0,
    )
    json.dumps(found.as_dict(), allow_nan=False)


def test_reasons_are_counted_by_kind():
    reasons = ["first 4 finished after 12 tokens", "first 4 finished after 7 tokens", "funds low", None]
    found = summary([result(i, stopped=reason) for i, reason in enumerate(reasons)])
    assert found.stopped == {"first 4 finished after … tokens": 2, "funds low": 1}


def test_what_could_not_be_graded_is_counted_apart():
    found = summary([result(0, "failed", None, gold="4"), result(1, correct=True, gold="4")])
    assert found.ungraded == 1
    assert found.accuracy == 1.0


def test_joules_are_added_up_where_a_meter_ran():
    metered = [result(i, usage=Usage(joules=joules)) for i, joules in enumerate((1.5, None, 2.0))]
    assert summary(metered).usage["joules"] == 3.5
