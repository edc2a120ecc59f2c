import json

import pytest

from ttsflow.trace import JsonTrace, NoTrace, candidate_event, result_record
from ttsflow.types import Answer, Candidate, Result, Usage


def test_one_event_a_line_with_text_as_it_is(tmp_path):
    trace = JsonTrace(tmp_path / "trace.jsonl")
    trace.event("note", "p", {"text": 'ü\n"x"', "path": (0, 1)})
    trace.event("other", "q", {})
    trace.close()
    lines = (tmp_path / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"event": "note", "problem": "p", "text": 'ü\n"x"', "path": [0, 1]},
        {"event": "other", "problem": "q"},
    ]
    assert "ü" in lines[0]


def test_after_a_flush_others_can_read_it_and_an_existing_file_is_appended_to(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text('{"old": 1}\n')
    trace = JsonTrace(path)
    trace.event("new", "p", {})
    trace.flush()
    assert len(path.read_text().splitlines()) == 2
    trace.close()


def test_an_event_that_is_no_json_is_an_error_and_writes_no_half_line(tmp_path):
    path = tmp_path / "trace.jsonl"
    trace = JsonTrace(path)
    with pytest.raises((TypeError, ValueError)):
        trace.event("bad", "p", {"x": object()})
    trace.close()
    assert path.read_text() == ""


def test_no_trace_takes_anything():
    trace = NoTrace()
    trace.event("x", "p", {"y": object()})
    trace.flush()
    assert not trace.enabled


def test_a_candidate_event_says_what_is_needed_to_replay_it():
    candidate = Candidate(
        (0, 1), (1, 2), (3, 4, 5), "abc", "stop", seed=9, answer=Answer("A", "a"), tokens_new=2
    )
    assert candidate_event(candidate) == {
        "path": (0, 1),
        "finish": "stop",
        "tokens": 3,
        "tokens_new": 2,
        "seed": 9,
        "text": "abc",
        "answer": "a",
    }
    failed = candidate_event(candidate.with_(finish="failed", answer=None, reason="why"))
    assert failed["reason"] == "why"
    assert "answer" not in failed


def test_a_result_is_written_in_full_with_the_decoded_tokens():
    result = Result(
        id="p",
        answer="4",
        outcome="answered",
        correct=True,
        stopped=None,
        usage=Usage(output=3, aborted=2, dropped=1),
        cost={"tokens": 6.0},
        candidates=1,
        truncated=0,
        versions={"ttsflow": "0"},
    )
    record = json.loads(json.dumps(result_record(result)))
    assert record["usage"]["decoded"] == 6
    assert record["usage"]["output"] == 3
    assert record["cost"] == {"tokens": 6.0}
    assert set(Result.__slots__) == set(record)
