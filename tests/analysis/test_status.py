"""How far a sweep or a run is, from its folders alone."""

import os
import time
from pathlib import Path

import pytest

from ttsflow import cli
from ttsflow.engines import warm
from ttsflow.runs.locking import Holder, hold
from ttsflow.runs.progress import Progress, is_torn, progress, read_plan
from ttsflow.runs.runfolder import RunFolder
from ttsflow.testing import FakeEngine

SWEEP = ["run", "-q", "-m", "engine=fake", "limit=4", "strategy=majority,nosuch", "strategy.n=2,3"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    warm.close_all()


@pytest.fixture
def jobs(capsys):
    """Return the folders of a sweep of four jobs, two of which failed."""
    assert cli.main([*SWEEP, "hydra.sweep.dir=sweep"]) == 1
    capsys.readouterr()
    return [path for _, _, path in read_plan(Path("sweep"))]


def rows(text):
    return {line.split()[0]: line for line in text.splitlines() if line[:1].isdigit()}


@pytest.mark.slow
def test_a_row_for_every_job(jobs, capsys):
    first = jobs[0] / "results.jsonl"
    first.write_text("\n".join([*first.read_text().splitlines()[:1], "{broken", '{"id": "x', ""]))
    before = {path: path.read_bytes() for path in Path("sweep").rglob("*") if path.is_file()}
    assert cli.main(["status", "sweep"]) == 0
    shown = capsys.readouterr().out
    head, row = shown.splitlines()[0], rows(shown)
    assert head.split()[:4] == ["job", "overrides", "status", "problems"]
    assert head.split()[4:] == ["accuracy", "decoded", "seconds", "left"]
    assert row["0"].split()[1:6] == ["strategy=majority", "strategy.n=2", "partial", "1", "of"]
    assert row["1"].split()[1:7] == ["strategy=majority", "strategy.n=3", "complete", "4", "of", "4"]
    assert row["2"].split()[1:] == ["strategy=nosuch", "strategy.n=2", "failed"]
    assert "engine=fake" not in shown, "what all jobs share is not repeated"
    assert "job 0: of its results 2 lines cannot be read: 2, 3" in shown
    assert "job 2: ConfigError: strategy: there is no strategy 'nosuch'" in shown
    assert "4 jobs: 1 partial, 1 complete, 2 failed" in shown
    assert "about 11 problems left\n" in shown, "nobody is at work, so that nothing is said of time"
    assert "nobody runs the sweep" in shown
    assert {path: path.read_bytes() for path in Path("sweep").rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_who_is_at_work_and_how_fast(jobs, capsys):
    first = jobs[0] / "results.jsonl"
    first.write_text("\n".join(first.read_text().splitlines()[:3]) + "\n")
    with hold(Path("sweep"), "a sweep"), hold(jobs[0], "a run") as lock:
        lock._own = lock._own.__class__(lock._own.pid, "here", lock._own.since - 200)
        lock.tell(3, 1, 7.5)
        found = progress(jobs[0])
        assert (found.state, found.done, found.planned) == ("running", 3, 4)
        # Two problems in 200 seconds, one left.
        assert found.left == pytest.approx(100, abs=5)
        assert cli.main(["status", "sweep"]) == 0
    shown = capsys.readouterr().out
    assert "running" in rows(shown)["0"]
    assert "0:01:4" in rows(shown)["0"]
    assert f"job 0: process {os.getpid()} on here, at work since 2" in shown
    assert f"the sweep is run by process {os.getpid()}" in shown


def test_jobs_that_have_not_begun_count_as_the_others():
    from ttsflow.analysis.status import _rest

    done, half = Progress("complete", 4, 4, seconds=6e5), Progress("partial", 2, 4, seconds=3e5)
    jobs = [done, half, Progress("new")]
    assert _rest(jobs, None) == "about 6 problems left"
    # Four problems in a minute by the clock on the wall, whatever the engine's clock says.
    at_work = Holder(1, "here", time.time() - 60, done=2, kept=2)
    assert _rest(jobs, at_work).startswith("about 6 problems left, about 0:01:30 at the pace")
    assert _rest(jobs, Holder(1, "here", time.time(), kept=6)) == "about 6 problems left"
    assert _rest([done, done], None) == "nothing is left to do"
    assert _rest([Progress("new")], at_work) == "nobody knows yet how many problems are left"


def test_a_run_that_nobody_works_on_has_no_time_left(monkeypatch, capsys):
    """The clock of the fake engine is a virtual one, and nobody can wait by it."""
    step, steps = FakeEngine.step, [0]

    def breaks(self):
        steps[0] += 1
        if steps[0] == 60:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(FakeEngine, "step", breaks)
    assert cli.main(["run", "-q", "engine=fake", "concurrency=1", "hydra.run.dir=one"]) == 130
    assert capsys.readouterr().out == "to go on: the same words, and hydra.run.dir=one --resume\n"
    found = progress(Path("one"))
    assert (found.state, found.left) == ("partial", None)
    assert found.done > 0
    assert found.seconds > 0


def test_results_from_before_are_not_counted_as_made_by_a_run_that_goes_on(monkeypatch):
    words = ["run", "-q", "--resume", "engine=fake", "limit=3", "hydra.run.dir=one"]
    assert cli.main(words) == 0
    file = Path("one/results.jsonl")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    told, begin = [], RunFolder.tell

    def looks(self):
        told.append(progress(Path("one")))
        begin(self)

    monkeypatch.setattr(RunFolder, "tell", looks)
    assert cli.main(words) == 0
    assert [(at.done, at.holder.kept, at.left) for at in told] == [(2, 2, None)]


def test_a_single_run(capsys):
    assert cli.main(["run", "-q", "engine=fake", "limit=3", "hydra.run.dir=one"]) == 0
    capsys.readouterr()
    assert cli.main(["status", "one"]) == 0
    shown = capsys.readouterr().out
    assert "complete  3 of 3" in shown
    assert "jobs" not in shown


@pytest.mark.parametrize("folder", ["nosuch", ".", "x" * 5000])
def test_what_is_neither(folder, capsys):
    assert cli.main(["status", folder]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_plan_that_is_broken(capsys):
    Path("sweep").mkdir()
    for text in ("", "[]", '{"jobs": [{"number": 1}]}', '{"jobs": 3}'):
        Path("sweep/sweep.json").write_text(text)
        assert cli.main(["status", "sweep"]) == 2
        assert "is no plan of a sweep" in capsys.readouterr().err


def test_strange_files_are_no_traceback(tmp_path):
    (tmp_path / "summary.json").write_text('{"planned": true, "usage": 3, "error": ""}')
    (tmp_path / "results.jsonl").write_text('{"id": null, "usage": [], "correct": "x"}\n{}\n')
    found = progress(tmp_path)
    assert (found.state, found.planned, found.tokens, found.seconds) == ("partial", 0, 0, 0.0)
    (tmp_path / "summary.json").write_text("[[[")
    assert progress(tmp_path).state == "partial"


@pytest.mark.parametrize(
    ("text", "torn"), [("", False), ('{"a":1}\n', False), ('{"a":1}', False), ('{"a":1}\n{"a', True)]
)
def test_a_torn_line_is_known(tmp_path, text, torn):
    (tmp_path / "a").write_text(text)
    assert is_torn(tmp_path / "a") is torn


def test_a_new_folder_and_one_that_is_just_begun(tmp_path):
    assert progress(tmp_path / "none") == Progress("new")
    with hold(tmp_path / "just", "a run"):
        assert progress(tmp_path / "just").state == "running"
    assert str(Progress("partial", 1, 9, broken=(3, 4))) == "partial (1 of 9), 2 broken lines: 3, 4"
