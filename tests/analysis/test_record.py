import json
import shutil

import pytest

from ttsflow import cli
from ttsflow.analysis.record import record
from ttsflow.config import compose
from ttsflow.errors import ConfigError, DataError
from ttsflow.lineage import content_id
from ttsflow.recordings import read_recordings
from ttsflow.run import run_config
from ttsflow.tasks.arithmetic import Arithmetic

TASK = ["task=jsonl", "task.kind=number", "task.chat=false"]


@pytest.fixture
def ran(tmp_path):
    """Run on made-up questions, whose answers the fake engine meets now and then."""
    data = tmp_path / "questions.jsonl"
    rows = [{"question": f"Is it {i}?", "answer": str(i % 5)} for i in range(6)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(name, *chosen, engine="fake"):
        folder = tmp_path / name
        run_config(compose([*TASK, f"task.path={data}", f"engine={engine}", *chosen]), folder)
        return folder

    return run


def results(folder):
    found = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    spent = ("decoded", "serial", "prompt", "requests")
    said = ("answer", "outcome", "correct", "text")
    return {one["id"]: [one[k] for k in said] + [one["usage"][k] for k in spent] for one in found}


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.slow
def test_a_run_played_back_is_the_same_run(ran, tmp_path):
    first = ran("first", "strategy=majority", "strategy.n=8")
    done = record(first, tmp_path / "r.jsonl.gz")
    assert done == (6, 48, {})
    again = ran(
        "again", "strategy=majority", "strategy.n=8", f"engine.path={tmp_path}/r.jsonl.gz", engine="replay"
    )
    assert results(again) == results(first)
    assert summary(again)["accuracy"] == summary(first)["accuracy"]
    assert 0 < summary(first)["accuracy"] < 1
    # And the tokens of first-finish search are those of the engine that drew the samples.
    chosen = ("strategy=ffs", "strategy.n=8", "strategy.k=2")
    direct = ran("direct", *chosen, "engine.capacity=64")
    replayed = ran("replayed", *chosen, f"engine.path={tmp_path}/r.jsonl.gz", engine="replay")
    assert results(replayed) == results(direct)


@pytest.mark.slow
def test_what_a_file_holds(ran, tmp_path):
    folder = ran(
        "run", "strategy=best_of_n", "strategy.n=3", "verifier=fake", "record=4", "sampling.max_tokens=30"
    )
    record(folder, tmp_path / "r.jsonl")
    recordings = read_recordings(tmp_path / "r.jsonl")
    events = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    drawn = {(e["problem"], e["path"][0]): e for e in events if e["event"] == "candidate"}
    scored = {(e["problem"], e["path"][0]): e["scores"] for e in events if e["event"] == "score"}
    assert len(recordings) == 6
    finishes = set()
    for recording in recordings:
        assert (recording.model, recording.dataset, recording.prompt_tokens) == ("fake", "jsonl", 8)
        assert recording.id == recordings[0].id or recording.prompt != recordings[0].prompt
        for number, sample in enumerate(recording.samples):
            event = drawn[recording.id, number]
            assert (sample.tokens, sample.text, sample.finish) == (
                event["tokens"],
                event["text"],
                event["finish"],
            )
            assert sample.answer == event.get("answer")
            assert list(sample.scores) == scored[recording.id, number]
            assert [list(entry) for entry in sample.logprobs] == event["logprobs"]
            assert sample.correct == (sample.answer == recording.gold)
            finishes.add(sample.finish)
    assert finishes == {"stop", "length"}


def test_the_prompt_is_known_again(tmp_path):
    run_config(compose(["engine=fake", "limit=2", "strategy.n=2"]), tmp_path / "run")
    record(tmp_path / "run", tmp_path / "r.jsonl")
    problems = Arithmetic().problems()[:2]
    assert [r.prompt for r in read_recordings(tmp_path / "r.jsonl")] == [
        content_id(repr(p.prompt)) for p in problems
    ]


@pytest.mark.slow
def test_texts_can_be_left_out(ran, tmp_path):
    folder = ran("run", "strategy=majority", "strategy.n=4")
    record(folder, tmp_path / "with.jsonl")
    record(folder, tmp_path / "without.jsonl", texts=False)
    assert "text" not in (tmp_path / "without.jsonl").read_text()
    for one, other in zip(
        *(read_recordings(tmp_path / f"{n}.jsonl") for n in ("with", "without")), strict=True
    ):
        assert [(s.answer, s.tokens, s.correct) for s in one.samples] == [
            (s.answer, s.tokens, s.correct) for s in other.samples
        ]


def test_aborted_samples_are_left_out_and_counted(ran, tmp_path, capsys):
    folder = ran("run", "strategy=ffs", "strategy.n=6", "strategy.k=1", "engine.capacity=64")
    assert cli.main(["record", str(folder), "-o", str(tmp_path / "r.jsonl")]) == 0
    out, err = capsys.readouterr()
    kept = sum(len(recording.samples) for recording in read_recordings(tmp_path / "r.jsonl"))
    assert f"{kept} samples of 6 problems in " in out
    assert (
        f"warning: {36 - kept} samples are left out: {36 - kept} aborted; what is left leans towards short"
        in err
    )


def test_failed_samples_are_left_out(ran, tmp_path):
    folder = ran("run", "strategy=majority", "strategy.n=2")
    trace = (folder / "trace.jsonl").read_text().replace('"finish":"stop"', '"finish":"failed"', 1)
    (folder / "trace.jsonl").write_text(trace)
    assert record(folder, tmp_path / "r.jsonl") == (6, 11, {"failed": 1})


def test_what_continues_a_sample_is_left_out(ran, tmp_path):
    folder = ran("run", "strategy=majority", "strategy.n=2")
    lines = (folder / "trace.jsonl").read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if '"candidate"' in line)
    lines.insert(place, lines[place].replace('"path":[', '"path":[7,'))
    (folder / "trace.jsonl").write_text("\n".join(lines) + "\n")
    assert record(folder, tmp_path / "r.jsonl") == (6, 12, {"continued": 1})
    known = [recording.prompt_tokens for recording in read_recordings(tmp_path / "r.jsonl")]
    assert known == [8] * 6


@pytest.mark.slow
def test_a_run_in_steps_is_refused(ran, tmp_path):
    folder = ran("run", "strategy=beam_search", "strategy.n=4", "verifier=fake", "sampling.max_step_tokens=4")
    with pytest.raises(ConfigError, match="the run made its trajectories step by step"):
        record(folder, tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()


def test_folders_that_hold_no_run(ran, tmp_path):
    with pytest.raises(ConfigError, match=r"there is no config\.yaml"):
        record(tmp_path, tmp_path / "r.jsonl")
    folder = ran("run", "strategy.n=1", "trace=false")
    with pytest.raises(ConfigError, match=r"there is no trace\.jsonl .* trace=false"):
        record(folder, tmp_path / "r.jsonl")


@pytest.mark.parametrize(("text", "message"), [("a: [", "cannot be read"), ("- 1", "is no config")])
def test_a_broken_config_is_named(ran, tmp_path, text, message):
    folder = ran("run", "strategy.n=1")
    (folder / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"config\.yaml {message}"):
        record(folder, tmp_path / "r.jsonl")


def test_data_that_has_changed_is_noticed(ran, tmp_path):
    folder = ran("run", "strategy.n=1")
    (tmp_path / "questions.jsonl").write_text('{"question": "Another?", "answer": "1"}\n')
    with pytest.raises(DataError, match="is none of the run's task; its data must have changed"):
        record(folder, tmp_path / "r.jsonl")


def test_nothing_whole_is_an_error(ran, tmp_path):
    folder = ran("run", "strategy.n=2", "budget.problem.tokens=1")
    with pytest.raises(ConfigError, match="no sample that ended by itself or at a limit"):
        record(folder, tmp_path / "r.jsonl")


def test_nothing_is_overwritten(ran, tmp_path):
    folder = ran("run", "strategy.n=1")
    record(folder, tmp_path / "r.jsonl")
    with pytest.raises(ConfigError, match="exists, and nothing is overwritten"):
        record(folder, tmp_path / "r.jsonl")


def test_a_model_in_a_folder_is_named_by_its_last_part(ran, tmp_path):
    folder = ran("run", "strategy.n=1")
    config = (
        (folder / "config.yaml")
        .read_text()
        .replace("use: fake", "use: vllm\n  model: /home/me/models/small", 1)
    )
    (folder / "config.yaml").write_text(config)
    record(folder, tmp_path / "r.jsonl")
    assert {recording.model for recording in read_recordings(tmp_path / "r.jsonl")} == {"small"}


def test_the_command_line(ran, tmp_path, capsys):
    folder = ran("run", "strategy.n=2")
    assert cli.main(["record", str(folder), "--no-text", "-o", str(tmp_path / "r.jsonl")]) == 0
    assert capsys.readouterr() == (f"12 samples of 6 problems in {tmp_path}/r.jsonl\n", "")
    assert cli.main(["record", str(folder), "-o", str(tmp_path / "r.txt")]) == 2
    assert ".jsonl.gz file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["record", str(folder)])
    assert "-o/--output" in capsys.readouterr().err


# --- runs that did not end well -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_config(compose(["engine=fake", "strategy=majority", "strategy.n=4", "task.size=5"]), folder)
    return folder


def copied(whole, folder):
    shutil.copytree(whole, folder)
    return folder


def test_problems_that_had_not_ended_are_left_out_and_counted(whole, tmp_path):
    run = copied(whole, tmp_path / "killed")
    lines = (run / "results.jsonl").read_text().splitlines()
    (run / "results.jsonl").write_text("\n".join(lines[:3]) + "\n")
    done = record(run, tmp_path / "out.jsonl")
    assert (done.problems, done.samples) == (3, 12)
    assert done.left_out["of problems that had not ended"] == 8


def test_half_a_last_line_is_left_out_and_counted(whole, tmp_path):
    run = copied(whole, tmp_path / "cut")
    text = (run / "trace.jsonl").read_text()
    (run / "trace.jsonl").write_text(text + '{"event":"candidate","pro')
    done = record(run, tmp_path / "out.jsonl")
    assert (done.problems, dict(done.left_out)) == (5, {"in broken lines": 1})


@pytest.mark.parametrize("change", [{"path": None}, {"path": ["a"]}, {"path": []}, {"tokens": "y"}])
def test_damaged_events_are_left_out_and_counted(whole, tmp_path, change):
    run = copied(whole, tmp_path / "damaged")
    lines = [json.loads(line) for line in (run / "trace.jsonl").read_text().splitlines()]
    place = next(i for i, line in enumerate(lines) if line["event"] == "candidate")
    lines[place] |= change
    (run / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert record(run, tmp_path / "out.jsonl").left_out["in damaged events"] == 1


@pytest.mark.parametrize("target", ["nodir/a.jsonl", "file/a.jsonl", f"{'x' * 300}.jsonl"])
def test_a_target_that_cannot_be_written_is_refused(whole, tmp_path, target):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"no folder|cannot be written"):
        record(whole, tmp_path / target)
