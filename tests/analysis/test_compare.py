"""Two runs on the questions they share: the test, the ratios, and what is refused."""

import json

import pytest

from ttsflow import cli
from ttsflow.analysis.compare import compare
from ttsflow.analysis.runs import read_run
from ttsflow.errors import DataError
from ttsflow.metrics import paired_bootstrap, wilson

FIRST = {"a": True, "b": True, "c": True, "d": False, "e": True}
SECOND = {"a": True, "b": False, "c": False, "d": True, "e": True}


@pytest.fixture
def pair(write_run):
    """Return the runs of FIRST, which takes twice the tokens, and of SECOND."""
    dear = {
        name: {"correct": right, "usage": {"decoded": 200, "joules": 1.0}} for name, right in FIRST.items()
    }
    return write_run("first", dear, strategy="ffs"), write_run("second", SECOND)


def test_the_numbers(pair):
    found = compare(*map(read_run, pair))
    assert (found.first, found.second) == ("ffs", "majority")
    assert (found.shared, found.graded, found.both, found.neither) == (5, 5, 2, 0)
    assert (found.only_first, found.only_second) == (("b", "c"), ("d",))
    assert found.difference == paired_bootstrap([*FIRST.values()], [*SECOND.values()])
    assert found.p_value == 1.0
    assert [one.accuracy for one in found.measures] == [0.8, 0.6]
    assert found.measures[0].interval == wilson(4, 5)
    assert found.ratios["decoded"] == (2.0, 2.0, 2.0)
    assert found.ratios["seconds"] == (1.0, 1.0, 1.0)
    assert "joules" not in found.ratios
    assert ("choices.strategy", "ffs", "majority") in found.settings


def test_the_other_way_round_is_the_other_way_round(pair):
    one, other = map(read_run, pair)
    there, back = compare(one, other), compare(other, one)
    assert back.difference[0] == pytest.approx(-there.difference[0])
    assert back.p_value == there.p_value
    assert back.ratios["decoded"][0] == 0.5


def test_questions_that_one_run_lacks_are_left_out_and_told(write_run):
    one = read_run(write_run("one", {"a": True, "b": True, "c": None}))
    other = read_run(write_run("other", {"b": False, "c": True, "d": True, "e": True}))
    found = compare(one, other)
    assert (found.shared, found.graded) == (2, 1)
    assert found.measures[0].problems == 2
    notes = "\n".join(found.notes)
    assert f"1 questions are in {one.folder} alone" in notes
    assert f"2 questions are in {other.folder} alone" in notes
    assert "1 shared questions have no verdict" in notes


def test_one_id_with_two_gold_answers_is_not_one_question(write_run):
    one = read_run(write_run("one", {"1": {"gold": "7"}, "2": {"gold": "8", "correct": True}}))
    other = read_run(write_run("other", {"1": {"gold": "9"}, "2": {"gold": "8", "correct": True}}))
    found = compare(one, other)
    assert found.shared == 1
    assert "1 questions have one id and different gold answers" in found.notes[0]


def test_runs_of_different_problems_are_refused(write_run):
    one, other = read_run(write_run("one", {"a": True})), read_run(write_run("other", {"b": True}))
    with pytest.raises(DataError, match=r"share no question: .*one has 1 of sums and .*other has 1 of sums"):
        compare(one, other)


def test_without_gold_answers_only_costs_are_compared(write_run):
    found = compare(*(read_run(write_run(name, {"a": None, "b": None})) for name in ("one", "other")))
    assert (found.difference, found.p_value, found.graded) == (None, None, 0)
    assert found.ratios["decoded"] == (1.0, 1.0, 1.0)


def test_what_is_partial_or_broken_is_told(write_run):
    one = write_run("one", {"a": True, "b": True}, status="partial")
    with (one / "results.jsonl").open("a") as file:
        file.write('{"id": "c"')
    found = compare(read_run(one), read_run(write_run("other", {"a": True})))
    assert any("is partial: 2 of 2 problems" in note for note in found.notes)
    assert any("1 lines of" in note and note.endswith("skipped: 3") for note in found.notes)


def test_the_command_prints_it(pair, capsys):
    assert cli.main(["compare", *map(str, pair)]) == 0
    shown = capsys.readouterr().out
    assert "A - B: +0.200" in shown
    assert "McNemar, exact: p = 1;" in shown
    assert "only A is right (2): b, c" in shown
    assert "only B is right (1): d" in shown
    assert "choices.strategy" in shown


def test_a_run_against_itself_has_its_folder_once(pair, capsys):
    assert cli.main(["compare", str(pair[0]), str(pair[0])]) == 0
    shown = capsys.readouterr().out
    assert f"A  ffs ({pair[0]}): accuracy" in shown
    assert f"[{pair[0]}]" not in shown


def test_one_of_many_without_an_answer_is_seen(write_run, capsys):
    rows = {f"q{n}": {"correct": True, "outcome": "answered" if n else "abstained"} for n in range(258)}
    folders = [str(write_run(name, rows)) for name in ("one", "other")]
    assert cli.main(["compare", *folders]) == 0
    assert capsys.readouterr().out.count("answered 99.6%") == 2


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        (("fake", "replay"), " (virtual clock)"),
        (("vllm", "sim"), " (partly of a virtual clock)"),
        (("vllm", "not-installed"), ""),
    ],
)
def test_seconds_of_a_virtual_clock_are_told(write_run, capsys, engines, said):
    folders = [
        str(write_run(name, FIRST, config={"engine": {"use": engine}}))
        for name, engine in zip(("one", "other"), engines, strict=True)
    ]
    assert cli.main(["compare", *folders]) == 0
    assert f"\nseconds{said} " in capsys.readouterr().out


def test_the_command_prints_json(pair, capsys):
    assert cli.main(["compare", *map(str, pair), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["only_first"] == ["b", "c"]
    assert found["ratios"]["decoded"] == [2.0, 2.0, 2.0]
    assert {"key": "choices.strategy", "first": "ffs", "second": "majority"} in found["settings"]


def test_the_command_refuses_in_words(write_run, tmp_path, capsys):
    assert cli.main(["compare", str(write_run("one", {"a": True})), str(tmp_path / "gone")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_escapes_of_a_terminal_are_not_printed(write_run, capsys):
    rows = [{"\x1b[31mred": right, "[b]x": True} for right in (True, False)]
    folders = [str(write_run(name, one)) for name, one in zip(("one", "other"), rows, strict=True)]
    assert cli.main(["compare", *folders]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[31mred" in shown
