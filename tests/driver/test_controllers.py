"""Controllers across the problems of a run: what they are asked, told, and held to."""

from dataclasses import dataclass, field

import pytest

from ttsflow import Pipeline
from ttsflow.controllers.online import Online
from ttsflow.controllers.prices import Prices
from ttsflow.controllers.reserve import Reserve
from ttsflow.errors import PluginError
from ttsflow.ledger import Budget
from ttsflow.load.written import TraceLoad
from ttsflow.ops import Generate, Offer, Quote, Request
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.allocate import Allocate
from ttsflow.strategies.flow import Each, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.ladder import Ladder
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import Sampling

TEN = Sampling(max_tokens=10)


@dataclass(frozen=True)
class Heard:
    """A controller that grants what its script says and remembers what it is asked and told."""

    unit: str | None = None
    name: str = ""
    #: Price of a sample, None: not known yet.
    price: float | None = None
    #: Refuses what comes after so many first samples.
    most: int = 10**9
    rate: float = 0.0
    retry: bool = False
    log: list = field(default_factory=list, compare=False)
    opened: list = field(default_factory=list, compare=False)

    def open(self, unit):
        self.opened.append(unit)
        return _Heard(self)


class _Heard:
    def __init__(self, part):
        self._part = part
        self._first = 0

    def begin(self, problems, limit):
        self._part.log.append(("begin", problems, limit))

    def offer(self, asking):
        part = self._part
        part.log.append(("offer", asking))
        if asking.first and asking.samples == 1:
            self._first += 1
        refused = "enough" if asking.first and self._first > part.most else None
        price = None if part.price is None else part.price * asking.samples
        return Offer("tokens", price, 0.0, part.rate, refused)

    def observe(self, samples, load, cost):
        self._part.log.append(("observe", samples, load, cost))

    def closed(self, spent):
        self._part.log.append(("closed", spent))

    def state(self):
        return {"first": self._first}


def of(heard, kind):
    return [entry[1:] for entry in heard.log if entry[0] == kind]


def climbing(controller, **settings):
    return Sequence({"climb": Ladder(controller=controller, **settings), "vote": Aggregate()})


def tokens(limit, **more):
    return Budget(run={"tokens": limit}, **more)


def spent(results):
    return sum(result.usage.decoded for result in results.values())


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("gain", ["best_rate", "one_rung", "planned"])
def test_every_price_is_settled_with_what_was_really_spent(gain, concurrency):
    heard = Heard(price=20.0, rate=0.0005)
    results = run_fake(climbing(heard, gain=gain), budget=tokens(1e9), concurrency=concurrency)
    observed = of(heard, "observe")
    assert len(observed) > len(results), "some climb more than a rung"
    assert sum(samples for samples, _, _ in observed) == sum(r.usage.requests for r in results.values())
    assert sum(cost for _, _, cost in observed) == spent(results)
    assert sorted(spent for (spent,) in of(heard, "closed")) == sorted(
        result.cost["tokens"] for result in results.values()
    )


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_problems_side_by_side_share_the_seconds_that_the_run_pays_for(concurrency, tools):
    heard = Heard(price=0.01)
    engine = tools.Endless(capacity=64)
    run_fake(
        climbing(heard, min_samples=8),
        FakeTask(size=8).problems(),
        engine=engine,
        sampling=TEN,
        budget=Budget(run={"seconds": 1e9}),
        concurrency=concurrency,
    )
    paid = sum(cost for _, _, cost in of(heard, "observe"))
    assert paid == pytest.approx(engine.now())
    assert sum(spent for (spent,) in of(heard, "closed")) == pytest.approx(engine.now())
    # All samples take 0.1 s, of which each pays its part.
    assert min(cost for _, _, cost in of(heard, "observe")) == pytest.approx(0.1 / concurrency)


def test_a_problem_pays_for_the_step_in_which_it_ends():
    heard = Heard(price=0.01)
    results = run_fake(
        climbing(heard, n=1, rungs=(1,)),
        FakeTask(size=2).problems(),
        budget=Budget(run={"seconds": 1e9}),
        concurrency=2,
    )
    short, long = sorted(result.usage.decoded for result in results.values())
    assert short < long
    paid = [spent for (spent,) in of(heard, "closed")]
    assert paid == pytest.approx([0.01 * short / 2, 0.01 * (short / 2 + long - short)])


def test_a_run_begins_once_with_its_problems_and_funds():
    heard = Heard()
    run_fake(climbing(heard), FakeTask(size=3).problems(), budget=tokens(500))
    assert heard.opened == ["tokens"]
    assert of(heard, "begin") == [(3, 500.0)]


def test_a_controller_is_asked_with_the_questions_that_wait_this_one_included():
    heard = Heard(price=1.0)
    run_fake(climbing(heard), FakeTask(size=3).problems(), budget=tokens(1e9), concurrency=1)
    ahead = [(asking.first, asking.ahead) for (asking,) in of(heard, "offer")]
    # As often as there are rungs, and once more for the one that is drawn.
    firsts = [number for first, number in ahead if first]
    assert firsts == [3] * 6 + [2] * 6 + [1] * 6
    assert {number for first, number in ahead if not first} <= {2, 1, 0}


def test_the_last_question_of_a_run_with_known_prices_gets_its_share():
    prices = Prices(prior=(0.0, 20.0, 0.0, 0.0))
    results = run_fake(climbing(Online(prices=prices)), FakeTask(size=1).problems(), budget=tokens(10_000))
    assert results["fake-0"].outcome == "answered"
    assert results["fake-0"].candidates > 1


def test_questions_that_have_samples_already_do_not_wait_for_their_first():
    heard = Heard(price=1.0)
    strategy = Sequence({"first": GenerateStage(1), "climb": Ladder(controller=heard), "vote": Aggregate()})
    run_fake(strategy, FakeTask(size=3).problems(), budget=tokens(1e9), concurrency=1)
    asked = [asking for (asking,) in of(heard, "offer")]
    assert not any(asking.first for asking in asked)
    assert {asking.ahead for asking in asked} == {2, 1, 0}


def test_a_question_that_never_asks_waits_no_longer():
    class Broken(FakeEngine):
        def encode(self, prompt):
            if "Question 0" in prompt:
                raise ValueError("no")
            return super().encode(prompt)

    heard = Heard()
    results = run_fake(
        climbing(heard), FakeTask(size=2).problems(), engine=Broken(), budget=tokens(1e9), concurrency=1
    )
    assert results["fake-0"].outcome == "failed"
    assert {asking.ahead for (asking,) in of(heard, "offer") if asking.first} == {1}


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("part", [Online(), Reserve()], ids=["online", "reserve"])
@pytest.mark.parametrize("limit", [100, 800])
def test_funds_are_exceeded_by_one_step_at_most(limit, part, concurrency):
    results = run_fake(
        climbing(part),
        FakeTask(size=12).problems(),
        engine=FakeEngine(capacity=64),
        budget=tokens(limit),
        concurrency=concurrency,
    )
    assert len(results) == 12
    # A step decodes a token for each that runs.
    assert spent(results) < limit + 64


@pytest.mark.slow
@pytest.mark.parametrize("part", [Online(), Reserve()], ids=["online", "reserve"])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_problems_in_flight_do_not_overspend_together(part, concurrency, tools):
    """All samples have one length, so that prices are right: nothing that was granted is ended midway."""
    results = run_fake(
        climbing(part, settled=1.0),
        FakeTask(size=15).problems(),
        engine=tools.Endless(capacity=64),
        sampling=TEN,
        budget=tokens(10 * 26),
        concurrency=concurrency,
    )
    assert spent(results) <= 10 * 26
    assert not any(result.usage.aborted for result in results.values())
    assert not any((result.stopped or "").startswith("budget") for result in results.values())
    drawn = [result.usage.requests for result in results.values()]
    assert sum(drawn) > 15


@dataclass(frozen=True)
class Asks:
    """Asks for samples and draws one, whatever it is told."""

    by: Heard

    def __call__(self, state):
        yield Quote(3, by=self.by)
        got = yield Generate((Request(),))
        return state.with_(pool=got.candidates)


@pytest.mark.parametrize(("refused", "left"), [("no", [1000.0, 1000.0]), (None, [1000.0, 400.0])])
def test_what_is_granted_is_set_aside_and_what_is_refused_is_not(refused, left):
    class Counted(_Heard):
        def offer(self, asking):
            return super().offer(asking)._replace(refused=refused)

    class Part(Heard):
        def open(self, unit):
            return Counted(self)

    part = Part(price=200.0)
    run_fake(Asks(part), FakeTask(size=2).problems(), budget=tokens(1000), concurrency=2)
    assert [asking.left for (asking,) in of(part, "offer")] == left


def test_samples_that_a_problem_could_not_pay_itself_are_refused(tools):
    heard = Heard(price=25.0)
    results = run_fake(
        climbing(heard, gain="one_rung"),
        FakeTask(size=2).problems(),
        engine=tools.Endless(),
        sampling=TEN,
        budget=Budget(run={"tokens": 100_000}, problem={"tokens": 50}),
        concurrency=1,
    )
    offers = [asking for (asking,) in of(heard, "offer")]
    assert all(asking.left > 90_000 for asking in offers), "a share is that of the run's funds"
    for result in results.values():
        assert result.usage.requests == 1
        assert "are left to the problem" in result.stopped
        assert result.usage.decoded == 10


def test_a_question_whose_first_sample_is_refused_is_deferred_with_the_reason(tools):
    results = run_fake(climbing(Heard(most=5), gain="one_rung"), budget=tokens(1e9), concurrency=1)
    assert tools.outcomes(results)["deferred"] == 3
    for result in results.values():
        if result.outcome == "deferred":
            assert result.stopped == "enough"
            assert (result.usage.requests, result.usage.decoded, result.answer) == (0, 0, None)
            assert result.correct is False


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 8])
def test_with_retry_a_deferred_question_is_asked_once_more_and_once_only(concurrency, tools):
    for retry in (False, True):
        heard = Heard(most=5, retry=retry)
        results = run_fake(climbing(heard, gain="one_rung"), budget=tokens(1e9), concurrency=concurrency)
        assert tools.outcomes(results)["deferred"] == 3
        asked = [asking for (asking,) in of(heard, "offer") if asking.first and asking.samples == 1]
        assert len(asked) == 8 + 3 * retry
        assert len(of(heard, "closed")) == 8 + 3 * retry
    assert [asking.ahead for asking in asked[-3:]] == [3, 2, 1]


def test_a_deferred_question_that_is_granted_later_has_its_answer():
    # Dear at first: the first ones are deferred until what they left makes the shares of others large enough.
    prices = Prices(prior=(0.0, 100.0, 0.0, 0.0), beta=0.0)
    plain, again = (
        run_fake(climbing(Online(prices=prices, retry=retry)), budget=tokens(600), concurrency=1)
        for retry in (False, True)
    )
    deferred = [name for name, result in plain.items() if result.outcome == "deferred"]
    assert deferred
    assert any(again[name].outcome == "answered" for name in deferred)
    assert len(again) == 8


def test_with_retry_funds_that_are_gone_end_the_run(tools):
    results = run_fake(
        climbing(Online(retry=True)), FakeTask(size=20).problems(), budget=tokens(200), concurrency=4
    )
    assert len(results) == 20
    assert tools.outcomes(results)["deferred"] > 5


def test_an_engine_that_dies_while_questions_are_to_be_asked_again_fails_them():
    class Second(_Heard):
        """Refuses a question the first time, and grants it the second time."""

        def offer(self, asking):
            offer = super().offer(asking)
            return offer._replace(refused="enough" if asking.first and self._first <= 3 else None)

    class Part(Heard):
        def open(self, unit):
            return Second(self)

    problems = FakeTask(size=3).problems()
    strategy = climbing(Part(retry=True), gain="one_rung")
    for dies_after, outcome in ((None, "answered"), (0, "failed")):
        engine = FakeEngine(dies_after=dies_after)
        results = run_fake(strategy, problems, engine=engine, budget=tokens(1e9), concurrency=2)
        assert [result.outcome for result in results.values()] == [outcome] * 3


def test_deferred_questions_are_counted_in_the_summary():
    task = {"use": "arithmetic", "size": 12}
    pipeline = Pipeline("atest_online", engine={"use": "fake"}, task=task, budget={"run": {"tokens": 300}})
    run = pipeline.run()
    count = sum(result.outcome == "deferred" for result in run.results)
    assert run.summary.deferred == count > 0
    assert run.summary.stopped


@pytest.mark.slow
@pytest.mark.parametrize("part", [Online(), Reserve()], ids=["online", "reserve"])
def test_a_second_run_decides_the_same(part):
    strategy = climbing(part, gain="planned")
    first, second = (
        run_fake(strategy, FakeTask(size=8).problems(), budget=tokens(800), concurrency=3) for _ in range(2)
    )
    assert first == second


def test_stages_with_equal_controllers_share_one_and_others_do_not():
    def run(first, second):
        strategy = Sequence(
            {
                "a": Ladder(n=2, controller=first, min_samples=2),
                "b": Ladder(n=4, controller=second, min_samples=4),
                "vote": Aggregate(),
            }
        )
        return run_fake(strategy, FakeTask(size=2).problems(), budget=tokens(1e9), concurrency=1)

    one = Heard(price=10.0)
    shared = run(one, Heard(price=10.0, log=one.log, opened=one.opened))
    assert one.opened == ["tokens"]
    assert sum(cost for _, _, cost in of(one, "observe")) == spent(shared)

    first, second = Heard(price=10.0, name="first"), Heard(price=10.0, name="second")
    apart = run(first, second)
    assert first.opened == second.opened == ["tokens"]
    assert {asking.first for (asking,) in of(second, "offer")} == {False}
    costs = [sum(cost for _, _, cost in of(one, "observe")) for one in (first, second)]
    assert min(costs) > 0
    assert sum(costs) == spent(apart)


def test_every_controller_that_was_asked_hears_of_the_end():
    first, second = Heard(price=10.0, name="first"), Heard(price=10.0, name="second")
    strategy = Sequence(
        {
            "a": Ladder(n=2, controller=first, min_samples=2),
            "b": Ladder(n=4, controller=second, min_samples=4),
            "vote": Aggregate(),
        }
    )
    results = run_fake(strategy, FakeTask(size=3).problems(), budget=tokens(1e9), concurrency=2)
    costs = sorted(float(result.usage.decoded) for result in results.values())
    for heard in (first, second):
        assert sorted(cost for (cost,) in of(heard, "closed")) == costs


def test_branches_of_a_question_are_observed_together_once_all_have_ended(tools):
    heard = Heard(price=1.0)
    each = Each({"climb": Ladder(n=3, controller=heard, min_samples=3)})
    strategy = Sequence({"roots": GenerateStage(2, unit="step"), "each": each, "vote": Aggregate()})
    run_fake(
        strategy,
        FakeTask(size=2).problems(),
        engine=tools.Endless(),
        sampling=TEN,
        budget=tokens(1e9),
        concurrency=1,
    )
    assert of(heard, "observe")
    for samples, _, cost in of(heard, "observe"):
        assert cost == 10 * samples


@pytest.mark.slow
def test_a_first_measurement_of_nothing_but_failures_breaks_nothing():
    class Task(FakeTask):
        def answer(self, text, problem):
            if problem.id == "fake-0":
                raise ValueError("no answer")
            return super().answer(text, problem)

    for part in (Online(), Reserve()):
        results = run_fake(climbing(part), task=Task(), budget=tokens(1e6), concurrency=1)
        assert results["fake-0"].outcome == "failed"
        assert {result.outcome for name, result in results.items() if name != "fake-0"} == {"answered"}


@pytest.mark.slow
def test_samples_that_cost_nothing_leave_the_price_unknown():
    class Silent(FakeEngine):
        """Ends every sample of the first question without a token."""

        def _decode_one(self, sequence):
            if sequence.request.problem == "fake-0":
                return self._finish(sequence, "length")
            return super()._decode_one(sequence)

    for part in (Online(), Reserve()):
        results = run_fake(climbing(part), engine=Silent(), budget=tokens(1e6), concurrency=1)
        assert results["fake-0"].usage.decoded == 0
        assert {result.outcome for name, result in results.items() if name != "fake-0"} == {"answered"}


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["seconds", "tokens"])
def test_a_clock_that_goes_back_breaks_nothing(unit):
    class Back(FakeEngine):
        def now(self):
            return 100.0 - 0.01 * self.steps if self.steps % 40 < 20 else 0.01 * self.steps

    for part in (Online(), Reserve()):
        results = run_fake(
            climbing(part),
            engine=Back(),
            budget=Budget(run={unit: 1e6}),
            load=TraceLoad(levels=(0.1, 0.9), cycle=True).open(),
            concurrency=3,
        )
        assert {result.outcome for result in results.values()} == {"answered"}


def test_a_price_is_learnt_under_the_load_at_which_samples_began():
    heard = Heard(price=1.0)
    load = TraceLoad(levels=(0.25, 0.75), per="problem").open()
    run_fake(climbing(heard), FakeTask(size=2).problems(), budget=tokens(1e9), load=load, concurrency=1)
    assert [load for _, load, _ in of(heard, "observe")] == sorted(
        load for _, load, _ in of(heard, "observe")
    )
    assert {load for _, load, _ in of(heard, "observe")} == {0.25, 0.75}
    assert {asking.load for (asking,) in of(heard, "offer")} == {0.25, 0.75}


def test_samples_that_a_budget_ended_midway_tell_nothing_of_a_price(tools):
    heard = Heard()
    results = run_fake(
        climbing(heard),
        FakeTask(size=1).problems(),
        engine=tools.Endless(),
        sampling=TEN,
        budget=tokens(25),
        concurrency=1,
    )
    assert results["fake-0"].usage.aborted
    assert of(heard, "observe") == [(1, 0.0, 10.0)]
    assert of(heard, "closed") == [(float(spent(results)),)]


def test_what_controllers_have_learnt_is_told_in_the_order_of_their_stages(tools):
    from ttsflow.composing.assemble import assemble
    from ttsflow.session import Session

    mapping = {
        "strategy": {"use": "ladder", "controller": {"use": "online"}},
        "engine": {"use": "fake"},
        "task": {"use": "arithmetic", "size": 3},
        "budget": {"run": {"tokens": 10_000}},
    }
    setup = assemble(mapping)
    with Session(setup) as session:
        list(session.run(list(setup.task.problems())))
    (learnt,) = session.learnt
    assert learnt["unit"] == "tokens"
    assert learnt["prices"]["seen"] >= 3


def test_a_comparison_with_the_plain_engine_leaves_out_what_a_controller_decided():
    from ttsflow.composing.assemble import assemble
    from ttsflow.session import Session

    mapping = {
        "strategy": {"use": "ladder", "controller": {"use": "online"}},
        "engine": {"use": "fake", "check_exact": 1.0},
        "task": {"use": "arithmetic", "size": 3},
        "budget": {"run": {"tokens": 10_000}},
        "meter": {"use": "model", "busy_watts": 100.0},
    }
    setup = assemble(mapping)
    with Session(setup) as session:
        list(session.run(list(setup.task.problems())))
    assert session.exact == {"checked": 0, "differ": [], "skipped": 3}


# --- many in flight ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cold(Heard):
    """Has no price before it was told one."""

    def open(self, unit):
        return _Cold(self)


class _Cold(_Heard):
    def offer(self, asking):
        offer = super().offer(asking)
        return offer if of(self._part, "observe") else offer._replace(price=None)


def test_queries_are_told_in_the_order_in_which_they_began(tools):
    """However many run side by side, and though the short ones end first."""
    for concurrency in (1, 5, 12):
        heard = Heard(price=1.0)
        problems = FakeTask(size=12).problems()
        results = run_fake(
            climbing(heard, n=1, rungs=(1,)), problems, budget=tokens(1e9), concurrency=concurrency
        )
        lengths = [float(results[problem.id].usage.decoded) for problem in problems]
        assert len(set(lengths)) > 3
        assert [cost for _, _, cost in of(heard, "observe")] == lengths


@pytest.mark.slow
@pytest.mark.parametrize("part", [Cold, Heard])
def test_further_samples_wait_for_the_first_questions(part):
    """Also where there is a price: it is of other questions."""
    heard = part(price=1.0)
    run_fake(
        climbing(heard, gain="one_rung"), FakeTask(size=20).problems(), budget=tokens(1e9), concurrency=12
    )
    kinds = [entry[0] for entry in heard.log]
    later = next(
        place for place, (kind, *data) in enumerate(heard.log) if kind == "offer" and not data[0].first
    )
    assert kinds[:later].count("observe") >= 8
    firsts = [data[0].first for kind, *data in heard.log[:later] if kind == "offer"]
    assert firsts.count(True) == 12, "all that fit have begun, and nobody else"


@pytest.mark.slow
def test_of_larger_first_queries_no_more_begin_than_have_to_be_known():
    heard = Heard(price=1.0)
    strategy = Sequence({"draw": Allocate(heard, n=3, rungs=(3,)), "vote": Aggregate()})
    results = run_fake(strategy, FakeTask(size=20).problems(), budget=tokens(1e9), concurrency=12)
    kinds = [entry[0] for entry in heard.log]
    assert kinds[: kinds.index("observe")].count("offer") == 8
    assert {result.usage.requests for result in results.values()} == {3}


@pytest.mark.slow
def test_a_question_that_breaks_holds_up_nobody():
    class Broken(FakeTask):
        def answer(self, text, problem):
            if problem.id in {"fake-0", "fake-3"}:
                raise ValueError("no")
            return super().answer(text, problem)

    for concurrency in (3, 8):
        results = run_fake(
            climbing(Cold(price=1.0)), task=Broken(), budget=tokens(1e9), concurrency=concurrency
        )
        assert {name for name, result in results.items() if result.outcome == "failed"} == {
            "fake-0",
            "fake-3",
        }
        assert {result.outcome for result in results.values()} == {"answered", "failed"}


@pytest.mark.parametrize("limit", [5, 40, 90])
def test_those_that_wait_are_answered_when_the_funds_are_gone(limit):
    results = run_fake(
        climbing(Cold(price=1.0)), FakeTask(size=20).problems(), budget=tokens(limit), concurrency=12
    )
    assert len(results) == 20
    assert spent(results) < limit + 64


def test_branches_of_one_question_do_not_wait_for_each_other():
    each = Each({"climb": Ladder(n=3, controller=Cold(price=1.0), min_samples=3)})
    strategy = Sequence({"roots": GenerateStage(2, unit="step"), "each": each, "vote": Aggregate()})
    results = run_fake(strategy, FakeTask(size=6).problems(), budget=tokens(1e9), concurrency=4)
    assert {result.outcome for result in results.values()} == {"answered"}


@pytest.mark.slow
def test_with_many_in_flight_no_question_is_deferred_for_prices_of_short_samples(tools):
    from ttsflow.composing.assemble import assemble
    from ttsflow.config import compose
    from ttsflow.session import Session

    words = ["engine=replay", "task=recorded", "task.model=R1", "strategy=atest_reserve", "concurrency=32"]
    setup = assemble(compose([*words, "budget.run.tokens=3000000"]))
    with Session(setup) as session:
        results = list(session.run(list(setup.task.problems())[:100]))
    # Of 100 questions 26 were deferred when prices were learnt in the order in which samples ended.
    assert sum(result.outcome == "deferred" for result in results) <= 2
    assert sum(result.usage.decoded for result in results) < 3_000_000 + 32 * 8


@dataclass(frozen=True)
class Broken:
    """A controller that offers what cannot be, or fails when it is told something."""

    offer: dict = field(default_factory=dict, hash=False)
    fails: str = ""
    unit: str | None = None

    def open(self, unit):
        return _Broken(self)


class _Broken(_Heard):
    def __init__(self, part):
        super().__init__(Heard(price=1.0))
        self._broken = part

    def offer(self, asking):
        return super().offer(asking)._replace(**self._broken.offer)

    def observe(self, samples, load, cost):
        if self._broken.fails == "observe":
            raise KeyError(samples)

    def closed(self, spent):
        if self._broken.fails == "closed":
            raise ZeroDivisionError


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "offer", [{"price": NAN}, {"price": -1.0}, {"margin": INF}, {"rate": NAN}, {"alpha": 0.0}, {"alpha": NAN}]
)
def test_an_offer_that_cannot_be_fails_its_problem_and_names_the_controller(offer):
    results = run_fake(climbing(Broken(offer)), budget=tokens(1e6))
    assert {result.outcome for result in results.values()} == {"failed"}
    ((name, value),) = offer.items()
    assert all(f"the controller Broken offered {name} {value}" in r.reason for r in results.values())


@pytest.mark.parametrize("fails", ["observe", "closed"])
def test_a_controller_that_fails_when_it_is_told_ends_the_run_in_words(fails):
    with pytest.raises(PluginError, match=f"the controller Broken failed in {fails}"):
        run_fake(climbing(Broken(fails=fails)), budget=tokens(1e6))
