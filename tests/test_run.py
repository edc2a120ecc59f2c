"""One run from a plain mapping to a results folder."""

import copy
import json
import math

import pytest
import yaml

from ttsflow.composing.assemble import assemble
from ttsflow.display import Display
from ttsflow.engines import warm
from ttsflow.errors import ConfigError, ModelError
from ttsflow.run import run_config
from ttsflow.testing import FakeEngine, FakeEnginePart
from ttsflow.trace import finite

CONFIG = {
    "strategy": {
        "use": "sequence",
        "stages": {"sample": {"use": "generate", "n": 4}, "answer": {"use": "aggregate", "how": "majority"}},
    },
    "engine": {"use": "fake"},
    "task": {"use": "arithmetic", "size": 12},
    "verifier": None,
    "sampling": {"max_tokens": 40},
    "budget": {},
    "seed": 1,
    "concurrency": 4,
    "choices": {"strategy": "majority", "task": "arithmetic"},
}


@pytest.fixture(autouse=True)
def no_engine_is_left_warm():
    yield
    warm.close_all()


def config(**changes):
    """Return the config with some dotted keys changed (``__`` for a dot)."""
    made = copy.deepcopy(CONFIG)
    for key, value in changes.items():
        *where, last = key.split("__")
        target = made
        for name in where:
            target = target.setdefault(name, {})
        target[last] = value
    return made


def lines(path):
    def refuse(name):
        raise AssertionError(name)

    return [json.loads(line, parse_constant=refuse) for line in path.read_text(encoding="utf-8").splitlines()]


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def test_a_complete_run_leaves_a_complete_folder(tmp_path):
    folder = tmp_path / "runs" / "one"
    summary = run_config(config(), folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.yaml",
        "results.jsonl",
        "summary.json",
        "trace.jsonl",
    ]
    assert yaml.safe_load((folder / "config.yaml").read_text()) == config()
    results, events = lines(folder / "results.jsonl"), lines(folder / "trace.jsonl")
    assert len({result["id"] for result in results}) == len(results) == 12
    assert {result["fingerprint"] for result in results} == {summary.fingerprint}
    assert "python" in results[0]["versions"]
    kinds = [event["event"] for event in events]
    assert kinds.count("candidate") == 48
    assert kinds.count("start") == kinds.count("result") == kinds.count("aggregate") == 12
    written = summary_of(folder)
    assert written == json.loads(json.dumps(summary.as_dict()))
    assert (written["status"], written["problems"], written["planned"]) == ("complete", 12, 12)
    assert (written["strategy"], written["task"], written["engine"]) == ("majority", "arithmetic", "fake")
    assert written["usage"]["decoded_tokens"] == sum(result["usage"]["decoded"] for result in results)
    assert written["error"] is None


def test_two_runs_of_one_config_have_the_same_results(tmp_path):
    found = []
    for name, changes in (("a", {}), ("b", {"concurrency": 1, "engine__capacity": 3})):
        run_config(config(**changes), tmp_path / name)
        records = sorted(lines(tmp_path / name / "results.jsonl"), key=lambda record: record["id"])
        found.append([(r["id"], r["answer"], r["outcome"], r["text"], r["path_tokens"]) for r in records])
    assert found[0] == found[1]


def test_the_limit_and_the_trace_are_settings(tmp_path):
    summary = run_config(config(limit=3, trace=False), tmp_path / "run")
    assert (summary.problems, summary.planned) == (3, 3)
    assert not (tmp_path / "run" / "trace.jsonl").exists()


def interrupted(monkeypatch, error, after=40):
    """Make the fake engine raise ``error`` in a step midway."""
    step = FakeEngine.step

    def breaks(self):
        if self.steps >= after:
            raise error
        return step(self)

    monkeypatch.setattr(FakeEngine, "step", breaks)


def test_an_interrupt_leaves_a_valid_partial_folder(tmp_path, monkeypatch):
    interrupted(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_config(config(concurrency=1), tmp_path)
    written = summary_of(tmp_path)
    results = lines(tmp_path / "results.jsonl")
    assert written["status"] == "partial"
    assert written["problems"] == len(results)
    assert 0 < len(results) < 12
    assert written["planned"] == 12
    assert written["usage"]["wall_seconds"] > 0
    assert written["error"] == "interrupted"
    assert lines(tmp_path / "trace.jsonl")


def test_an_interrupt_between_two_steps_leaves_nothing_on_the_engine(tmp_path, monkeypatch):
    engines = []
    opened = FakeEnginePart.open
    monkeypatch.setattr(FakeEnginePart, "open", lambda part: engines.append(opened(part)) or engines[-1])

    def step(self, status):
        if status.done:
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "step", step)
    with pytest.raises(KeyboardInterrupt):
        run_config(config(), tmp_path)
    (engine,) = engines
    assert not engine._running
    assert not engine._waiting
    assert summary_of(tmp_path)["status"] == "partial"


def test_an_unexpected_error_leaves_a_failed_summary_with_its_traceback(tmp_path, monkeypatch):
    interrupted(monkeypatch, ZeroDivisionError("in the engine"))
    summary = run_config(config(), tmp_path)
    assert summary.status == "failed"
    assert summary.error == "ZeroDivisionError: in the engine"
    assert "breaks" in summary_of(tmp_path)["traceback"]


def test_a_model_that_cannot_be_loaded_leaves_a_failed_summary(tmp_path, monkeypatch):
    def refuses(part):
        raise ModelError("no such model")

    monkeypatch.setattr(FakeEnginePart, "open", refuses)
    summary = run_config(config(), tmp_path)
    assert (summary.status, summary.error, summary.problems) == ("failed", "no such model", 0)
    assert lines(tmp_path / "results.jsonl") == []


def test_the_death_of_the_engine_leaves_a_result_for_every_problem(tmp_path):
    summary = run_config(config(engine__dies_after=20, concurrency=2), tmp_path)
    reason = "the fake engine died after 20 steps, as it was told to."
    assert (summary.status, summary.error) == ("failed", reason)
    results = lines(tmp_path / "results.jsonl")
    assert len(results) == 12
    failed = [result for result in results if result["outcome"] == "failed"]
    assert {result["reason"] for result in failed} == {reason}
    assert summary.failed == len(failed) > 0
    again = run_config(config(), tmp_path / "next")
    assert again.status == "complete"


def test_a_budget_of_the_run_defers_and_is_complete(tmp_path):
    summary = run_config(config(budget={"run": {"tokens": 300}}), tmp_path)
    assert summary.status == "complete"
    assert summary.deferred > 0
    assert summary.problems == 12
    assert any(reason.startswith("budget: 300 tokens per run") for reason in summary.stopped)


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(tmp_path):
    run_config(config(limit=1), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match="already holds a run"):
        run_config(config(limit=2), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="cannot be written"):
        run_config(config(), tmp_path / "file" / "run")


def test_the_fingerprint_names_the_settings():
    def name_of(mapping):
        return assemble(mapping).fingerprint

    name = name_of(config())
    assert name_of(config(seed=1)) == name
    assert name_of(config(seed=2)) != name
    assert name_of(config(sampling__max_tokens=41)) != name
    # Defaults that are written out, and what cannot change an answer, name the same run.
    same = {"sampling__top_p": 1.0, "concurrency": 99, "trace": False, "choices": {}}
    assert name_of(config(**same)) == name
    # The order of settings does not count, the order of stages does.
    assert name_of(dict(reversed(CONFIG.items()))) == name
    swapped = config()
    swapped["strategy"]["stages"] = dict(reversed(swapped["strategy"]["stages"].items()))
    assert name_of(swapped) != name


@pytest.mark.slow
def test_a_result_is_on_disk_as_soon_as_its_problem_has_ended(tmp_path, monkeypatch):
    seen = [0]

    def step(self, status):
        assert len(lines(tmp_path / "results.jsonl")) >= seen[-1]
        seen.append(status.done)

    monkeypatch.setattr(Display, "step", step)
    assert run_config(config(concurrency=1), tmp_path).error is None
    assert len(set(seen)) == 13


def test_what_json_does_not_know_is_null():
    record = finite({"a": [1, math.inf, (math.nan, "x")], "b": {"c": -math.inf}, "d": 1.5})
    assert record == {"a": [1, None, [None, "x"]], "b": {"c": None}, "d": 1.5}
