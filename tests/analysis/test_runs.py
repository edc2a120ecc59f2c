"""Runs as their folders tell of them: which there are, what is in them, what is broken."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow import cli
from ttsflow.analysis.runs import find_runs, one_run, read_run, read_runs
from ttsflow.config import compose
from ttsflow.errors import DataError
from ttsflow.run import run_config

LINE = {"id": "q", "outcome": "answered", "usage": {"decoded": 3}}


def test_what_a_run_has_written_is_read(tmp_path):
    folder = tmp_path / "run"
    summary = run_config(compose(["engine=fake", "strategy=ffs", "limit=5", "meter=none"]), folder)
    run = read_run(folder)
    assert (run.status, run.strategy, run.task, run.engine) == ("complete", "ffs", "arithmetic", "fake")
    assert (run.error, run.skipped, len(run.rows)) == (None, (), 5)
    assert sum(row.decoded for row in run.rows.values()) == summary.usage["decoded_tokens"]
    assert sum(row.serial for row in run.rows.values()) == summary.usage["serial_tokens"]
    assert sum(bool(row.correct) for row in run.rows.values()) == round(summary.accuracy * 5)
    assert any(row.stopped for row in run.rows.values())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"id": "q", "outc', "is no record of JSON"),
        ("[1]", "is no record of JSON"),
        ("[" * 100_000, "is no record of JSON"),
        (json.dumps({**LINE, "id": None}), "has no `id`"),
        (json.dumps({**LINE, "outcome": "won"}), "`outcome` must be one of answered"),
        (json.dumps({**LINE, "usage": 3}), "`usage` must be a mapping"),
        (json.dumps({**LINE, "usage": {"decoded": "many"}}), "`decoded` must be a whole number"),
        (json.dumps({**LINE, "usage": {"seconds": float("nan")}}), "`seconds` must be a finite number"),
        (json.dumps({**LINE, "usage": {"joules": -4}}), "`joules` must be a finite number"),
        (json.dumps({**LINE, "correct": "yes"}), "`correct` must be true or false"),
        (json.dumps({**LINE, "id": "b"}), "a second result of 'b'"),
    ],
    ids=lambda text: text[:30],
)
def test_a_broken_line_is_skipped_and_named(write_run, line, why):
    folder = write_run("run", {"a": True, "b": False})
    lines = (folder / "results.jsonl").read_text().splitlines()
    (folder / "results.jsonl").write_text(
        "\n".join([lines[0], lines[1], line, "", lines[0].replace('"a"', '"c"')])
    )
    run = read_run(folder)
    assert list(run.rows) == ["a", "b", "c"]
    (skipped,) = run.skipped
    assert skipped.line == 3
    assert str(skipped).startswith(f"{folder / 'results.jsonl'}:3: {why}")


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_no_bytes_stop_the_reader(tmp_path_factory, junk):
    folder = tmp_path_factory.mktemp("junk")
    for name in ("results.jsonl", "summary.json", "config.yaml"):
        (folder / name).write_bytes(junk)
    run = read_run(folder)
    assert run.status in {"complete", "partial", "failed"}


def test_a_run_that_failed_says_why(write_run):
    error, details = "ConfigError: n: too many", "Traceback ..."
    folder = write_run("run", {}, status="failed", summary={"error": error, "traceback": details})
    (folder / "config.yaml").unlink()
    (folder / "results.jsonl").unlink()
    run = read_run(folder)
    assert (run.status, run.error, run.traceback, run.rows) == ("failed", error, details, {})


def test_a_partial_run_says_how_far_it_came(write_run):
    run = read_run(write_run("run", {"a": True, "b": True}, status="partial", summary={"planned": 9}))
    assert (run.status, run.error, len(run.rows)) == ("partial", "2 of 9 problems have a result", 2)
    ended = {"planned": 9, "error": "interrupted"}
    run = read_run(write_run("ended", {"a": True}, status="partial", summary=ended))
    assert run.error == "interrupted; 1 of 9 problems have a result"


def test_a_run_without_a_summary_is_partial(write_run):
    folder = write_run("run", {"a": True})
    (folder / "summary.json").unlink()
    run = read_run(folder)
    assert run.status == "partial"
    assert "holds no summary.json" in run.error


def test_texts_are_cut(write_run):
    run = read_run(
        write_run("run", {"a": {"text": "x" * 10_000, "answer": "y" * 10_000, "stopped": "z" * 999}})
    )
    row = run.rows["a"]
    assert [len(row.text), len(row.answer), len(row.stopped)] == [4000, 400, 400]
    assert row.text.endswith("\u2026")


# --- finding them -------------------------------------------------------------------------------------


def test_runs_are_found_however_deep_and_in_the_order_of_their_numbers(write_run, tmp_path):
    names = [f"sweep/{number}" for number in (10, 2, 1)] + ["sweep/more/deep/0"]
    for name in names:
        write_run(name, {"a": True})
    (tmp_path / "sweep" / ".hidden").mkdir()
    (tmp_path / "sweep" / ".hidden" / "results.jsonl").write_text("")
    (tmp_path / "sweep" / "multirun.yaml").write_text("a: 1")
    (tmp_path / "sweep" / "summary.json").write_text('{"jobs": 3}')
    found = [str(folder.relative_to(tmp_path)) for folder in find_runs([tmp_path / "sweep"])]
    assert found == ["sweep/1", "sweep/2", "sweep/10", "sweep/more/deep/0"]


def test_a_run_named_twice_is_read_once(write_run, tmp_path):
    folder = write_run("sweep/0", {"a": True})
    (tmp_path / "link").symlink_to(folder)
    assert len(read_runs([tmp_path / "sweep", folder, tmp_path / "link"])) == 1


@pytest.mark.parametrize(
    ("files", "said"),
    [([], "It is empty."), (["a.txt", "b.txt"], "It holds a.txt, b.txt."), (list("abcdefghij"), "h, ...")],
)
def test_a_folder_without_a_run_says_what_it_holds(tmp_path, files, said):
    (tmp_path / "there").mkdir()
    for name in files:
        (tmp_path / "there" / name).write_text("")
    with pytest.raises(DataError, match="holds no run") as caught:
        find_runs([tmp_path / "there"])
    assert said in str(caught.value)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        find_runs([tmp_path / "gone"])


def test_one_run_is_wanted_and_several_are_named(write_run, tmp_path):
    write_run("sweep/0", {"a": True})
    assert one_run(tmp_path / "sweep").folder == tmp_path / "sweep" / "0"
    write_run("sweep/1", {"a": True})
    with pytest.raises(DataError, match=r"holds 2 runs; name one of them: .*sweep/0, .*sweep/1"):
        one_run(tmp_path / "sweep")


@pytest.mark.parametrize("words", [("show",), ("show", "--problem", "a"), ("doctor",)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_sweep_in_the_place_of_a_run_names_its_runs(words, jobs, write_run, tmp_path, capsys):
    for number in range(jobs):
        write_run(f"sweep/{number}", {"a": True})
    folder = tmp_path / "sweep"
    (folder / "sweep.json").write_text('{"jobs": []}')
    command, *options = words
    assert cli.main([command, str(folder), *options]) == 2
    count = "one run" if jobs == 1 else "2 runs"
    said = capsys.readouterr().err
    assert f"{folder} is a sweep and holds {count}; name one of them: {folder}/0" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_is_closed_is_named(write_run, tmp_path):
    write_run("sweep/0", {"a": True})
    (tmp_path / "sweep" / "closed").mkdir(mode=0)
    with pytest.raises(DataError, match="closed cannot be read"):
        find_runs([tmp_path / "sweep"])
