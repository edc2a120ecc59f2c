"""Sweeps: every combination is a job, what is done is not done again, and nothing takes the others down."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ttsflow import cli
from ttsflow.engines import warm
from ttsflow.errors import ConfigError
from ttsflow.runs import job
from ttsflow.runs.job import Ended
from ttsflow.runs.jobs import check_folder, composed, job_name, numbered
from ttsflow.runs.locking import LOCK, hold
from ttsflow.runs.progress import progress, read_plan
from ttsflow.tasks.jsonl import Jsonl
from ttsflow.testing import FakeEngine

FAKE = ["engine=fake", "limit=2", "strategy.n=2"]
GRID = ["run", "-q", "-m", "engine=fake", "limit=3", "strategy=majority,ffs", "strategy.n=4,8"]
HERE = "hydra.sweep.dir=sweep"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    warm.close_all()


def summaries(folder):
    return {
        path.parent.name: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*/summary.json"))
    }


def name_of(words, config_dir):
    return job_name(words, composed(words, config_dir))


def files(folder):
    """Return what is in the files of a sweep's jobs, and when they were written."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(Path(folder).glob("*/*"))
        if path.is_file()
    }


def results(folder):
    """Return what every job of a sweep came to, by problem, without times."""
    found = {}
    for path in Path(folder).glob("*/results.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            key = (path.parent.name, record["id"])
            assert key not in found
            usage = record["usage"]
            counts = (usage["decoded"], usage["serial"], usage["requests"])
            found[key] = (record["answer"], record["outcome"], record["text"], counts)
    return found


@pytest.mark.slow
def test_a_sweep_runs_every_combination(capsys):
    argv = ["run", "-m", "engine=fake", "limit=2", "strategy=majority,ffs", "strategy.n=4,8"]
    assert cli.main([*argv, "hydra.sweep.dir=sweep"]) == 0
    shown = capsys.readouterr().out
    plan = shown.splitlines()[:5]
    assert plan[0] == "4 jobs: 4 new"
    assert plan[4] == "  3  new  engine=fake limit=2 strategy=ffs strategy.n=8"
    assert shown.splitlines()[5] == "in sweep", "before the first job"
    for number, line in enumerate(shown.splitlines()[6:10]):
        assert line.startswith(f"job {number} done: ")
        assert "decoded" in line
    found = summaries("sweep")
    assert [name.rpartition("-")[0] for name in found] == ["ffs-n4", "ffs-n8", "majority-n4", "majority-n8"]
    assert {summary["status"] for summary in found.values()} == {"complete"}
    table = shown.split("\n\n")[1].splitlines()
    assert table[0].split()[:3] == ["job", "overrides", "status"]
    assert table[4].startswith("3    strategy=ffs strategy.n=8       complete")
    assert "engine=fake" not in table[4], "what all jobs share is not repeated"


@pytest.mark.slow
def test_jobs_that_fail_say_why_in_their_folders_and_the_others_go_on(capsys):
    argv = [
        "run",
        "-m",
        *FAKE[:2],
        "strategy=nosuch,best_of_n,ffs",
        "strategy.n=4",
        "strategy.stages.keep.keep=2,1e3",
    ]
    assert cli.main([*argv, "hydra.sweep.dir=sweep"]) == 1
    shown = capsys.readouterr()
    found = [json.loads((folder / "summary.json").read_text()) for _, _, folder in read_plan(Path("sweep"))]
    assert [one["status"] for one in found] == ["failed"] * 4 + ["complete", "failed"]
    assert "there is no strategy 'nosuch'" in found[0]["error"]
    assert "Write 1000." in found[5]["error"]
    assert "Traceback" in found[5]["traceback"]
    assert shown.err.count(" failed: ") == 5
    assert "Traceback" not in shown.err
    assert shown.out.count("complete") == 1
    assert shown.out.endswith("to go on: the same words, and hydra.sweep.dir=sweep\n")


@pytest.mark.slow
def test_a_setting_that_only_some_strategies_have_fails_only_the_others():
    argv = ["run", "-m", *FAKE, "strategy=majority,ffs", "strategy.k=1"]
    assert cli.main([*argv, "hydra.sweep.dir=sweep"]) == 1
    assert sorted(summary["status"] for summary in summaries("sweep").values()) == ["complete", "failed"]


@pytest.mark.slow
def test_a_file_that_cannot_be_read_ends_a_sweep_before_its_first_job(tmp_path, capsys):
    file = tmp_path / "conf" / "strategy" / "broken.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("defaults: [majority\n")
    argv = ["run", "-m", "--config-dir", "conf", *FAKE[:2], "strategy=majority,broken", "strategy.n=2,3"]
    assert cli.main([*argv, "hydra.sweep.dir=sweep"]) == 2
    shown = capsys.readouterr()
    assert "not valid YAML" in shown.err
    assert shown.out == ""
    assert summaries("sweep") == {}


@pytest.mark.slow
def test_a_comma_that_makes_two_jobs_is_seen_in_the_plan(capsys):
    assert cli.main(["run", "-m", *FAKE, "+stop=a,b", "hydra.sweep.dir=sweep"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("2 jobs: 2 new\n  0  new  engine=fake limit=2 strategy.n=2 +stop=a\n")


@pytest.mark.slow
def test_a_list_is_one_job(capsys):
    assert cli.main(["run", "-m", *FAKE, "sampling.stop=[a,b]", "hydra.sweep.dir=sweep"]) == 0
    assert capsys.readouterr().out.startswith("1 job: 1 new\n")


@pytest.mark.slow
def test_a_model_name_with_a_slash_does_not_nest_folders():
    argv = ["run", "-m", "engine=fake", "limit=1", "+strategy.stages.sample.total=1,2", "task.seed=3"]
    folder = ["hydra.sweep.dir=sweep", "hydra.sweep.subdir=${hydra.job.override_dirname}"]
    assert cli.main([*argv, "engine.preempt=0.5", *folder]) == 0
    assert len(list(Path("sweep").glob("*/summary.json"))) == 2


@pytest.mark.slow
def test_an_interrupted_sweep_shows_what_it_has_done(monkeypatch, capsys):
    real = job.run_config

    def interrupted(mapping, folder, **more):
        if mapping["seed"] == 2:
            raise KeyboardInterrupt
        return real(mapping, folder, **more)

    monkeypatch.setattr(job, "run_config", interrupted)
    assert cli.main(["run", "-m", *FAKE, "seed=1,2,3", "hydra.sweep.dir=sweep"]) == 130
    shown = capsys.readouterr()
    assert shown.err == "interrupted\n"
    assert shown.out.endswith("to go on: the same words, and hydra.sweep.dir=sweep\n")
    assert "0    seed=1" in shown.out or "0    engine=fake" in shown.out
    assert [summary["seed"] for summary in summaries("sweep").values()] == [1]


# --- folders ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_folder_of_a_job_is_named_after_what_it_is():
    name = name_of(["strategy=ffs", "strategy.n=8", "engine=fake"], None)
    assert name.startswith("ffs-n8-")
    assert len(name) == len("ffs-n8-") + 10
    # The order of the words, a default written out and who is told do not count.
    for same in (
        ["engine=fake", "strategy.n=8", "strategy=ffs"],
        ["engine=fake", "strategy=ffs", "strategy.k=4", "seed=0"],
        ["engine=fake", "strategy=ffs", "logger=none", "logger.use=none"],
        ["engine=fake", "strategy=ffs", "engine.pool=samples.pool"],
    ):
        assert name_of(same, None) == name
    # What may change a result, or what is written, does; so does what only takes other time.
    for other in ("seed=1", "limit=3", "strategy.k=2", "concurrency=2", "engine.capacity=3", "trace=false"):
        assert name_of(["strategy=ffs", "strategy.n=8", "engine=fake", other], None) != name


def test_a_job_that_cannot_be_composed_has_a_folder_as_well():
    name = name_of(["strategy=nosuch", "limit=2"], None)
    assert name.startswith("job-")
    assert name_of(["limit=2", "strategy=nosuch"], None) == name
    assert name_of(["limit=3", "strategy=nosuch"], None) != name


def test_the_name_of_a_strategy_makes_no_folders_of_its_own(tmp_path):
    file = tmp_path / "conf" / "strategy" / "mine" / "short vote.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("use: sequence\nn: 3\nstages: {sample: {use: generate, n: '${strategy.n}'}}\n")
    name = name_of(["strategy='mine/short vote'", "engine=fake"], "conf")
    assert name.startswith("mine_short_vote-n3-")


@pytest.mark.slow
def test_equal_jobs_run_once(capsys):
    assert cli.main(["run", "-q", "-m", *FAKE[:2], "strategy.n=2,3,2", "seed=0,0", HERE]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("6 jobs: 2 new, 4 same\n")
    assert "  5  same as 0  engine=fake limit=2 strategy.n=2 seed=0" in shown
    assert len(summaries("sweep")) == 2


@pytest.mark.slow
def test_the_order_of_words_is_no_other_sweep(capsys):
    assert cli.main([*GRID, HERE]) == 0
    before = files("sweep")
    again = ["run", "-q", "-m", "strategy.n=8,4", "strategy=ffs,majority", "limit=3", "engine=fake", HERE]
    capsys.readouterr()
    assert cli.main(again) == 0
    assert capsys.readouterr().out.startswith("4 jobs: 4 complete\n")
    assert files("sweep") == before


@pytest.mark.slow
def test_a_folder_name_of_ones_own(capsys):
    own = [*FAKE[:2], "strategy.n=2,3", "hydra.sweep.subdir=n_${hydra.job.num}", HERE]
    assert cli.main(["run", "-q", "-m", *own]) == 0
    assert [*summaries("sweep")] == ["n_0", "n_1"]
    capsys.readouterr()
    assert cli.main(["run", "-q", "-m", *own]) == 0
    assert capsys.readouterr().out.startswith("2 jobs: 2 complete\n")


@pytest.mark.slow
def test_a_folder_of_ones_own_that_holds_another_job(capsys):
    own = ["run", "-q", "-m", *FAKE[:2], "hydra.sweep.subdir=${hydra.job.num}", HERE]
    assert cli.main([*own, "strategy.n=2,3"]) == 0
    before = files("sweep")
    assert cli.main([*own, "strategy.n=3,2"]) == 1
    err = capsys.readouterr().err
    assert "holds a run of another config" in err
    assert "variables.n was 2 and is 3" in err
    assert files("sweep") == before


@pytest.mark.slow
def test_a_folder_of_ones_own_may_have_any_name():
    own = "hydra.sweep.subdir='a=1,b ${hydra.job.num} (c)'"
    assert cli.main(["run", "-q", "-m", *FAKE[:2], "strategy.n=2,3", own, HERE]) == 0
    assert [*summaries("sweep")] == ["a=1,b 0 (c)", "a=1,b 1 (c)"]


# --- going on ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rerun_skips_what_is_complete_finishes_what_is_partial_and_retries_what_failed(capsys, monkeypatch):
    # One at a time: how far samples are that are ended early depends on what else is running.
    assert cli.main([*GRID, "concurrency=1", "hydra.sweep.dir=whole"]) == 0
    steps, step = [0], FakeEngine.step

    def breaks(self):
        steps[0] += 1
        if steps[0] in {100, 150}:
            raise KeyboardInterrupt if steps[0] == 150 else ZeroDivisionError("once")
        return step(self)

    monkeypatch.setattr(FakeEngine, "step", breaks)
    assert cli.main([*GRID, "concurrency=1", HERE]) == 130
    assert cli.main([*GRID, "concurrency=1", HERE]) in {0, 1}
    capsys.readouterr()
    states = {progress(folder).state for _, _, folder in read_plan(Path("sweep"))}
    assert states == {"complete"}
    assert results("sweep") == results("whole")


@pytest.mark.slow
def test_the_plan_says_how_far_every_job_is(capsys):
    assert cli.main([*GRID, HERE]) == 0
    (_, _, one), (_, _, two), (_, _, three), (_, _, four) = read_plan(Path("sweep"))
    cut = one / "results.jsonl"
    cut.write_text(cut.read_text().splitlines()[0] + "\n")
    for file in two.iterdir():
        file.unlink()
    summary = three / "summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "status": "failed"}))
    kept = files(four)
    capsys.readouterr()
    assert cli.main([*GRID, HERE]) == 0
    plan = capsys.readouterr().out.splitlines()[:5]
    assert plan[0] == "4 jobs: 1 new, 1 partial, 1 failed, 1 complete"
    assert [line.split()[:4] for line in plan[1:3]] == [
        ["0", "partial", "(1", "of"],
        ["1", "new", *plan[2].split()[2:4]],
    ]
    assert plan[3].split()[1] == "failed"
    assert plan[4].split()[1] == "complete"
    assert files(four) == kept
    assert {one["status"] for one in summaries("sweep").values()} == {"complete"}


@pytest.mark.slow
def test_a_larger_sweep_goes_on_with_a_smaller_one(capsys):
    assert cli.main([*GRID, HERE]) == 0
    capsys.readouterr()
    assert cli.main([*GRID, "strategy.n=4,8,16", HERE]) == 0
    assert capsys.readouterr().out.startswith("6 jobs: 2 new, 4 complete\n")
    assert sorted(number for number, _, _ in read_plan(Path("sweep"))) == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_numbers_go_on_in_a_second_sweep_of_one_folder(capsys):
    assert cli.main(["run", "-q", "-m", *FAKE, "seed=1,2", HERE]) == 0
    capsys.readouterr()
    for state in ("2 new", "2 complete"):
        assert cli.main(["run", "-q", "-m", *FAKE, "seed=3,4", HERE]) == 0
        plan = capsys.readouterr().out.splitlines()
        assert plan[0] == f"2 jobs: {state}"
        assert [line.split()[0] for line in plan[1:3]] == ["2", "3"]
    assert [number for number, _, _ in read_plan(Path("sweep"))] == [0, 1, 2, 3]
    assert cli.main(["status", "sweep"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:1].isdigit()]
    assert listed[:4] == ["0", "1", "2", "3"]


def test_numbers_of_jobs_are_unique_and_stay():
    before = [(0, ("a",), Path("a")), (2, ("b",), Path("b"))]
    asked = [
        (0, ["c"], Path("c")),
        (1, ["b", "x=1"], Path("b")),
        (2, ["a"], Path("new")),
        (3, ["a"], Path("a")),
    ]
    assert [number for number, _, _ in numbered(asked, before)] == [3, 2, 0, 4]
    assert [number for number, _, _ in numbered(asked, [])] == [0, 1, 2, 3]


def test_an_error_in_a_list_is_one_short_line():
    from ttsflow.listing import shortened

    assert shortened("short\nsecond") == "short"
    assert shortened("") == ""
    assert len(shortened("word " * 100)) <= 300
    assert shortened("word " * 100).endswith(" ...")


@pytest.mark.slow
def test_a_job_whose_words_are_right_at_last_leaves_its_failure_behind(tmp_path):
    words = ["run", "-q", "-m", "--config-dir", "conf", *FAKE[:2], "strategy=mine,majority", HERE]
    (tmp_path / "conf" / "strategy").mkdir(parents=True)
    assert cli.main(words) == 1
    (tmp_path / "conf" / "strategy" / "mine.yaml").write_text("defaults: [majority, _self_]\nn: 3\n")
    assert cli.main(words) == 0
    assert [progress(folder).state for _, _, folder in read_plan(Path("sweep"))] == ["complete"] * 2


@pytest.mark.slow
def test_a_sweep_that_is_interrupted_in_its_first_job_says_how_to_go_on(monkeypatch, capsys):
    def interrupted(mapping, folder, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "run_config", interrupted)
    assert cli.main(["run", "-q", "-m", *FAKE, "seed=1,2"]) == 130
    *_, place, told = capsys.readouterr().out.splitlines()
    assert told == f"to go on: the same words, and hydra.sweep.dir={place.removeprefix('in ')}"
    monkeypatch.undo()


@pytest.mark.slow
def test_a_single_run_does_not_go_into_the_folder_of_a_sweep(capsys):
    assert cli.main(["run", "-q", "-m", *FAKE, HERE]) == 0
    before = sorted(Path("sweep").iterdir())
    for more in ([], ["--resume"]):
        assert cli.main(["run", *more, *FAKE, "hydra.run.dir=sweep"]) == 2
        assert "sweep holds a sweep (jobs: 1), and a single run is not" in capsys.readouterr().err
    assert sorted(Path("sweep").iterdir()) == before


def test_a_sweep_does_not_go_into_the_folder_of_a_single_run(capsys):
    assert cli.main(["run", "-q", *FAKE, "hydra.run.dir=sweep"]) == 0
    capsys.readouterr()
    assert cli.main([*GRID, HERE]) == 2
    assert "hydra.sweep.dir: sweep holds a single run" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["notes.txt", "multirun.yaml"])
def test_a_folder_that_holds_something_else_is_refused(name, capsys):
    Path("sweep").mkdir()
    Path("sweep", name).write_text("mine")
    assert cli.main([*GRID, HERE]) == 2
    shown = capsys.readouterr()
    assert f"error: hydra.sweep.dir: sweep holds something else ({name})" in shown.err
    assert shown.out == ""
    assert [path.name for path in Path("sweep").iterdir()] == [name]


@pytest.mark.slow
def test_a_sweep_that_was_killed_before_it_wrote_its_plan_can_be_begun_again():
    Path("sweep").mkdir()
    Path("sweep", LOCK).write_text("")
    assert cli.main([*GRID, HERE]) == 0


def test_a_file_in_the_place_of_the_folder():
    Path("file").write_text("x")
    with pytest.raises(ConfigError, match=r"holds something else \(a file\)"):
        check_folder(Path("file"))
    assert cli.main([*GRID, "hydra.sweep.dir=file"]) == 2


@pytest.mark.parametrize(
    "damaged", [b"{", b"\xff", b"", b"[]", b'{"jobs": [{"number": 0, "overrides": [[1]], "folder": "a"}]}']
)
def test_a_damaged_plan_is_kept_and_the_sweep_goes_on(damaged, capsys):
    assert cli.main([*GRID, HERE]) == 0
    plan = Path("sweep/sweep.json")
    whole = {file: file.read_bytes() for file in sorted(Path("sweep").rglob("*")) if file.is_file()}
    plan.write_bytes(damaged)
    capsys.readouterr()
    assert cli.main(["status", "sweep"]) == 2
    said = capsys.readouterr().err
    assert "is no plan of a sweep" in said
    assert "hydra.sweep.dir=sweep keeps it as sweep.json.broken, and goes on" in said
    assert cli.main([*GRID, HERE]) == 0
    told = capsys.readouterr()
    assert "sweep/sweep.json was damaged, and is begun anew" in told.err
    assert " new" not in told.out
    broken = Path("sweep/sweep.json.broken")
    assert broken.read_bytes() == damaged
    now = {file: file.read_bytes() for file in sorted(Path("sweep").rglob("*")) if file.is_file()}
    assert {name: text for name, text in now.items() if name not in {broken, Path("sweep/.lock")}} == {
        name: text for name, text in whole.items() if name != Path("sweep/.lock")
    }
    plan.write_bytes(b"again")
    assert cli.main([*GRID, HERE]) == 0
    assert broken.read_bytes() == damaged
    assert Path("sweep/sweep.json.broken1").read_bytes() == b"again"


def test_a_plan_that_cannot_be_read_is_left_alone(capsys):
    Path("sweep/sweep.json").mkdir(parents=True)
    assert cli.main([*GRID, HERE]) == 2
    assert "sweep.json cannot be read" in capsys.readouterr().err
    assert [file.name for file in Path("sweep").glob("*.broken*")] == []


def questions(*changes, count=4):
    rows = [{"id": f"q{n}", "question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(count)]
    for place, key in changes:
        rows[place][key] += "9"
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


ASKED = [
    *("run", "-q", "-m", "engine=fake", "task=jsonl", "task.path=data.jsonl", "task.id=id", "strategy.n=2"),
    HERE,
]


@pytest.mark.parametrize("change", ["question", "answer"])
def test_complete_jobs_on_other_data_are_told_and_left_alone(change, capsys):
    questions()
    assert cli.main([*ASKED, "limit=2,4"]) == 0
    whole = files("sweep")
    questions((3, change))
    capsys.readouterr()
    assert cli.main([*ASKED, "limit=2,4"]) == 1
    told = capsys.readouterr()
    plan, _, table = told.out.partition("in sweep")
    first, second = (line for line in plan.splitlines() if "limit=" in line)
    assert "complete  " in first
    assert "complete, on other data" in second
    assert "1 on other data: the questions or gold answers of the task have changed since" in plan
    assert "failed" in table
    assert "holds a run on other questions or gold answers" in told.err
    assert "bring back the data" in told.err
    kept = files("sweep")
    assert {name: kept[name] for name in whole if ".lock" not in str(name)} == {
        name: text for name, text in whole.items() if ".lock" not in str(name)
    }
    questions()
    assert cli.main([*ASKED, "limit=2,4"]) == 0


def test_data_is_read_once_for_all_jobs_and_need_not_be_there(monkeypatch, capsys):
    questions()
    assert cli.main([*ASKED, "seed=0,1,2"]) == 0
    read = []
    found = Jsonl.problems
    monkeypatch.setattr(Jsonl, "problems", lambda task: read.append(1) or found(task))
    assert cli.main([*ASKED, "seed=0,1,2"]) == 0
    assert len(read) == 1
    Path("data.jsonl").unlink()
    capsys.readouterr()
    assert cli.main([*ASKED, "seed=0,1,2"]) == 0
    assert "3 complete" in capsys.readouterr().out


# --- who is at work ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_sweeps_on_one_folder(capsys):
    with hold(Path("sweep"), "a sweep"):
        assert cli.main([*GRID, HERE]) == 2
    shown = capsys.readouterr()
    assert f"in use by process {os.getpid()} on " in shown.err
    assert "one process at a time works on a sweep" in shown.err
    assert shown.out == ""


@pytest.mark.slow
def test_a_job_that_another_process_works_on_is_left_to_it(capsys):
    assert cli.main([*GRID, HERE]) == 0
    (_, _, folder), *_ = read_plan(Path("sweep"))
    before = files(folder)
    capsys.readouterr()
    with hold(folder, "a run"):
        assert cli.main([*GRID, HERE]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("4 jobs: 3 complete, 1 running\n")
    assert files(folder) == before


@pytest.mark.slow
def test_a_job_that_another_process_takes_up_meanwhile(capsys, monkeypatch):
    real = job.run_config

    def taken(mapping, folder, **more):
        with hold(folder, "a run"):
            return real(mapping, folder, **more)

    monkeypatch.setattr(job, "run_config", taken)
    assert cli.main(["run", "-m", *FAKE, HERE]) == 1
    assert "job 0 running: " in capsys.readouterr().err


# --- what goes wrong --------------------------------------------------------------------------------------


def test_a_folder_that_may_not_be_written(monkeypatch, capsys):
    real = os.open

    def refuses(path, flags, *more, **named):
        if str(path).endswith(LOCK):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuses)
    assert cli.main([*GRID, HERE]) == 2
    assert (
        "hydra.sweep.dir: the folder sweep cannot be written: Read-only file system"
        in capsys.readouterr().err
    )


LIMITED = """
import resource, sys
from ttsflow.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_disk_that_takes_no_more():
    """A limit on the size of files stands for the disk: the kernel refuses in the middle of a line."""
    words = ["run", "-q", "-m", "engine=fake", "task.size=60", "seed=0,1", HERE]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("cannot be written any further: File too large") == 2
    for _, _, folder in read_plan(Path("sweep")):
        found = progress(folder)
        assert found.state == "failed"
        assert 0 < found.done < 60
        assert not found.broken
        for line in (folder / "trace.jsonl").read_text().splitlines():
            json.loads(line)
    assert cli.main(words) == 0
    assert cli.main([*words[:-1], "hydra.sweep.dir=whole"]) == 0
    assert results("sweep") == results("whole")


@pytest.mark.slow
def test_a_corrupt_line_in_a_complete_job_is_seen_and_its_problem_run_again(capsys):
    assert cli.main([*GRID, HERE]) == 0
    before = results("sweep")
    (_, _, folder), *_ = read_plan(Path("sweep"))
    texts = (folder / "results.jsonl").read_text().splitlines()
    texts[1] = texts[1][:-9]
    (folder / "results.jsonl").write_text("\n".join(texts) + "\n")
    capsys.readouterr()
    assert cli.main([*GRID, HERE]) == 0
    shown = capsys.readouterr()
    assert "  0  partial (2 of 3), line 2 broken" in shown.out
    assert "1 line of " in shown.err
    assert results("sweep") == before


@pytest.mark.slow
def test_a_launcher_that_gives_up_loses_nothing(capsys, monkeypatch):
    from hydra._internal.core_plugins.basic_launcher import BasicLauncher

    real = BasicLauncher.launch

    def dies(self, overrides, initial_job_idx):
        real(self, overrides[:2], initial_job_idx)
        raise MemoryError("a worker was killed")

    monkeypatch.setattr(BasicLauncher, "launch", dies)
    assert cli.main([*GRID, HERE]) == 1
    shown = capsys.readouterr()
    assert "BasicLauncher gave up: MemoryError: a worker was killed" in shown.err
    assert shown.out.count("not begun") == 2
    monkeypatch.setattr(BasicLauncher, "launch", real)
    assert cli.main([*GRID, HERE]) == 0
    assert "4 jobs: 2 new, 2 complete" in capsys.readouterr().out


# --- ready sweeps -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_experiment_says_what_is_swept_over_and_the_command_line_wins(capsys):
    words = ["run", "-q", "-m", "experiment=search", "engine=fake", "limit=1"]
    assert cli.main([*words, "strategy=beam_search,rebase", "strategy.n=4", HERE]) == 0
    plan = capsys.readouterr().out.splitlines()[:3]
    assert plan[0] == "2 jobs: 2 new"
    assert plan[1].split() == [
        *("0", "new", "strategy=beam_search", "strategy.n=4", "experiment=search", "engine=fake", "limit=1")
    ]
    found = summaries("sweep").values()
    assert {(one["strategy"], one["task"], one["planned"]) for one in found} == {
        ("beam_search", "arithmetic", 1),
        ("rebase", "arithmetic", 1),
    }
    # What an experiment sets is the same job when it is written out.
    capsys.readouterr()
    plain = ["task=arithmetic", "verifier=equations", "engine=fake", "limit=1", "strategy.n=4"]
    assert cli.main(["run", "-q", "-m", *plain, "strategy=beam_search,rebase", HERE]) == 0
    assert capsys.readouterr().out.startswith("2 jobs: 2 complete\n")


@pytest.mark.slow
def test_an_experiment_of_ones_own(tmp_path, capsys):
    file = tmp_path / "conf" / "experiment" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "# @package _global_\ndefaults: [{override /engine: fake}, _self_]\nlimit: 1\n"
        "hydra: {sweeper: {params: {strategy: 'majority,single', seed: '1,2'}}}\n"
    )
    for word in ("experiment=mine", "+experiment=mine"):
        assert cli.main(["run", "-q", "-m", "--config-dir", "conf", word, HERE]) == 0
    shown = capsys.readouterr().out
    assert "4 jobs: 4 new" in shown
    assert "4 jobs: 4 complete" in shown


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("experiment=samples,search", "experiment: one at a time: each says what is swept over."),
        ("experiment=sampels", "there is no experiment 'sampels'. Did you mean 'samples'? Known: budgets, "),
    ],
)
def test_experiments_that_are_refused(word, message, capsys):
    assert cli.main(["run", "-q", "-m", word, "engine=fake", HERE]) == 2
    assert message in capsys.readouterr().err
    assert not Path("sweep").exists()


# --- sweepers that search ---------------------------------------------------------------------------------


def test_a_sweeper_that_searches_takes_accuracy_and_tokens():
    ended = Ended(0, (), "", "complete", {"accuracy": 0.25, "decoded": 70})
    assert float(ended) == 0.25
    assert [float(value) for value in ended] == [0.25, 70.0]
    assert len(ended) == 2


@pytest.mark.parametrize("status", ["failed", "partial", "running"])
def test_a_job_that_came_to_nothing_is_a_failure_to_a_sweeper(status):
    ended = Ended(3, (), "", status, {"accuracy": 0.5, "decoded": 70})
    with pytest.raises(ValueError, match=f"job 3 is {status}"):
        float(ended)
    with pytest.raises(ValueError, match="job 3"):
        list(ended)
    with pytest.raises(ValueError, match="no accuracy"):
        float(Ended(3, (), "", "complete", {"accuracy": None, "decoded": 70}))


def rounded(path):
    """Return the records of a file; differences of a clock that goes on from job to job are not exact."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        for place, key in (("usage", "seconds"), ("cost", "seconds")):
            if place in record:
                record[place][key] = round(record[place][key], 6)
    return records


# --- the order of jobs ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_order_of_jobs_changes_no_number():
    """Jobs share an engine, whose prefix cache is reset in between; figures and events are the same."""
    words = ["run", "-q", "-m", "engine=fake", "limit=6", "verifier=fake", "strategy.n=4"]
    for name, order in (("one", "majority,beam_search,ffs"), ("two", "ffs,beam_search,majority")):
        assert cli.main([*words, f"strategy={order}", f"hydra.sweep.dir={name}"]) == 0
    found = [
        {path.relative_to(name): rounded(path) for path in Path(name).glob("*/*.jsonl")}
        for name in ("one", "two")
    ]
    assert len(found[0]) == 6
    assert found[0] == found[1]
    assert len(warm._held) == 1
