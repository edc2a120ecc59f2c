"""A run that was cut short goes on from what it left, wherever it was cut, and comes to the same."""

import copy
import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.engines import warm
from ttsflow.errors import ConfigError
from ttsflow.run import run_config
from ttsflow.runs.earlier import differing
from ttsflow.runs.lines import LineFile
from ttsflow.runs.locking import LOCK, Locked, hold
from ttsflow.runs.progress import progress
from ttsflow.testing import FakeEngine

CONFIG = {
    "strategy": {
        "use": "sequence",
        "stages": {"sample": {"use": "generate", "n": 3}, "answer": {"use": "aggregate", "how": "majority"}},
    },
    "engine": {"use": "fake"},
    "task": {"use": "arithmetic", "size": 9},
    "verifier": None,
    "sampling": {"max_tokens": 20},
    "budget": {},
    "seed": 1,
    "concurrency": 3,
    "choices": {"strategy": "majority", "task": "arithmetic"},
}


@pytest.fixture(autouse=True)
def no_engine_is_left_warm():
    yield
    warm.close_all()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_config(CONFIG, folder)
    warm.close_all()
    return folder


def config(**changes):
    return {**copy.deepcopy(CONFIG), **changes}


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def told(folder):
    """Return what may not differ between two runs, by problem."""
    found = {}
    for record in lines(folder / "results.jsonl"):
        assert record["id"] not in found, "a result is doubled"
        tokens = {key: record["usage"][key] for key in ("output", "decoded", "serial", "requests", "prompt")}
        found[record["id"]] = (record["answer"], record["outcome"], record["text"], record["correct"], tokens)
    return found


def events(folder):
    """Return the events of a trace by problem, and check that there is one of each."""
    found = {}
    for event in lines(folder / "trace.jsonl"):
        found.setdefault(event["problem"], []).append(event)
    for mine in found.values():
        kinds = [event["event"] for event in mine]
        assert kinds.count("start") == kinds.count("result") == kinds.count("aggregate") == 1
        assert len({str(event["path"]) for event in mine if event["event"] == "candidate"}) == 3
    return found


def summary_of(folder):
    """Return a summary without its times and its folder."""
    summary = json.loads((folder / "summary.json").read_text())
    for key in ("goodput", "folder", "work"):
        del summary[key]
    for key in ("wall_seconds", "engine_steps", "cached_tokens"):
        del summary["usage"][key]
    del summary["cost"]["seconds"]
    return summary


def same(folder, whole):
    assert told(folder) == told(whole)
    assert summary_of(folder) == summary_of(whole)
    one, two = events(folder), events(whole)
    assert one.keys() == two.keys()
    for name in one:
        assert sorted(map(str, one[name])) == sorted(map(str, two[name]))
    names = {"config.yaml", "results.jsonl", "summary.json", "trace.jsonl"}
    assert {file.name for file in folder.iterdir()} - {"broken.txt"} == names


def partial(whole, folder, results, trace):
    """Make the folder of a run that was killed: that many bytes of its files, and its first summary."""
    shutil.copytree(whole, folder)
    for name, size in (("results.jsonl", results), ("trace.jsonl", trace)):
        os.truncate(folder / name, size)
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "status": "partial", "problems": 0}))


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_a_run_goes_on_wherever_it_was_cut(data, whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut") / "run"
    sizes = [(whole / name).stat().st_size for name in ("results.jsonl", "trace.jsonl")]
    partial(whole, folder, *(data.draw(st.integers(0, size)) for size in sizes))
    before = progress(folder)
    assert not before.broken
    assert run_config(CONFIG, folder, resume=True).status == "complete"
    same(folder, whole)
    assert progress(folder).state == "complete"


def test_what_is_kept_is_not_run_again(whole, tmp_path, monkeypatch):
    first = len((whole / "results.jsonl").read_bytes().splitlines(keepends=True)[0])
    partial(whole, tmp_path / "run", first, (whole / "trace.jsonl").stat().st_size)
    begun = []
    submit = FakeEngine.submit
    monkeypatch.setattr(
        FakeEngine, "submit", lambda self, request: begun.append(request) or submit(self, request)
    )
    run_config(CONFIG, tmp_path / "run", resume=True)
    assert len(begun) == 8 * 3
    same(tmp_path / "run", whole)


def test_a_run_is_killed_at_any_step_and_goes_on(whole, tmp_path, monkeypatch):
    """As the engine goes on step by step: each part ends with an exception that no one expects."""
    step, left = FakeEngine.step, [0]

    def breaks(self):
        left[0] -= 1
        if left[0] <= 0:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(FakeEngine, "step", breaks)
    parts = 0
    while True:
        left[0] = 25
        parts += 1
        try:
            summary = run_config(CONFIG, tmp_path / "run", resume=True)
            break
        except KeyboardInterrupt:
            assert progress(tmp_path / "run").state == "partial"
    assert parts > 2
    same(tmp_path / "run", whole)
    assert summary.usage["wall_seconds"] > 0


def test_seconds_are_those_of_all_parts(whole, tmp_path):
    folder = tmp_path / "run"
    partial(whole, folder, 0, 0)
    said = json.loads((folder / "summary.json").read_text())
    said["usage"]["wall_seconds"] = 1000.0
    (folder / "summary.json").write_text(json.dumps(said))
    # A process that was killed has written how long it was at it, with what went before, into its lock.
    lock = {"pid": 1, "host": "h", "since": 0.0, "done": 0, "kept": 0, "seconds": 2000.0}
    (folder / LOCK).write_text(json.dumps(lock))
    summary = run_config(CONFIG, folder, resume=True)
    alone = json.loads((whole / "summary.json").read_text())["usage"]["wall_seconds"]
    assert summary.usage["wall_seconds"] == pytest.approx(2000 + alone)


def test_a_complete_run_is_left_as_it_is(whole, tmp_path, monkeypatch):
    shutil.copytree(whole, tmp_path / "run")
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    monkeypatch.setattr(FakeEngine, "step", None)
    summary = run_config(CONFIG, tmp_path / "run", resume=True)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before
    assert json.loads(json.dumps(summary.as_dict())) == json.loads(before["summary.json"])


def test_a_run_that_only_lacks_its_end_needs_no_engine(whole, tmp_path, monkeypatch):
    sizes = [(whole / name).stat().st_size for name in ("results.jsonl", "trace.jsonl")]
    partial(whole, tmp_path / "run", *sizes)
    monkeypatch.setattr(FakeEngine, "step", None)
    assert run_config(CONFIG, tmp_path / "run", resume=True).status == "complete"
    same(tmp_path / "run", whole)


def test_resume_begins_a_run_where_there_is_none(whole, tmp_path):
    run_config(CONFIG, tmp_path / "run", resume=True)
    same(tmp_path / "run", whole)


@pytest.mark.slow
def test_what_failed_is_tried_again(whole, tmp_path):
    folder = tmp_path / "run"
    mapping = config(engine={"use": "fake", "dies_after": 25}, concurrency=2)
    summary = run_config(mapping, folder)
    assert summary.status == "failed"
    assert 0 < summary.failed < 9
    assert progress(folder).state == "failed"
    again = run_config(mapping, folder, resume=True)
    # The engine dies again, after as many steps; every time a few more are done.
    assert again.failed < summary.failed
    while run_config(mapping, folder, resume=True).status != "complete":
        pass
    assert told(folder) == told(whole)


# --- other configs --------------------------------------------------------------------------------------


def test_another_config_is_refused_and_the_keys_are_named(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    other = config(seed=2, limit=4)
    other["strategy"]["stages"]["sample"]["n"] = 4
    with pytest.raises(ConfigError, match="holds a run of another config") as caught:
        run_config(other, tmp_path / "run", resume=True)
    for part in (
        "seed was 1 and is 2",
        "limit was not set and is 4",
        "strategy.stages.sample.n was 3 and is 4",
    ):
        assert part in str(caught.value)
    assert "concurrency" not in str(caught.value)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before


def test_what_changes_no_answer_may_be_changed(whole, tmp_path):
    partial(whole, tmp_path / "run", 400, 3000)
    run_config(config(concurrency=1, trace=True, choices={}), tmp_path / "run", resume=True)
    assert told(tmp_path / "run") == told(whole)


def test_other_defaults_behind_equal_settings_are_told(whole, tmp_path):
    partial(whole, tmp_path / "run", 400, 3000)
    file = tmp_path / "run" / "summary.json"
    file.write_text(file.read_text().replace(json.loads(file.read_text())["fingerprint"], "0" * 64))
    with pytest.raises(ConfigError, match=r"its settings are the same, but other defaults .* \(ttsflow 0"):
        run_config(CONFIG, tmp_path / "run", resume=True)


def test_other_versions_are_told(whole, tmp_path, capsys):
    partial(whole, tmp_path / "run", 400, 3000)
    file = tmp_path / "run" / "summary.json"
    said = json.loads(file.read_text())
    said["versions"]["python"] = "3.0"
    file.write_text(json.dumps(said))
    run_config(CONFIG, tmp_path / "run", resume=True)
    assert "the rest is made by other versions: python was 3.0 and is 3." in capsys.readouterr().err


def test_results_of_problems_that_are_gone_are_refused(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    lost = lines(whole / "results.jsonl")[0]
    with (tmp_path / "run" / "results.jsonl").open("a") as file:
        file.write(json.dumps({**lost, "id": "old"}) + "\n")
    with pytest.raises(ConfigError, match=r"1 problems that the task does not have .* such as old"):
        run_config(CONFIG, tmp_path / "run", resume=True)


@pytest.mark.parametrize("changed", ["question", "answer"])
def test_other_data_in_the_same_file_is_refused(changed, tmp_path):
    file = tmp_path / "data.jsonl"
    rows = [{"id": f"q{n}", "question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(4)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mapping = config(task={"use": "jsonl", "path": str(file), "id": "id"})
    run_config(mapping, tmp_path / "run")
    results = tmp_path / "run" / "results.jsonl"
    results.write_text("".join(results.read_text().splitlines(keepends=True)[:2]))
    rows[3][changed] += "9"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigError, match="on other questions or gold answers") as caught:
        run_config(mapping, tmp_path / "run", resume=True)
    assert caught.value.path == "task"
    assert len(lines(results)) == 2


NONSENSE = {
    "no number": lambda record: record["usage"].update(output="many"),
    "below zero": lambda record: record["usage"].update(output=-50_000),
    "no grade": lambda record: record.update(correct="yes"),
    "no outcome": lambda record: record.update(outcome="banana"),
    "no text": lambda record: record.update(answer=3),
    "no id": lambda record: record.update(id=None),
    "nothing else": lambda record: [record.pop(key) for key in list(record) if key != "id"],
}


@pytest.mark.parametrize("spoil", NONSENSE.values(), ids=list(NONSENSE))
def test_a_line_that_no_run_writes_is_no_result(spoil, whole, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    path = folder / "results.jsonl"
    written = path.read_text(encoding="utf-8").splitlines(keepends=True)
    record = json.loads(written[1])
    spoil(record)
    spoilt = json.dumps(record) + "\n"
    path.write_text(written[0] + spoilt + "".join(written[2:]), encoding="utf-8")
    seen = progress(folder)
    assert (seen.state, seen.done, seen.broken) == ("partial", 8, (2,))
    run_config(config(), folder, resume=True)
    assert told(folder) == told(whole)
    assert "1 line of" in (note := capsys.readouterr().err)
    assert "(line 2)" in note
    assert (folder / "broken.txt").read_text(encoding="utf-8") == spoilt


def test_results_without_a_config_are_refused(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "config.yaml").unlink()
    with pytest.raises(ConfigError, match=r"without a config\.yaml"):
        run_config(CONFIG, tmp_path / "run", resume=True)


def test_keys_that_differ_are_named_down_to_their_ends():
    old = {"a": {"b": 1, "c": {}}, "concurrency": 2, "d": (1, 2)}
    assert differing(old, {"a": {"b": 2, "c": {}}, "concurrency": 3, "d": [1, 2]}) == ["a.b"]
    assert differing(old, {"a": {"b": 1, "c": {"e": None}}, "d": [1]}) == ["a.c", "a.c.e", "d"]


# --- runs that cannot go on from their middle -----------------------------------------------------------


def test_a_run_with_a_budget_of_its_own_is_begun_anew(tmp_path, capsys, monkeypatch):
    mapping = config(budget={"run": {"tokens": 200}})
    run_config(mapping, tmp_path / "whole")
    folder = tmp_path / "run"
    flush = LineFile.flush

    def killed(self):
        if self.path.name == "results.jsonl" and self.path.stat().st_size:
            raise KeyboardInterrupt
        flush(self)

    monkeypatch.setattr(LineFile, "flush", killed)
    with pytest.raises(KeyboardInterrupt):
        run_config(mapping, folder)
    monkeypatch.undo()
    before = (folder / "results.jsonl").read_text()
    assert before
    run_config(mapping, folder, resume=True)
    assert told(folder) == told(tmp_path / "whole")
    assert (folder / "earlier-1" / "results.jsonl").read_text() == before
    assert yaml.safe_load((folder / "earlier-1" / "config.yaml").read_text()) == mapping
    err = capsys.readouterr().err
    assert "note: begun anew, since a budget of the run is shared by all problems" in err
    assert "earlier-1" in err
    # One that is complete stays.
    assert run_config(mapping, folder, resume=True).status == "complete"
    assert not (folder / "earlier-2").exists()


def test_a_run_that_had_no_result_leaves_nothing_aside(whole, tmp_path, capsys):
    mapping = config(budget={"run": {"tokens": 200}})
    run_config(mapping, tmp_path / "run")
    for name in ("results.jsonl", "trace.jsonl"):
        os.truncate(tmp_path / "run" / name, 0)
    file = tmp_path / "run" / "summary.json"
    file.write_text(file.read_text().replace('"complete"', '"partial"'))
    run_config(mapping, tmp_path / "run", resume=True)
    assert not (tmp_path / "run" / "earlier-1").exists()
    assert capsys.readouterr().err == ""


# --- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ['{"id": "x", "ans', "[1, 2]", '{"id": "x"}', "\x00\x00", '{"id": "x", "usage": 3}']
)
def test_a_corrupt_line_is_skipped_counted_and_named(line, whole, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    file = folder / "results.jsonl"
    texts = file.read_text().splitlines()
    lost, texts[2] = texts[2], line
    file.write_text("\n".join(texts) + "\n")
    found = progress(folder)
    assert (found.state, found.done, found.broken) == ("partial", 8, (3,))
    assert str(found) == "partial (8 of 9), line 3 broken"
    assert run_config(CONFIG, folder, resume=True).status == "complete"
    same(folder, whole)
    err = capsys.readouterr().err
    assert err.startswith("note: 1 line of ")
    assert "(line 3) could not be read" in err
    assert (folder / "broken.txt").read_text() == line + "\n"
    assert json.loads(lost)["id"] in told(folder)


@pytest.mark.slow
def test_two_processes_on_one_folder(tmp_path):
    with hold(tmp_path / "run", "a run"):
        for resume in (False, True):
            with pytest.raises(Locked, match=f"is in use by process {os.getpid()}"):
                run_config(CONFIG, tmp_path / "run", resume=resume)


def test_a_run_lets_its_folder_go(tmp_path):
    run_config(CONFIG, tmp_path / "run")
    assert not (tmp_path / "run" / LOCK).exists()


def full_after(monkeypatch, name, count):
    """Let the disk take ``count`` flushes of one file and no more, nor a summary."""
    flush, write = LineFile.flush, Path.write_text
    done = [0]

    def flushes(self):
        if self.path.name == name and self._held:
            done[0] += 1
            if done[0] > count:
                self._held.clear()
                raise OSError(errno.ENOSPC, "No space left on device", str(self.path))
        flush(self)

    def writes(self, text, *args, **more):
        if done[0] > count:
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return write(self, text, *args, **more)

    monkeypatch.setattr(LineFile, "flush", flushes)
    monkeypatch.setattr(Path, "write_text", writes)


@pytest.mark.parametrize("name", ["results.jsonl", "trace.jsonl"])
@pytest.mark.parametrize("count", [0, 3])
def test_a_full_disk_ends_the_run_and_what_was_written_is_whole(name, count, whole, tmp_path, monkeypatch):
    full_after(monkeypatch, name, count)
    summary = run_config(CONFIG, tmp_path / "run")
    assert summary.status == "failed"
    assert f"{name} cannot be written any further: No space left on device" in summary.error
    assert "--resume" in summary.error
    monkeypatch.undo()
    assert progress(tmp_path / "run").state == "partial"
    assert len(lines(tmp_path / "run" / "results.jsonl")) >= (count if name == "results.jsonl" else 0)
    assert run_config(CONFIG, tmp_path / "run", resume=True).status == "complete"
    same(tmp_path / "run", whole)


def test_a_disk_that_is_full_at_the_very_end(whole, tmp_path, monkeypatch):
    full_after(monkeypatch, "results.jsonl", 9)
    write = Path.write_text

    def writes(self, text, *args, **more):
        if '"complete"' in text:
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return write(self, text, *args, **more)

    monkeypatch.setattr(Path, "write_text", writes)
    summary = run_config(CONFIG, tmp_path / "run")
    assert (summary.status, summary.problems) == ("failed", 9)
    assert "the summary cannot be written: No space left on device" in summary.error
    monkeypatch.undo()
    assert run_config(CONFIG, tmp_path / "run", resume=True).status == "complete"
    same(tmp_path / "run", whole)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_may_not_be_written(number, tmp_path, monkeypatch):
    real = os.open

    def refuses(path, flags, *more, **named):
        if str(path).startswith(str(tmp_path)) and flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(ConfigError, match=f"cannot be written: {os.strerror(number)}; choose another"):
        run_config(CONFIG, tmp_path / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be written"):
        run_config(CONFIG, tmp_path / "run")
