"""Written loads: by question and by second, steps and lines, once and again; what is wrong with a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.errors import ConfigError, DataError
from ttsflow.load.written import TraceLoad

LEVELS = (0.0, 0.25, 0.55, 0.85)


def read(part, positions):
    monitor = part.open()
    try:
        if part.per == "problem":
            return [monitor.read(0.0, position) for position in positions]
        return [monitor.read(position, 0) for position in positions]
    finally:
        monitor.close()


def test_by_question():
    part = TraceLoad(LEVELS, 125, "problem")
    assert read(part, (0, 124, 125, 374, 375, 499, 500, 10**6)) == [0, 0, 0.25, 0.55, 0.85, 0.85, 0.85, 0.85]
    again = TraceLoad(LEVELS, 25, "problem", cycle=True)
    assert read(again, (0, 24, 25, 99, 100, 125, 10**6)) == [0, 0, 0.25, 0.85, 0, 0.25, 0]


def test_by_second_from_the_first_reading():
    part = TraceLoad((0.1, 0.9), 2.0)
    monitor = part.open()
    assert [monitor.read(1000.0 + t, 7) for t in (0, 1.9, 2, 5, -3)] == [0.1, 0.1, 0.9, 0.9, 0.1]
    assert part.open().read(1e9, 0) == 0.1, "every monitor has a beginning of its own"


def test_lines_between_levels():
    assert read(TraceLoad((0.0, 1.0), 4.0, lookup="linear"), (0, 1, 2, 4, 9)) == [0, 0.25, 0.5, 1, 1]
    again = TraceLoad((0.0, 1.0), 4.0, lookup="linear", cycle=True)
    assert read(again, (0, 2, 4, 6, 8, 10)) == [0, 0.5, 1, 0.5, 0, 0.5]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "0,0.2\n10,0.6\n\n20,0\n"),
        ("a.csv", "load, seconds, who\n0.2,0,x\n0.6,10,\n0.0,20,y\n"),
        ("a.csv", "\ufeffSeconds,Load\r\n0,0.2\r\n1e1,.6\r\n20,0\r\n"),
        (
            "a.jsonl",
            '{"seconds": 0, "load": 0.2}\n{"load": 0.6, "seconds": 10, "x": 1}\n\n{"seconds": 20, "load": 0}',
        ),
    ],
)
def test_files(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    asked = (0, 5, 10, 19, 20, 25, 45)
    assert read(TraceLoad(path=str(path)), asked) == [0.2, 0.2, 0.6, 0.6, 0, 0, 0]
    assert read(TraceLoad(path=str(path), cycle=True), asked) == [0.2, 0.2, 0.6, 0.6, 0.2, 0.2, 0.2]
    linear = TraceLoad(path=str(path), lookup="linear")
    assert read(linear, asked) == pytest.approx([0.2, 0.4, 0.6, 0.06, 0, 0, 0])
    assert read(TraceLoad(path=str(path), per="problem"), (0, 10)) == [0.2, 0.6]


def test_before_the_first_row_it_is_the_first_load(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("5,0.5\n10,1\n")
    assert read(TraceLoad(path=str(path), cycle=True), (0, 5, 9, 10, 14, 15)) == [0.5] * 6


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "0,0.5\n1,1.5\n", "a.csv:2: a load lies between 0 and 1, found 1.5"),
        ("a.csv", "0,0.5\n0,0.6\n", "a.csv:2: seconds must grow, found 0 after 0"),
        ("a.csv", "0,0.5\n\n1\n", "a.csv:3: expected 2 columns, found 1"),
        ("a.csv", "0,nan\n", 'a.csv:1: `load` must be a finite number, found "nan"'),
        ("a.csv", "seconds,load\n1,high\n", "a.csv:2: `load` must be a finite number"),
        ("a.csv", "second,load\n1,1\n", "Did you mean 'second'?"),
        ("a.csv", "", "needs at least a row; found 0"),
        ("a.jsonl", '{"seconds": 0, "load": 0.2}\n[1, 2]\n', "a.jsonl:2: expected an object"),
        ("a.jsonl", '{"seconds": 0, "loud": 0.2}\n', "a.jsonl:1: there is no `load`. Did you mean 'loud'?"),
        (
            "a.jsonl",
            '{"seconds": 0, "load": true}\n',
            "a.jsonl:1: `load` must be a finite number, found true",
        ),
        ("a.jsonl", '{"seconds": 0\n', "a.jsonl:1: no JSON object"),
        ("a.txt", "0,0\n", "neither a .csv nor a .jsonl file"),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        TraceLoad(path=str(tmp_path / name)).check()
    assert message in str(caught.value)
    assert caught.value.path == "path"


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "latin.csv").write_bytes(b"0,\xff\n")
    (tmp_path / "folder.csv").mkdir()
    for name in ("none.csv", "folder.csv", "latin.csv"):
        with pytest.raises(DataError, match="cannot be read"):
            TraceLoad(path=str(tmp_path / name)).check()
    (tmp_path / "one.csv").write_text("0,1\n")
    with pytest.raises(DataError, match="at least two rows"):
        TraceLoad(path=str(tmp_path / "one.csv"), cycle=True).check()


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({}, "levels"),
        ({"levels": (0.5,), "path": "x.csv"}, "levels"),
        ({"levels": (0.5, 1.1)}, "levels.1"),
        ({"levels": (float("nan"),)}, "levels.0"),
        ({"levels": (0.5,), "each": 0}, "each"),
    ],
)
def test_bad_settings_are_refused(settings, place):
    with pytest.raises(ConfigError) as caught:
        TraceLoad(**settings)
    assert caught.value.path == place


@pytest.mark.slow
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.floats(0.001, 1e6),
    st.booleans(),
    st.sampled_from(["step", "linear"]),
    st.lists(st.floats(-1e9, 1e9), max_size=6),
)
def test_always_between_the_lowest_and_the_highest_level(levels, each, cycle, lookup, times):
    part = TraceLoad(tuple(levels), each, cycle=cycle, lookup=lookup)
    for load in read(part, times):
        assert min(levels) - 1e-12 <= load <= max(levels) + 1e-12
