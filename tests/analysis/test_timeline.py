"""What ran when: kept small, written beside a run, read back, put into figures and drawn."""

import json
from itertools import pairwise

import pytest

from ttsflow import cli
from ttsflow.analysis.timeline import draw, figures
from ttsflow.errors import ConfigError, DataError
from ttsflow.runs.timeline import FILE, Moment, Timeline, read_timeline, write_timeline


def moment(seconds, running=0, **counts):
    known = dict.fromkeys(Moment._fields, 0) | {"seconds": seconds, "running": running} | counts
    return Moment(**known)


def test_a_long_run_stays_small_and_keeps_its_order():
    timeline = Timeline()
    for step in range(20_000):
        if timeline.due():
            timeline.add(moment(step / 10, step))
    kept = timeline.moments
    assert 2048 <= len(kept) <= 4096
    assert kept == sorted(kept)
    assert kept[-1].running > 19_000
    gaps = [after.running - before.running for before, after in pairwise(kept)]
    assert max(gaps) <= 2 * min(gaps)


def test_what_is_written_is_read(tmp_path):
    moments = [moment(0.5, 3, used=7), moment(1.25, 2, evicted=4, verifying=1)]
    write_timeline(tmp_path, moments)
    assert read_timeline(tmp_path) == moments


def test_nothing_is_written_of_an_engine_that_keeps_no_count(tmp_path):
    write_timeline(tmp_path, [])
    assert not (tmp_path / FILE).exists()
    with pytest.raises(DataError, match="holds no timeline"):
        read_timeline(tmp_path)


ONES = ",1,1,1,1,1,1,1,1"


@pytest.mark.parametrize(
    "line",
    [
        "1.0,2",
        "",
        f"soon,1{ONES}",
        f"1.0,1{ONES},1",
        *(f"{seconds},1{ONES}" for seconds in ("nan", "inf", "-1", "0.4", "1e308", "1e999")),
        *(f"1.0,{count}{ONES}" for count in ("-1", "1.5", "9" * 400, str(10**20), "x" * 1000, "")),
    ],
    ids=lambda line: line[:20],
)
def test_a_broken_line_is_named(tmp_path, line):
    write_timeline(tmp_path, [moment(0.5)])
    with (tmp_path / FILE).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=f"{FILE}:3: is no moment"):
        read_timeline(tmp_path)


def test_a_file_without_moments_is_refused(tmp_path):
    (tmp_path / FILE).write_text(",".join(Moment._fields) + "\n")
    with pytest.raises(DataError, match="is empty"):
        read_timeline(tmp_path)


@pytest.mark.parametrize("header", ["seconds,running", "a,b,c,d,e,f,g,h,i,j", "0.0,0,0,0,0,0,0,0,0,0"])
def test_a_table_of_something_else_is_refused(tmp_path, header):
    (tmp_path / FILE).write_text(f"{header}\n0.5,1{ONES}\n")
    with pytest.raises(
        DataError, match=rf"{FILE}:1: is no timeline; its first line must be seconds,running,"
    ):
        read_timeline(tmp_path)


@pytest.mark.parametrize("text", ["x" * 200_000, "\udcff", "a\0b"])
def test_what_is_no_table_is_refused(tmp_path, text):
    (tmp_path / FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=f"{FILE}"):
        read_timeline(tmp_path)


def test_figures_are_means_over_time_and_totals():
    moments = [
        moment(0.0),
        moment(1.0, 4, used=10, decoded=4),
        moment(4.0, 2, used=20, decoded=10, evicted=3, verifying=5),
    ]
    found = figures(moments)
    assert found["mean running"] == pytest.approx((1 * 4 + 3 * 2) / 4)
    assert found["mean blocks in use"] == pytest.approx((1 * 10 + 3 * 20) / 4)
    assert found["share of time verifying"] == pytest.approx(3 / 4)
    assert (found["most running"], found["tokens decoded"], found["blocks evicted"]) == (4, 10, 3)


def test_one_moment_has_figures():
    assert figures([moment(0.0, 1)])["mean running"] == 0


@pytest.mark.slow
def test_the_command_draws_a_run_of_the_simulator(tmp_path, capsys):
    run = tmp_path / "a run"
    words = ["engine=sim", "task=simulated", "strategy=best_of_n", "strategy.n=8", "task.size=2"]
    words += ["verifier=simulated", "verifier.model=skywork-prm-1.5b", "engine.memory_share=0.4"]
    assert cli.main(["run", *words, f"hydra.run.dir='{run}'"]) == 0
    moments = read_timeline(run)
    assert any(m.running for m in moments)
    assert any(m.verifying for m in moments)
    assert moments[-1].running == moments[-1].waiting == 0
    # No token is left out of it.
    usage = json.loads((run / "summary.json").read_text())["usage"]
    assert moments[-1].decoded == usage["decoded_tokens"] > 0
    assert [m.seconds for m in moments] == sorted(m.seconds for m in moments)
    capsys.readouterr()
    assert cli.main(["timeline", str(run)]) == 0
    assert "tokens decoded" in capsys.readouterr().out
    assert (run / "timeline.svg").read_text().startswith("<?xml")


def test_an_unknown_kind_of_picture_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no kind of picture"):
        draw([moment(0.0)], tmp_path / "a.docx")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/a.svg", "cannot be written: there is no folder"),
        ("folder.svg", "cannot be written: it is a folder"),
        ("a.docx", "no kind of picture"),
        ("x" * 300 + ".svg", "cannot be written: File name too long"),
    ],
)
def test_a_picture_without_a_place_is_refused_before_anything_is_printed(tmp_path, capsys, name, message):
    write_timeline(tmp_path, [moment(0.5)])
    (tmp_path / "folder.svg").mkdir()
    assert cli.main(["timeline", str(tmp_path), "-o", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in " ".join(err.split())


@pytest.mark.slow
def test_a_disk_that_is_full_is_told(tmp_path):
    (tmp_path / "full.svg").symlink_to("/dev/full")
    with pytest.raises(ConfigError, match="cannot be written: No space left"):
        draw([moment(0.0)], tmp_path / "full.svg")


@pytest.mark.parametrize(
    "name", ["a.PNG", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a.png", "a.pdf", "a.Svg"))]
)
def test_other_kinds_of_pictures(tmp_path, name):
    draw([moment(0.0), moment(1.0, 2)], tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000
