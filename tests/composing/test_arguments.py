"""Budget, cost, meter and load as arguments of a pipeline: the same names and settings as in a config."""

import pytest

from ttsflow import Pipeline
from ttsflow.budget import Breaker, Budget
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.errors import ConfigError, UnknownPart

ARITHMETIC = {"use": "arithmetic", "size": 8}
METER = {"use": "model", "busy_watts": 100.0}


def pipeline(strategy="majority", **settings):
    return Pipeline(strategy, **{"engine": {"use": "fake"}, "task": ARITHMETIC, **settings})


def composed(*words):
    return assemble(compose(["engine=fake", "task.size=8", *words]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget": "tokens_first"}, ["budget=tokens_first"]),
        ({"budget": "latency_first"}, ["budget=latency_first"]),
        (
            {"budget": {"preset": "tokens_first", "run": {"requests": 40}}},
            ["budget=tokens_first", "budget.run.requests=40"],
        ),
        (
            {"budget": {"preset": "dollar_cap", "run": {"money": 0.002}, "breaker": {"last": 2}}},
            ["budget=dollar_cap", "budget.run.money=0.002", "budget.breaker.last=2"],
        ),
        (
            {"budget": {"preset": "dollar_cap", "run": {"money": 2}}, "cost": {"money": {"output": 9.0}}},
            ["budget=dollar_cap", "budget.run.money=2", "cost.money.output=9"],
        ),
        (
            {"budget": {"preset": "energy_first", "run": {"joules": 30}}, "meter": METER},
            ["budget=energy_first", "budget.run.joules=30", "meter=model", "meter.busy_watts=100"],
        ),
        (
            {"budget": {"run": {"tokens": 300}, "reserve": 0.5, "fallback": "single"}},
            ["budget.run.tokens=300", "budget.reserve=0.5", "budget.fallback=single"],
        ),
        (
            {
                "cost": {"work": {"use": "flops", "model": "qwen2.5-math-7b"}},
                "budget": {"problem": {"work": 1e12}},
            },
            ["cost.work.use=flops", "cost.work.model=qwen2.5-math-7b", "budget.problem.work=1e12"],
        ),
        ({"meter": METER, "concurrency": 1, "attribution": "occupancy"}, None),
        (
            {"strategy": "atest_online", "budget": {"run": {"tokens": 900}}, "load": "trace"},
            ["strategy=atest_online", "budget.run.tokens=900", "load=trace"],
        ),
        (
            {"strategy": "atest_beam", "verifier": "fake", "budget": {"run": {"tokens": 900}}},
            ["strategy=atest_beam", "verifier=fake", "budget.run.tokens=900"],
        ),
    ],
)
def test_a_pipeline_is_what_the_config_is(settings, words):
    if words is None:
        words = ["meter=model", "meter.busy_watts=100", "concurrency=1", "attribution=occupancy"]
    ours, theirs = pipeline(**settings), composed(*words)
    for name in ("budget", "costs", "meter", "attribution", "load"):
        assert getattr(ours.setup, name) == getattr(theirs, name), name
    found = [ours.run().results]
    theirs_alone = Pipeline("majority", engine={"use": "fake"}, task=ARITHMETIC)
    theirs_alone.setup = theirs
    found.append(theirs_alone.run().results)
    for one, other in zip(*found, strict=True):
        assert (one.answer, one.outcome) == (other.answer, other.outcome)
        # The clock of an engine goes on from run to run, so that joules differ in their last bits.
        assert one.usage.decoded == pytest.approx(other.usage.decoded, abs=8)


@pytest.mark.slow
def test_tokens_first_goes_by_the_sampling_of_the_pipeline():
    assert pipeline(budget="tokens_first").setup.budget.problem == {"tokens": 512.0}
    short = pipeline(budget="tokens_first", sampling={"max_tokens": 40})
    assert short.setup.budget.problem == {"tokens": 40.0}
    assert all(result.usage.decoded < 40 + 8 for result in short.run().results)


def test_joules_are_counted_and_limited():
    run = pipeline(meter=METER, budget={"run": {"joules": 60}}, concurrency=1).run()
    assert run.summary.usage["joules_source"] == "model"
    assert 60 <= run.summary.usage["joules"] < 70
    assert run.summary.deferred > 0


@pytest.mark.slow
def test_a_controller_sees_the_load():
    levels = {"use": "trace", "levels": [0.25, 0.75], "each": 4, "per": "problem"}
    ours = pipeline("atest_online", budget={"run": {"tokens": 900}}, load=levels)
    assert ours.setup.load.levels == (0.25, 0.75)
    assert ours.run().summary.status == "complete"


def test_a_breaker_is_a_mapping():
    made = pipeline(budget={"breaker": {"last": 3, "counts": ["failed", "truncated"]}})
    assert made.setup.budget == Budget(breaker=Breaker(last=3, counts=("failed", "truncated")))


@pytest.mark.parametrize(
    ("settings", "path", "told"),
    [
        ({"budget": "token_first"}, "budget", "Did you mean 'tokens_first'"),
        ({"budget": {"preset": 3}}, "budget.preset", "is a text"),
        ({"budget": 3}, "budget", "a mapping of settings is wanted"),
        ({"budget": "dollar_cap"}, "budget.run.money", "has to be set"),
        ({"budget": {"preset": "dollar_cap", "run": {"money": -1}}}, "budget.run.money", "above 0"),
        (
            {"budget": {"preset": "dollar_cap", "run": {"money": None}}},
            "budget.run.money",
            "number is wanted",
        ),
        ({"budget": {"preset": "tokens_first", "rum": {"tokens": 1}}}, "budget.rum", "Did you mean 'run'"),
        ({"budget": {"run": {"joules": 5}}}, "budget.run.joules", "meter=nvml"),
        ({"budget": {"run": {"money": 5}}}, "budget.run.money", "no cost model"),
        ({"cost": {"money": {"use": "money"}}}, "cost.money", "price"),
        ({"cost": {"money": 3}}, "cost.money", "a mapping of settings is wanted"),
        ({"cost": 3}, "cost", "a mapping of settings is wanted"),
        ({"meter": "model"}, "meter.busy_watts", "busy_watts"),
        ({"meter": "modle"}, "meter", "Did you mean 'model'"),
        ({"meter": 3}, "meter", "a mapping of settings is wanted"),
        ({"load": "trace"}, "load", "no part of this strategy looks at the load"),
        ({"load": "qeue"}, "load", "Did you mean 'queue'"),
        ({"attribution": "mine"}, "attribution", "token_share"),
    ],
)
def test_mistakes_are_named_with_their_place(settings, path, told):
    with pytest.raises(ConfigError, match=told) as caught:
        pipeline(**settings)
    assert caught.value.path == path


def test_a_meter_that_no_config_file_names_may_be_written():
    with pytest.raises(UnknownPart):
        pipeline(meter={"use": "modle"})
