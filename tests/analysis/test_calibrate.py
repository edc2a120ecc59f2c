"""`ttsflow calibrate`: what it measures, writes, and refuses."""

import json
from types import SimpleNamespace

import pytest

from ttsflow import cli
from ttsflow.analysis import calibrating
from ttsflow.analysis.calibrating import Plan, calibrate
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.costs.calibrated import read_calibration
from ttsflow.errors import ConfigError, DataError, TtsflowError
from ttsflow.metrics import rates
from ttsflow.run import run_config

FAKE = ["engine=fake", "task=arithmetic", "task.size=6"]
METER = ["meter=model", "meter.busy_watts=450"]


def calibrated(tmp_path, *words, name="profile.json"):
    path = tmp_path / name
    assert cli.main(["calibrate", *words, "-o", str(path)]) == 0
    return path


def refused(words, tmp_path):
    with pytest.raises(ConfigError) as caught:
        cli.COMMANDS["calibrate"]([*words, "-o", str(tmp_path / "p.json")])
    assert not (tmp_path / "p.json").exists()
    return caught.value


@pytest.mark.slow
def test_a_profile_is_measured_and_a_run_goes_by_it(tmp_path, capsys):
    path = calibrated(tmp_path, *FAKE, *METER, "--problems", "4", "--rungs", "1", "2", "4")
    told = capsys.readouterr().out
    assert "cost in joules" in told
    assert "accuracy" in told
    assert "4 questions, 28 samples" in told
    profile = read_calibration(str(path), "joules", "profile")
    assert (profile.rungs, profile.questions, profile.loads) == ((1, 2, 4), 4, (0.0,))
    assert profile.task == "arithmetic"
    budget = 12 * profile.price(4, 0.0)
    settings = [f"strategy.profile={path}", "strategy.rungs=[1,2,4]", "strategy.n=4", "concurrency=1"]
    run = [*FAKE, *METER, "strategy=atest_calibrated", f"budget.run.joules={budget}", *settings]
    summary = run_config(compose(run), tmp_path / "run")
    assert (summary.status, summary.deferred) == ("complete", 0)
    assert (tmp_path / "run" / "learnt.json").exists()
    for strategy in ("atest_online", "atest_reserve"):
        start = [f"strategy={strategy}", f"strategy.start={path}"]
        begun = [*FAKE, *METER, *start, f"budget.run.joules={budget}", "concurrency=1"]
        assert run_config(compose(begun), tmp_path / strategy).status == "complete"


@pytest.mark.slow
def test_accuracy_is_that_of_votes_of_subsets_and_cost_that_of_each_number(tmp_path):
    path = calibrated(tmp_path, "engine=replay", "task=recorded", "--problems", "5")
    profile = read_calibration(str(path), "tokens", "profile")
    assert profile.rungs == (1, 3, 4, 6, 8)
    setup = assemble(compose(["engine=replay", "task=recorded", "strategy=majority"]), checked=False)
    chosen = calibrating._chosen(list(setup.task.problems()), 5)
    assert len({problem.id for problem in chosen}) == 5
    log = calibrating._Log()
    calibrating._run(calibrating._steps(setup, Plan("tokens", (8,), 5), 8, log), chosen, None)
    shares = [calibrating._graded(setup, problem, log.pools[problem.id]) for problem in chosen]
    found = rates(shares, profile.rungs)
    assert profile.measured == tuple(found[rung]["maj@k"] for rung in profile.rungs)
    costs = [cost for _, _, cost in log.queries]
    assert sum(costs) / 5 == pytest.approx(profile.price(8, 0.0), rel=0.25)


def test_written_loads_are_told_apart(tmp_path):
    loads = ["load=trace", "load.levels=[0,0.5]", "load.per=problem", "load.cycle=true", "load.each=1"]
    path = calibrated(tmp_path, *FAKE, *loads, "--problems", "4", "--rungs", "1,2", "--unit", "seconds")
    profile = read_calibration(str(path), "seconds", "profile")
    assert profile.loads == (0.0, 0.5)


def test_each_load_is_made_while_it_is_measured(tmp_path, monkeypatch):
    made = []

    class Injector:
        def __init__(self, level, device):
            made.append((level, device, "on"))
            self.level = level

        def __enter__(self):
            return self

        def __exit__(self, *error):
            made.append((self.level, "off"))

        def check(self):
            pass

    monkeypatch.setattr(calibrating, "Injector", Injector)
    setup = assemble(compose([*FAKE, "strategy=majority"]), checked=False)
    found = calibrate(setup, Plan("seconds", (1, 2), 2, (0.0, 0.55)), ("m", "t"))
    assert made == [(0.0, "cpu", "on"), (0.0, "off"), (0.55, "cpu", "on"), (0.55, "off")]
    assert len(found.cells) == 4


def test_settings_may_follow_an_option_of_several_words(tmp_path):
    path = calibrated(tmp_path, "engine=fake", "--rungs", "1", "3", "task=arithmetic", "--problems", "2")
    assert json.loads(path.read_text())["rungs"] == [1, 3]


def test_the_first_query_of_a_real_machine_is_left_out():
    queries = [(1, 0.0, 9.0), (1, 0.2, 1.0)]
    setup = SimpleNamespace(engine=SimpleNamespace())
    assert calibrating._settled(queries, setup) == queries[1:]
    assert calibrating._settled(queries[:1], setup) == queries[:1]
    setup.engine.virtual = True
    assert calibrating._settled(queries, setup) == queries


@pytest.mark.parametrize(
    ("words", "path", "message"),
    [
        (["--rungs", "3", "1"], "--rungs", "rise from at least 1"),
        (["--rungs", "one"], "--rungs", "'one' is none"),
        (["--rungs", "0"], "--rungs", "rise from at least 1"),
        (["--loads", "1.5"], "--loads", "between 0"),
        (["--loads", "0.5"], "--loads", "clock is virtual"),
        (["--problems", "0"], "--problems", "at least one question"),
        (["--unit", "joules"], "--unit", "counted by a meter"),
        (["--unit", "second"], "--unit", "Did you mean 'seconds'"),
        (["--unit", "seconds", "concurrency=4"], "concurrency", "share the clock"),
        (["strategy=ffs"], "strategy", "leave strategy out"),
        (["+budget.run.tokens=5"], "budget", "leave budget out"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(words, path, message, tmp_path):
    error = refused(["engine=fake", *words], tmp_path)
    assert error.path == path
    assert message in str(error)


@pytest.mark.slow
def test_loads_that_nobody_would_see_are_refused(tmp_path):
    assert "add load=cpu" in str(refused(["engine=vllm", "--loads", "0", "0.5"], tmp_path))


def test_nothing_is_overwritten(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="nothing is overwritten"):
        cli.COMMANDS["calibrate"](["engine=fake", "-o", str(path)])
    assert path.read_text() == "mine"
    with pytest.raises(ConfigError, match="there is no folder"):
        cli.COMMANDS["calibrate"](["engine=fake", "-o", str(tmp_path / "none" / "profile.json")])


def test_more_samples_than_an_engine_has_are_refused(tmp_path):
    error = refused(["engine=replay", "task=recorded", "--rungs", "1", "9"], tmp_path)
    assert "this engine has 8 of each" in str(error)


def test_a_task_without_right_answers_is_refused(tmp_path):
    data = tmp_path / "questions.jsonl"
    data.write_text('{"prompt": "What?"}\n')
    words = ["engine=fake", "task=plain", f"task.path={data}", "--unit", "tokens"]
    with pytest.raises((DataError, ConfigError)):
        cli.COMMANDS["calibrate"]([*words, "-o", str(tmp_path / "p.json")])


def test_questions_that_fail_end_it(monkeypatch):
    setup = assemble(compose(["engine=fake", "task=arithmetic", "strategy=majority"]), checked=False)

    def broken(self, text, problem):
        raise ValueError("no")

    monkeypatch.setattr(type(setup.task), "answer", broken)
    with pytest.raises(TtsflowError, match="questions failed: "):
        calibrate(setup, Plan("tokens", (1,), 2), ("m", "t"))


def test_costs_of_nothing_are_refused(monkeypatch):
    setup = assemble(compose([*FAKE, "strategy=majority"]), checked=False)
    monkeypatch.setitem(setup.costs, "tokens", lambda usage: 0.0)
    with pytest.raises(DataError, match="shorter than what the meter can tell"):
        calibrate(setup, Plan("tokens", (1,), 2), ("m", "t"))
