"""Results read again: one walk over the lines, for those who go on with a run and those who look at it."""

import json
from dataclasses import replace

from ttsflow.analysis.runs import read_run
from ttsflow.runs.kept import NoResult, read_each, read_results
from ttsflow.trace import result_record
from ttsflow.types import Result, Usage

MADE = Result("a", "1", "answered", True, None, Usage(output=3), {"tokens": 3.0}, 1, 0)


def test_lines_that_do_not_count_have_a_number_and_a_reason(tmp_path):
    file = tmp_path / "results.jsonl"
    whole = [json.dumps(result_record(replace(MADE, id=name))) for name in "aba"]
    short = json.dumps({"id": "c", "outcome": "answered", "usage": {}})
    file.write_text("\n".join([*whole, "{", "{}", "", short]) + "\n")
    found, broken = read_results(file)
    assert {name: one.result for name, one in found.items()} == {
        name: replace(MADE, id=name) for name in "ab"
    }
    assert found["a"].record["id"] == "a"
    assert broken == [4, 5, 7]  # the second result of a is no broken line
    run = read_run(tmp_path)
    assert [*run.rows] == ["a", "b", "c"]  # who only looks takes what is there
    assert [(one.line, one.why) for one in run.skipped] == [
        (3, "a second result of 'a'"),
        (4, "is no record of JSON"),
        (5, "has no `id`"),
    ]


def test_brackets_without_end_are_no_result(tmp_path):
    def deep(record):
        raise RecursionError(record["id"])

    (tmp_path / "results.jsonl").write_text('{"id": "deep"}\n')
    assert read_each(tmp_path / "results.jsonl", deep) == ({}, [NoResult(1, "deep")])
