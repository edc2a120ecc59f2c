"""The Python API."""

import json

import pytest

import ttsflow
from ttsflow.engines import warm
from ttsflow.errors import ConfigError, UnknownPart
from ttsflow.run import run_config
from ttsflow.types import Problem

MAJORITY = {
    "use": "sequence",
    "stages": {"sample": {"use": "generate", "n": 4}, "answer": {"use": "aggregate", "how": "majority"}},
}
FAKE = {"use": "fake"}


@pytest.fixture(autouse=True)
def no_engine_is_left_warm():
    yield
    warm.close_all()


def pipeline(strategy=MAJORITY, **settings):
    return ttsflow.Pipeline(strategy, **{"engine": FAKE, **settings})


def test_one_question_has_one_result():
    result = pipeline().answer("What is 1 + 1?")
    assert result.outcome == "answered"
    assert result.text.endswith(f"Answer: {result.answer}")
    assert result.correct is None
    assert result.usage.requests == 4
    assert result.fingerprint


def test_a_strategy_by_name_is_the_mapping_of_its_file():
    named = pipeline("majority", n=4).run(["What is 1 + 1?"])
    written = pipeline().run(["What is 1 + 1?"])
    assert named.summary.strategy == "majority"
    assert named.results[0].text == written.results[0].text
    assert named.results[0].usage == written.results[0].usage


def test_results_come_in_the_order_of_the_problems():
    questions = [f"What is {i} + {i}?" for i in range(12)]
    run = pipeline(concurrency=12).run([{"prompt": q, "gold": "1", "id": q} for q in questions])
    assert [result.id for result in run.results] == questions
    assert run.summary.status == "complete"
    assert run.summary.planned == run.summary.problems == 12
    assert run.summary.accuracy == sum(result.correct for result in run.results) / 12


def test_texts_mappings_and_problems_mix():
    run = pipeline().run(["one?", {"prompt": "two?", "gold": "2"}, Problem("three?", id="x", gold="3")])
    assert [result.gold for result in run.results] == [None, "2", "3"]
    assert run.results[2].id == "x"


def test_the_same_question_twice_is_two_problems():
    first, second = pipeline().run(["one?", "one?"]).results
    assert first.id != second.id


def test_a_task_of_its_own_gives_what_the_command_line_gives(tmp_path):
    task = {"use": "arithmetic", "size": 5}
    run = pipeline(task=task, seed=7, sampling={"max_tokens": 30}).run()
    mapping = {
        "strategy": MAJORITY, "engine": FAKE, "task": task, "seed": 7, "sampling": {"max_tokens": 30},
    }  # fmt: skip
    run_config(mapping, tmp_path)
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert {(r["id"], r["answer"], r["text"]) for r in records} == {
        (r.id, r.answer, r.text) for r in run.results
    }
    assert run.summary.task == "arithmetic"


def test_a_verifier_may_be_named():
    strategy = {
        "use": "sequence",
        "stages": {
            "sample": {"use": "generate", "n": 4},
            "score": {"use": "verify"},
            "answer": {"use": "aggregate", "how": "best"},
        },
    }
    assert pipeline(strategy, verifier="fake").answer("?").outcome == "answered"
    assert pipeline(strategy, verifier={"use": "random", "seed": 3}).answer("?").outcome == "answered"
    with pytest.raises(ConfigError, match="no verifier is set"):
        pipeline(strategy)


def test_a_trace_may_be_written(tmp_path):
    pipeline().run(["one?", "two?"], trace=tmp_path / "trace.jsonl")
    events = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events].count("candidate") == 8


def test_a_budget_holds():
    run = pipeline(budget={"run": {"tokens": 60}}, concurrency=1).run([f"{i}?" for i in range(20)])
    assert run.summary.deferred > 0


def test_a_pipeline_can_be_asked_again_and_gives_the_same():
    asked = pipeline()
    first, again = asked.answer("one?"), asked.answer("one?")
    assert (first.text, first.id) == (again.text, again.id)


def test_the_engine_stays_loaded_for_the_next_pipeline(monkeypatch):
    from ttsflow.testing import FakeEnginePart

    opened = []
    open_ = FakeEnginePart.open
    monkeypatch.setattr(FakeEnginePart, "open", lambda part: opened.append(part) or open_(part))
    pipeline().answer("one?")
    pipeline(seed=5).answer("one?")
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"strategy": "majorty"}, ConfigError, "Did you mean 'majority'"),
        ({"strategy": "majority", "m": 3}, ConfigError, "m"),
        ({"strategy": "majority", "name": "ffs"}, ConfigError, "by the first argument"),
        ({"n": 4}, ConfigError, "nothing in the strategy refers to it"),
        ({"strategy": ["majority"]}, ConfigError, "a name or a mapping"),
        ({"sampling": "greddy"}, ConfigError, "greedy"),
        ({"sampling": 5}, ConfigError, "a mapping of settings"),
        ({"engine": 5}, ConfigError, "a mapping of settings"),
        ({"engine": {"use": "fake", "model": "x"}, "model": "y"}, ConfigError, "given twice"),
        ({"engine": None}, ConfigError, "a model is needed"),
        ({"kind": "poem"}, ConfigError, "poem"),
        ({"concurrency": 0}, ConfigError, "at least one problem"),
        ({"verifier": "nobody"}, UnknownPart, "nobody"),
        ({"sampling": {"temprature": 1.0}}, ConfigError, "temperature"),
    ],
)
def test_what_is_wrong_is_said_at_once(settings, error, text):
    with pytest.raises(error, match=text):
        pipeline(**settings)


def test_a_pipeline_without_problems_says_so():
    with pytest.raises(ConfigError, match="problems"):
        pipeline().run()
    with pytest.raises(ConfigError, match="no problems"):
        pipeline().run([])


def test_a_task_of_its_own_and_other_problems_exclude_each_other():
    with pytest.raises(ConfigError, match="task of its own"):
        pipeline(task={"use": "arithmetic"}).run(["one?"])


@pytest.mark.slow
def test_a_device_is_named_or_described():
    named = ttsflow.Pipeline("majority", engine="sim", hardware="a100", task="simulated", n=2)
    assert named.setup.engine.hardware.bandwidth == 2039
    own = {"memory_gib": 48, "tflops": 100, "bandwidth": 900}
    described = ttsflow.Pipeline(
        "majority", engine={"use": "sim", "seats": 4}, hardware=own, task="simulated", n=2
    )
    assert described.setup.engine.hardware.memory_gib == 48
    assert described.setup.sampling.max_tokens == 4096


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"engine": "fake", "hardware": "a100"}, "only engine='sim'"),
        ({"engine": {"use": "sim", "hardware": {}}, "hardware": "a100"}, "given twice"),
        ({"engine": "sim", "hardware": "a10"}, "Did you mean 'a100'"),
    ],
)
def test_a_device_that_cannot_be_is_refused(settings, text):
    with pytest.raises(ConfigError, match=text):
        ttsflow.Pipeline("majority", task="simulated", **settings)
