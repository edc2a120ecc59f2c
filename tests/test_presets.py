"""Budget presets: each composes with any strategy, and does what it says on both engines without a model."""

import json

import pytest

from ttsflow.budget import Breaker
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.run import run_config

ENGINES = {
    "fake": ["engine=fake", "task.size=10", "verifier=fake"],
    "sim": ["engine=sim", "task=simulated", "task.size=10", "verifier=simulated"],
}
METERED = ["meter=model", "meter.busy_watts=100"]
PRESETS = {
    "latency_first": [],
    "tokens_first": [],
    "energy_first": ["budget.run.joules=50", *METERED],
    "dollar_cap": ["budget.run.money=2"],
}


def run(tmp_path, engine, *words):
    """Return the summary of a run and what every problem of it cost."""
    summary = run_config(compose([*ENGINES[engine], *words]), tmp_path / "run")
    lines = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    assert (summary.status, summary.problems) == ("complete", 10)
    return summary, [json.loads(line) for line in lines]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("strategy", ["majority", "beam_search", "dvts", "esc"])
def test_every_preset_goes_with_any_strategy(preset, engine, strategy):
    words = [f"strategy={strategy}", *ENGINES[engine], f"budget={preset}", *PRESETS[preset]]
    assert assemble(compose(words)).budget


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "seconds"), [("fake", 0.1), ("sim", 2.0)])
def test_latency_first_has_every_answer_in_time(engine, seconds, tmp_path):
    assert assemble(compose([*ENGINES[engine], "budget=latency_first"])).budget.problem == {"seconds": 60.0}
    words = ["strategy=majority", "budget=latency_first", f"budget.problem.seconds={seconds}"]
    summary, results = run(tmp_path, engine, *words)
    assert any(f"{seconds:g} seconds per problem spent" in reason for reason in summary.stopped)
    assert all(result["usage"]["seconds"] < 1.2 * seconds for result in results)


@pytest.mark.parametrize(("engine", "tokens"), [("fake", 60), ("sim", 2000)])
def test_tokens_first_shares_the_tokens_of_one_sample(engine, tokens, tmp_path):
    words = ["strategy=majority", "budget=tokens_first", f"sampling.max_tokens={tokens}"]
    summary, results = run(tmp_path, engine, *words)
    assert summary.stopped[f"budget: {tokens} tokens per problem spent"] > 0
    assert all(result["usage"]["decoded"] < tokens + 8 for result in results)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "joules"), [("fake", 250), ("sim", 2500)])
def test_energy_first_ends_at_its_joules_with_single_samples(engine, joules, tmp_path):
    words = ["strategy=majority", "budget=energy_first", f"budget.run.joules={joules}", *METERED]
    # Ten questions are few, so that one costs more than a tenth of this.
    summary, results = run(tmp_path, engine, *words, "budget.reserve=0.4", "concurrency=1")
    assert summary.usage["joules"] < 1.02 * joules
    assert any("single in place of the strategy" in reason for reason in summary.stopped)
    assert any(result["usage"]["requests"] == 1 for result in results)


def test_energy_first_says_that_it_needs_joules_and_a_meter():
    words = ["engine=fake", "budget=energy_first"]
    with pytest.raises(ConfigError, match=r"has to be set: budget.run.joules=") as caught:
        compose(words)
    assert caught.value.path == "budget.run.joules"
    with pytest.raises(ConfigError, match=r"Choose one with meter=nvml") as caught:
        assemble(compose([*words, "budget.run.joules=50"]))
    assert caught.value.path == "budget.run.joules"


@pytest.mark.parametrize(("engine", "money"), [("fake", 0.005), ("sim", 0.05)])
def test_dollar_cap_spends_no_more_than_so_much(engine, money, tmp_path):
    words = ["strategy=majority", "budget=dollar_cap", f"budget.run.money={money}", "concurrency=1"]
    summary, _ = run(tmp_path, engine, *words, "budget.reserve=0.4")
    assert 0.5 * money < summary.cost["money"] < 1.02 * money
    assert any("single in place of the strategy" in reason for reason in summary.stopped)


def test_dollar_cap_wants_a_cap_takes_other_prices_and_watches_over_failures():
    words = ["engine=fake", "budget=dollar_cap"]
    with pytest.raises(ConfigError, match=r"has to be set: budget.run.money="):
        compose(words)
    setup = assemble(
        compose([*words, "budget.run.money=2", "cost.money.output=60", "cost.money.currency=EUR"])
    )
    assert (setup.costs["money"].output, setup.costs["money"].currency) == (60.0, "EUR")
    assert setup.budget.breaker == Breaker(last=8)
    assert {"tokens", "seconds", "requests"} < set(setup.costs)


@pytest.mark.parametrize("wrong", ["-2", "0", "nan", "two"])
def test_a_cap_is_a_number_above_zero(wrong):
    with pytest.raises(ConfigError) as caught:
        assemble(compose(["engine=fake", "budget=dollar_cap", f"budget.run.money={wrong}"]))
    assert caught.value.path == "budget.run.money"


def test_a_preset_that_is_not_there_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match="Did you mean 'tokens_first'"):
        compose(["engine=fake", "budget=token_first"])
