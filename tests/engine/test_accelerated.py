"""Work begun early, early scores and prefix order on a real model."""

import pytest

from ttsflow.acceleration import Acceleration, Speculation
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.driver.loop import Driver
from ttsflow.driver.settle import Rules
from ttsflow.engines.accelerated import accelerated, counted
from ttsflow.ledger import Ledger

pytestmark = pytest.mark.engine

WORDS = (
    "task.size=2",
    "task.terms=4",
    "sampling.max_tokens=40",
    "verifier=equations",
    "strategy.n=8",
    "strategy.width=2",
)
ALL = Acceleration(prefix_order=True, speculation=Speculation(curve=False), eager_verify=True)


def run(engine, strategy, acceleration):
    setup = assemble(compose([f"strategy={strategy}", *WORDS]))
    around = accelerated(engine, acceleration)
    rules = Rules(around, setup.task, setup.sampling, setup.seed)
    driver = Driver(
        setup.strategy,
        rules,
        Ledger(setup.costs, setup.budget),
        verifier=setup.verifier.open(),
        concurrency=2,
        acceleration=acceleration,
    )
    return {result.id: result for result in driver.run(setup.task.problems())}, around


@pytest.mark.parametrize("strategy", ["beam_search", "dvts"])
def test_the_same_search_with_every_token_in_the_books(engine, counting, strategy):
    with counting(engine) as count:
        plain, _ = run(engine, strategy, Acceleration())
    assert sum(result.usage.decoded for result in plain.values()) == count[0]
    engine.reset()
    with counting(engine) as count:
        fast, around = run(engine, strategy, ALL)
    usage = [result.usage for result in fast.values()]
    assert sum(one.decoded for one in usage) == count[0]
    assert sum(one.adopted for one in usage) > 0
    assert counted(around)["begun_early_and_used"] > 0
    assert engine.load()[:2] == (0, 0), "nothing is left on the engine"
    # Another batch may change the last bits of a product, and so a token that was nearly a draw.
    same = [(plain[n].text, plain[n].usage.output) == (r.text, r.usage.output) for n, r in fast.items()]
    assert sum(same) >= 1
