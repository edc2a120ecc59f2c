"""The Python API on a real model: the same results as a run from a config, on the same warm engine."""

import json

import pytest

import ttsflow
from ttsflow.config import compose
from ttsflow.engines import warm
from ttsflow.run import run_config
from ttsflow.tasks.arithmetic import Arithmetic

pytestmark = pytest.mark.engine

ENGINE = {"dtype": "float32", "seats": 16, "context": 1024, "kv_gib": 0.25}


def test_python_and_config_give_the_same_results(engine, tmp_path):
    overrides = [f"engine.{key}={value}" for key, value in ENGINE.items()]
    small = ["task.size=2", "sampling.max_tokens=36", "strategy.n=4", "strategy.width=2"]
    mapping = compose(["strategy=beam_search", "verifier=equations", *small, *overrides])
    summary = run_config(mapping, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]

    pipeline = ttsflow.Pipeline(
        "beam_search",
        model="demo",
        engine=ENGINE,
        verifier="equations",
        task={"use": "arithmetic", "size": 2},
        sampling={"max_tokens": 36},
        n=4,
        width=2,
    )
    run = pipeline.run()
    assert warm.acquire(pipeline.setup.engine) is engine
    assert run.summary.fingerprint == summary.fingerprint
    assert run.summary.accuracy == summary.accuracy
    by_id = {line["id"]: line for line in lines}
    assert [problem.id for problem in Arithmetic(size=2).problems()] == [r.id for r in run.results]
    for result in run.results:
        line = by_id[result.id]
        assert (result.answer, result.text) == (line["answer"], line["text"])
        assert result.usage.decoded == line["usage"]["decoded"]


def test_one_question(engine):
    pipeline = ttsflow.Pipeline(
        "majority", model="demo", engine=ENGINE, n=4, chat=False, sampling={"max_tokens": 24}
    )
    result = pipeline.answer("Add 3, 4\n3 + 4 = 7\nAnswer: 7.\n\nAdd 2, 6\n")
    assert result.outcome in {"answered", "truncated"}
    assert result.usage.requests == 4
    assert result.usage.decoded > 4


def test_a_cascade_of_two_models_counts_the_tokens_of_each(counting):
    large = {"use": "vllm", "model": "demo", **ENGINE, "context": 512}
    pipeline = ttsflow.Pipeline(
        "model_cascade",
        model="demo",
        engine=ENGINE,
        engines={"large": large},
        task={"use": "arithmetic", "size": 2},
        sampling={"max_tokens": 30},
        n=2,
        m=2,
        share=1.0,
        at_least=3,
    )
    first, second = warm.acquire_all([pipeline.setup.engine, pipeline.setup.engines["large"]])
    with counting(first) as of_first, counting(second) as of_second:
        run = pipeline.run()
    assert [result.outcome for result in run.results].count("failed") == 0
    usages = [result.usage for result in run.results]
    of_large = [one for usage in usages for one in usage.engines]
    assert {one.engine for one in of_large} == {"large"}
    assert sum(one.decoded for one in of_large) == of_second[0] > 0
    assert sum(usage.decoded for usage in usages) == of_first[0] + of_second[0]
