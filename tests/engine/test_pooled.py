"""A pool of samples around a real model: two strategies on one pool come to what they come to without."""

import pytest

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.driver.loop import Driver
from ttsflow.driver.settle import Rules
from ttsflow.engines.accelerated import accelerated, counted
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import texts_of
from ttsflow.engines.vllm import VLLM
from ttsflow.ledger import Ledger

pytestmark = pytest.mark.engine

WORDS = ("task.size=2", "sampling.max_tokens=32", "strategy.n=4")
STRATEGIES = {"majority": (), "ffs": ("strategy.k=1",)}


def run(engine, strategy, pool=None):
    setup = assemble(compose([f"strategy={strategy}", *STRATEGIES[strategy], *WORDS]))
    engine.reset()
    around = accelerated(engine, setup.acceleration, pool=pool)
    rules = Rules(around, setup.task, setup.sampling, setup.seed)
    driver = Driver(setup.strategy, rules, Ledger(setup.costs, setup.budget), concurrency=2)
    results = {result.id: result for result in driver.run(setup.task.problems())}
    return {
        name: (one.answer, one.outcome, one.text, one.usage.output, one.usage.aborted, one.usage.serial)
        for name, one in results.items()
    }, counted(around)


def test_two_strategies_on_one_pool_equal_their_twins(engine, counting, tmp_path):
    plain = {name: run(engine, name)[0] for name in STRATEGIES}
    store = SampleStore(tmp_path / "samples.pool")
    pool = (store, texts_of(VLLM("demo", dtype="float32", context=1024)))
    with counting(engine) as count:
        found, work = run(engine, "majority", pool)
    assert found == plain["majority"]
    assert work["pool_missed"] == 8
    assert sum(one[3] for one in found.values()) == count[0]
    for name in STRATEGIES:
        with counting(engine) as count:
            found, work = run(engine, name, pool)
        assert found == plain[name]
        assert (count[0], work["pool_found"], work["pool_parted"]) == (0, 8, 0)
    assert engine.load()[:2] == (0, 0)
    store.close()


def test_beginnings_are_decoded_again_where_more_is_wanted(engine, tmp_path):
    plain = run(engine, "majority")[0]
    store = SampleStore(tmp_path / "samples.pool")
    pool = (store, texts_of(VLLM("demo", dtype="float32", context=1024)))
    first, _ = run(engine, "ffs", pool)
    again, work = run(engine, "ffs", pool)
    assert again == first
    assert sum(one[4] for one in again.values()) > 0
    assert work["pool_tokens"] == sum(one[3] + one[4] for one in again.values())
    found, work = run(engine, "majority", pool)
    assert found == plain
    assert work["pool_decoded_again"] > 0
    store.close()
