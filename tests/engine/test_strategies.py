"""Shipped strategies on a real model: repeatable, and every token in the books."""

import json

import pytest

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.driver.loop import Driver
from ttsflow.driver.settle import Rules
from ttsflow.errors import EngineDead
from ttsflow.ledger import Ledger
from ttsflow.ops import Progress
from ttsflow.run import run_config
from ttsflow.trace import JsonTrace

pytestmark = pytest.mark.engine

TASK = ("task.size=2", "sampling.max_tokens=36", "engine.dtype=float32")
SETTINGS = {
    "single": (),
    "majority": ("strategy.n=4",),
    "best_of_n": ("strategy.n=4", "verifier=equations"),
    "weighted_majority": ("strategy.n=4", "verifier=equations"),
    "self_consistency": ("strategy.n=4", "strategy.batch=2", "strategy.at_least=2"),
    "ffs": ("strategy.n=6", "strategy.k=2"),
    "cisc": ("strategy.n=4",),
    "self_certainty": ("strategy.n=4",),
    "deepconf": ("strategy.n=4", "strategy.group=16"),
    "deepconf_online": ("strategy.n=6", "strategy.warmup=3", "strategy.keep=0.5", "strategy.group=8"),
    "dynasor": ("strategy.n=1", "strategy.chunk=8", "strategy.window=2", "strategy.probe_tokens=4"),
    "beam_search": ("strategy.n=4", "strategy.width=2", "verifier=equations"),
}


def setup_of(name, *overrides, folder=None):
    return assemble(compose([f"strategy={name}", *SETTINGS.get(name, ()), *TASK, *overrides], folder))


def run(engine, setup, folder=None, concurrency=2):
    """Run on the shared engine; return results by id, and the trace's candidate events if asked for."""
    rules = Rules(engine, setup.task, setup.sampling, setup.seed, setup.logprobs, certainty=setup.certainty)
    trace = JsonTrace(folder / "trace.jsonl") if folder else None
    driver = Driver(
        setup.strategy,
        rules,
        Ledger(setup.costs, setup.budget),
        verifier=setup.verifier.open() if setup.verifier else None,
        trace=trace,
        concurrency=concurrency,
    )
    results = {result.id: result for result in driver.run(setup.task.problems())}
    if trace is None:
        return results, []
    trace.close()
    lines = (folder / "trace.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "candidate"]
    return results, events


#: Those that draw whole samples, all of them: of one lineage, so that what majority voting has they have too.
SAMPLED = ("single", "majority", "best_of_n", "weighted_majority", "cisc", "self_certainty", "deepconf")


@pytest.fixture(scope="module")
def drawn(open_engine, tmp_path_factory):
    """Return the samples of majority voting at n = 4, by problem and place: seed, text and how it ended."""
    _, events = run(open_engine(), setup_of("majority"), tmp_path_factory.mktemp("drawn"))
    return samples(events)


def samples(events):
    return {(e["problem"], *e["path"]): (e["seed"], e["text"], e["finish"]) for e in events}


@pytest.mark.parametrize("strategy", SAMPLED)
def test_all_draw_the_same_samples_and_every_token_is_counted(engine, counting, drawn, strategy, tmp_path):
    with counting(engine) as count:
        results, events = run(engine, setup_of(strategy), tmp_path)
    assert sum(result.usage.decoded for result in results.values()) == count[0] > 0
    assert all(result.outcome != "failed" for result in results.values()), results
    wanted = 1 if strategy == "single" else 4
    assert samples(events) == {key: value for key, value in drawn.items() if key[1] < wanted}


@pytest.mark.parametrize("strategy", [name for name in SETTINGS if name not in SAMPLED])
def test_twice_the_same_and_every_token_counted(engine, counting, strategy):
    setup = setup_of(strategy)
    with counting(engine) as count:
        first, _ = run(engine, setup)
    assert sum(result.usage.decoded for result in first.values()) == count[0] > 0
    assert all(result.outcome != "failed" for result in first.values()), first
    engine.reset()
    second, _ = run(engine, setup)
    kept = ("answer", "outcome", "correct", "stopped", "text", "candidates", "path_tokens")
    for name, result in first.items():
        assert [getattr(second[name], key) for key in kept] == [getattr(result, key) for key in kept]
        assert second[name].usage.decoded == result.usage.decoded


def test_ffs_ends_its_siblings_and_counts_what_they_had(engine):
    results, _ = run(engine, setup_of("ffs"))
    assert any(result.usage.aborted for result in results.values())
    for result in results.values():
        if result.usage.aborted:
            assert result.stopped.startswith("first 2 finished after")


def test_a_budget_ends_requests_on_the_engine(engine, counting):
    setup = setup_of("majority", "budget.problem.tokens=30")
    with counting(engine) as count:
        results, _ = run(engine, setup)
    assert sum(result.usage.decoded for result in results.values()) == count[0]
    for result in results.values():
        assert 30 <= result.usage.decoded < 30 + 4
        assert result.stopped == "budget: 30 tokens per problem spent"


def test_fewer_samples_are_the_first_of_more(engine, tmp_path):
    sampled = []
    for n in (4, 16):
        engine.reset()
        folder = tmp_path / str(n)
        folder.mkdir()
        _, events = run(engine, setup_of("majority", f"strategy.n={n}", "sampling.max_tokens=20"), folder)
        sampled.append({(e["problem"], *e["path"]): (e["seed"], e["text"]) for e in events})
    few, many = sampled
    assert len(few) == 2 * 4
    assert len(many) == 2 * 16
    assert {key: many[key] for key in few} == few


def test_beams_go_on_from_the_tokens_they_have(engine, tmp_path):
    results, events = run(engine, setup_of("beam_search"), tmp_path)
    texts = {(e["problem"], *e["path"]): e["text"] for e in events}
    deep = [key for key in texts if len(key) > 2]
    assert deep
    for key in deep:
        assert texts[key].startswith(texts[key[:-1]].rstrip("\n"))
    assert any(result.correct for result in results.values())


def test_the_recipe_that_grows_on_disagreement(engine, counting, drawn, recipes, tmp_path):
    setup = setup_of("grow_on_disagreement", "strategy.n=8", folder=str(recipes))
    with counting(engine) as count:
        results, events = run(engine, setup, tmp_path)
    assert sum(result.usage.decoded for result in results.values()) == count[0] > 0
    found = samples(events)
    assert {key: found[key] for key in drawn} == drawn
    for name, result in results.items():
        first = [e["answer"] for e in events if e["problem"] == name and e["path"][0] < 4]
        agree = len(set(first)) == 1 and first[0] is not None
        assert result.candidates == sum(key[0] == name for key in found) == (4 if agree else 8)
        assert bool(result.stopped) == agree


def test_the_recipe_that_goes_from_short_to_long(engine, counting, recipes, tmp_path):
    setup = setup_of("short_to_long", "strategy.n=4", "strategy.short=12", folder=str(recipes))
    with counting(engine) as count:
        results, events = run(engine, setup, tmp_path)
    assert sum(result.usage.decoded for result in results.values()) == count[0] > 0
    texts = {(e["problem"], *e["path"]): e["text"] for e in events}
    longer = [key for key in texts if len(key) == 3]
    # No sum of this task is done in twelve tokens.
    assert len(longer) == sum(result.candidates for result in results.values()) == 8
    assert all(texts[key].startswith(texts[key[:-1]].rstrip()) for key in longer)


def test_an_engine_that_dies_midway_fails_what_is_left(engine, tmp_path, monkeypatch):
    mapping = compose(["strategy=majority", "strategy.n=4", *TASK, "concurrency=1"])
    steps = []

    def step():
        steps.append(1)
        if len(steps) > 40:
            raise EngineDead("vLLM stopped: RuntimeError: out of luck")
        return original()

    original = engine.step
    monkeypatch.setattr(engine, "step", step)
    monkeypatch.setattr("ttsflow.engines.warm.acquire_all", lambda parts: [engine for _ in parts])
    monkeypatch.setattr("ttsflow.engines.warm.close_all", lambda: None)
    summary = run_config(mapping, tmp_path / "run")
    assert summary.status == "failed"
    assert summary.error == "vLLM stopped: RuntimeError: out of luck"
    assert summary.problems == summary.planned == 2
    assert summary.failed >= 1
    lines = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in lines if line["outcome"] == "failed"].count(summary.error) >= 1
    monkeypatch.undo()
    engine.reset()


def test_an_interrupt_leaves_nothing_on_the_engine(engine):
    setup = setup_of("majority")
    rules = Rules(engine, setup.task, setup.sampling, setup.seed, 0)
    driver = Driver(setup.strategy, rules, Ledger(setup.costs, setup.budget), concurrency=4)
    running = driver.run(setup.task.problems())
    next(running)
    running.close()
    assert engine.load().running == engine.load().waiting == 0
    assert engine.step() == [] == [news for news in engine.step() if isinstance(news, Progress)]
