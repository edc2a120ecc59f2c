"""The strategy that chooses strategies, in the driver: what is learnt, in which order, within which funds."""

import json
from collections import Counter
from dataclasses import dataclass, field

import pytest

from ttsflow import Pipeline
from ttsflow.choice import ChooserPart
from ttsflow.choosers import check_gold, choosers_of
from ttsflow.composing.assemble import assemble
from ttsflow.config import strategy_of
from ttsflow.controllers.chooser import Learning
from ttsflow.controllers.online import Online
from ttsflow.controllers.prices import Prices
from ttsflow.errors import ConfigError
from ttsflow.ledger import Budget
from ttsflow.ops import Choose, Chosen, Earned, Generate, Learn, Request
from ttsflow.run import run_config
from ttsflow.session import Session
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.auto import Auto
from ttsflow.strategies.flow import Each, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.ladder import Ladder
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.testing.heard import Heard
from ttsflow.types import Answer, Problem, Sampling, Usage

TEN = Sampling(max_tokens=10)


def majority(n):
    return Sequence({"sample": GenerateStage(n), "vote": Aggregate()})


ARMS = {"one": majority(1), "four": majority(4), "eight": majority(8)}


def problems(size):
    return FakeTask(size=size).problems()


def tokens(limit, **more):
    return Budget(run={"tokens": limit}, **more)


def arms_of(heard):
    return [data["arm"] for data in heard.of("auto")]


def spent(results):
    return sum(result.usage.decoded for result in results.values())


@dataclass(frozen=True)
class Right:
    """A task whose word on an answer is known: what is answered by ``right`` is right."""

    size: int = 8
    right: str = "good"
    stop: tuple = ()
    separator: str = "\n"
    probe: str = ""

    def problems(self):
        return problems(self.size)

    def answer(self, text, problem):
        return Answer(text, text)

    def correct(self, answer, problem):
        return answer is not None and answer.key == self.right


@dataclass(frozen=True)
class Says:
    """Draws ``n`` samples and then answers ``word``, or breaks."""

    word: str = "good"
    n: int = 1
    breaks: bool = False

    @property
    def demand(self):
        return self.n

    def __call__(self, state):
        got = yield Generate((Request(),) * self.n)
        if self.breaks:
            raise ValueError("broken")
        return state.with_(pool=got.candidates, answer=Answer(self.word, self.word), spent=got.spent)


CHOICE = {"good": Says("good", 2), "bad": Says("bad", 1), "worse": Says("worse", 4)}


def graded(arms=CHOICE, **settings):
    learning = {"price": 0.0, "spread": 0.2, "boldness": 1.0} | settings.pop("learning", {})
    return Auto(arms, reward="correct", learning=Learning(**learning), **settings)


# --- it learns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_best_arm_is_chosen_more_and_more(concurrency):
    heard = Heard()
    task = Right(60)
    run_fake(graded(), task.problems(), task=task, sampling=TEN, trace=heard, concurrency=concurrency)
    arms = arms_of(heard)
    assert len(arms) == 60
    assert Counter(arms[:12])["good"] < 12, "it tries others first"
    assert Counter(arms[-20:])["good"] >= 18


def test_a_price_can_make_the_best_arm_too_dear():
    heard = Heard()
    task = Right(60)
    auto = graded({"good": Says("good", 8), "bad": Says("bad", 1)}, learning={"price": 0.5})
    run_fake(auto, task.problems(), task=task, sampling=TEN, trace=heard, concurrency=1)
    assert Counter(arms_of(heard)[-20:])["bad"] >= 18


def test_an_arm_that_breaks_earns_nothing_and_is_left_alone():
    heard = Heard()
    task = Right(40)
    arms = {"good": Says("good", 1), "broken": Says("good", 1, breaks=True)}
    results = run_fake(graded(arms), task.problems(), task=task, sampling=TEN, trace=heard, concurrency=2)
    arms = arms_of(heard)
    failed = [result for result in results.values() if result.outcome == "failed"]
    assert len(failed) == Counter(arms)["broken"] > 0
    assert "broken" not in arms[-15:]


# --- funds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("limit", [60, 250, 600, 2000])
def test_funds_are_exceeded_by_one_step_at_most(limit, concurrency):
    results = run_fake(
        Auto(ARMS),
        problems(20),
        engine=FakeEngine(capacity=64),
        budget=tokens(limit),
        concurrency=concurrency,
    )
    assert len(results) == 20
    assert spent(results) < limit + 64


def test_as_funds_fall_arms_are_cheaper_and_the_last_question_gets_a_sample(tools):
    """All samples have ten tokens: a sample for each of twenty questions, and ten samples more."""
    heard = Heard()
    results = run_fake(
        Auto(ARMS, learning=Learning(price=0.0)),
        problems(20),
        engine=tools.Endless(),
        sampling=TEN,
        budget=tokens(300),
        trace=heard,
        concurrency=1,
    )
    arms = Counter(arms_of(heard))
    assert arms["one"] >= 16
    assert 1 <= arms["four"] + arms["eight"] <= 4
    assert spent(results) <= 300
    assert not any(result.usage.aborted for result in results.values())
    assert {result.usage.requests for result in results.values()} >= {1}
    assert min(result.usage.requests for result in results.values()) == 1


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_is_not_affordable_is_deferred(concurrency, tools):
    """Funds for four and a half samples."""
    results = run_fake(
        Auto(ARMS),
        problems(8),
        engine=tools.Endless(),
        sampling=TEN,
        budget=tokens(45),
        concurrency=concurrency,
    )
    assert spent(results) == 40
    assert tools.outcomes(results)["deferred"] == 4
    for result in results.values():
        if result.outcome == "deferred":
            assert result.stopped == "the cheapest, one, costs 10 tokens, and 5 are left"
            assert result.correct is False


@pytest.mark.parametrize("concurrency", [1, 8])
def test_problems_in_flight_do_not_overspend_together(concurrency, tools):
    results = run_fake(
        Auto(ARMS, learning=Learning(price=0.0)),
        problems(30),
        engine=tools.Endless(capacity=64),
        sampling=TEN,
        budget=tokens(10 * 70),
        concurrency=concurrency,
    )
    assert spent(results) <= 10 * 70
    assert not any(result.usage.aborted for result in results.values())
    assert tools.outcomes(results)["deferred"] == 0


# --- order and chance ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("budget", [None, tokens(1500)], ids=["none", "tokens"])
def test_a_second_run_decides_the_same(budget, concurrency):
    first, second = (
        run_fake(Auto(ARMS), problems(20), budget=budget, concurrency=concurrency) for _ in range(2)
    )
    assert first == second


def test_other_seeds_try_other_arms():
    def arms(seed):
        heard = Heard()
        run_fake(Auto(ARMS), problems(12), trace=heard, seed=seed, concurrency=1)
        return arms_of(heard)

    assert len({tuple(arms(seed)) for seed in range(4)}) > 1


@dataclass(frozen=True)
class Listens:
    """A chooser that always takes the first arm and remembers what it is asked and told."""

    unit: str | None = None
    graded: bool = False
    log: list = field(default_factory=list, compare=False)

    def open_chooser(self, unit):
        self.log.append(("open", unit))
        return _Listens(self.log)


class _Listens:
    def __init__(self, log):
        self._log = log

    def begin(self, problems, limit):
        self._log.append(("begin", problems, limit))

    def choose(self, question, rng):
        self._log.append(("choose", question))
        return Chosen("arm", 10.0)

    def learn(self, arm, features, outcomes):
        self._log.append(("learn", features["number"], outcomes))

    def state(self):
        return {}


@dataclass(frozen=True)
class Asks:
    """Asks its chooser, and draws more samples for earlier questions."""

    chooser: Listens

    def __call__(self, state):
        number = int(state.problem.id.rpartition("-")[2])
        chosen = yield Choose(
            self.chooser, state.rng("x"), {"number": float(number)}, state.spent, {"arm": 1}
        )
        got = yield Generate((Request(),))
        for _ in range(3 - number):
            got = yield Generate((Request(),))
        if number == 1:
            raise ValueError("broken")
        answer = Answer("no", "no")
        others = {"other": Earned(answer, 0.5, Usage(output=7))}
        yield Learn(chosen.number, {chosen.arm: Earned(answer, 0.25), **others})
        return state.with_(pool=got.candidates, spent=got.spent)


def test_outcomes_are_learnt_in_the_order_of_the_choices(tools):
    chooser = Listens()
    run_fake(
        Asks(chooser),
        problems(4),
        engine=tools.Endless(capacity=64),
        sampling=TEN,
        budget=tokens(1e6),
        concurrency=4,
    )
    assert chooser.log[:2] == [("open", "tokens"), ("begin", 4, 1e6)]
    questions = [entry[1] for entry in chooser.log if entry[0] == "choose"]
    assert [question.ahead for question in questions] == [4, 3, 2, 1]
    assert [question.left for question in questions] == [1e6, 1e6 - 10, 1e6 - 20, 1e6 - 30]
    assert {question.features["task"] for question in questions} == {"fake"}
    assert {question.features["budget_left"] for question in questions} <= {1.0, 1 - 1e-5, 1 - 2e-5, 1 - 3e-5}
    assert all(question.features["prompt_tokens"] > 0 for question in questions)
    learnt = [entry[1:] for entry in chooser.log if entry[0] == "learn"]
    assert [number for number, _ in learnt] == [0.0, 1.0, 2.0, 3.0]
    costs = [outcomes["arm"] for _, outcomes in learnt]
    assert costs == [(0.25, 40.0), (0.0, 30.0), (0.25, 20.0), (0.25, 10.0)]
    assert learnt[0][1]["other"] == (0.5, 7.0)


def test_what_was_lost_with_the_engine_or_ended_by_a_budget_tells_nothing(tools):
    for settings in (
        {"engine": FakeEngine(dies_after=3)},
        {"engine": tools.Endless(), "budget": tokens(5), "sampling": TEN},
    ):
        chooser = Listens()
        run_fake(Asks(chooser), problems(1), concurrency=1, **settings)
        assert [entry[0] for entry in chooser.log] == ["open", "begin", "choose"]


def test_a_reward_that_is_none_fails_its_problem_and_holds_up_nobody():
    @dataclass(frozen=True)
    class Boasts:
        chooser: Listens

        def __call__(self, state):
            number = int(state.problem.id.rpartition("-")[2])
            chosen = yield Choose(self.chooser, state.rng("x"), {"number": float(number)})
            got = yield Generate((Request(),))
            yield Learn(chosen.number, {chosen.arm: Earned(None, 2.0 if number == 0 else 1.0)})
            return state.with_(pool=got.candidates, spent=got.spent)

    chooser = Listens()
    results = run_fake(Boasts(chooser), problems(3), concurrency=3)
    assert results["fake-0"].reason == "ValueError: a reward lies between 0 and 1, got 2.0."
    rewards = {entry[1]: entry[2]["arm"].reward for entry in chooser.log if entry[0] == "learn"}
    assert rewards == {0.0: 0.0, 1.0: 1.0, 2.0: 1.0}


def test_a_grader_that_breaks_tells_nothing_of_an_arm():
    class Breaks(FakeTask):
        def correct(self, answer, problem):
            if problem.id == "fake-1":
                raise ValueError("no")
            return super().correct(answer, problem)

    auto = Auto(ARMS, reward="correct")
    results = run_fake(auto, problems(4), task=Breaks(), concurrency=1)
    assert results["fake-1"].reason == "grading failed: ValueError: no"
    assert {result.outcome for name, result in results.items() if name != "fake-1"} == {"answered"}


def test_a_clock_that_goes_back_breaks_nothing():
    class Back(FakeEngine):
        def now(self):
            return 100.0 - 0.01 * self.steps if self.steps % 40 < 20 else 0.01 * self.steps

    results = run_fake(Auto(ARMS), problems(12), engine=Back(), budget=Budget(run={"seconds": 1e6}))
    assert {result.outcome for result in results.values()} == {"answered"}


def test_branches_of_a_question_may_choose_side_by_side():
    each = Each({"auto": Auto(ARMS)})
    strategy = Sequence({"roots": GenerateStage(2), "each": each, "vote": Aggregate()})
    results = run_fake(strategy, problems(6), budget=tokens(5000), concurrency=2)
    assert {result.outcome for result in results.values()} == {"answered"}


def test_grades_come_from_the_task_and_only_where_it_knows():
    chooser = Listens(graded=True)
    task = FakeTask(size=4)
    asked = [*task.problems()[:3], Problem("? ", id="fake-3")]
    run_fake(Asks(chooser), asked, task=task, concurrency=1)
    learnt = [entry[2]["arm"].reward for entry in chooser.log if entry[0] == "learn"]
    assert learnt == [0.0, 0.0, 0.0, None]


def test_a_problem_that_never_asks_waits_no_longer():
    class Broken(FakeEngine):
        def encode(self, prompt):
            if "Question 0" in prompt:
                raise ValueError("no")
            return super().encode(prompt)

    chooser = Listens()
    run_fake(Asks(chooser), problems(4), engine=Broken(), concurrency=1)
    assert [entry[1].ahead for entry in chooser.log if entry[0] == "choose"] == [3, 2, 1]
    assert {entry[1].left for entry in chooser.log if entry[0] == "choose"} == {None}


@pytest.mark.slow
def test_an_arm_may_have_a_controller_of_its_own():
    climb = Ladder(controller=Online(prices=Prices(prior=(0.0, 20.0, 0.0, 0.0))))
    arms = {"climb": Sequence({"climb": climb, "vote": Aggregate()}), "one": majority(1)}
    results = run_fake(Auto(arms), problems(12), budget=tokens(5000), concurrency=2)
    assert {result.outcome for result in results.values()} == {"answered"}


def test_a_question_that_an_arm_of_its_own_defers_may_be_asked_once_more():
    online = Online(retry=True, prices=Prices(prior=(0.0, 200.0, 0.0, 0.0), beta=0.0))
    arms = {"climb": Sequence({"climb": Ladder(controller=online), "vote": Aggregate()})}
    heard = Heard()
    results = run_fake(Auto(arms), problems(8), budget=tokens(600), trace=heard, concurrency=1)
    assert len(results) == 8
    assert len(arms_of(heard)) > 8, "some were deferred"
    assert not any(result.outcome == "failed" for result in results.values())


# --- saved and gone on ---------------------------------------------------------------------------------


def config(auto=None, **changes):
    arms = {
        "one": {"use": "strategy", "name": "single"},
        "four": {"use": "strategy", "name": "majority", "n": 4},
    }
    return {
        "strategy": strategy_of({"use": "auto", "arms": arms, **(auto or {})}),
        "engine": {"use": "fake"},
        "task": {"use": "arithmetic", "size": 12},
        "concurrency": 1,
        **changes,
    }


def ran(mapping, some=slice(None)):
    """Return the arms that were chosen for some of the problems, and what was learnt."""
    setup, heard = assemble(mapping), Heard()
    with Session(setup) as session:
        list(session.run(list(setup.task.problems())[some], trace=heard))
    (learnt,) = session.learnt
    return arms_of(heard), learnt


@pytest.mark.slow
@pytest.mark.parametrize("cut", [1, 5, 11])
def test_a_run_that_goes_on_decides_as_if_it_had_not_been_interrupted(cut, tmp_path):
    whole, learnt = ran(config())
    first, half = ran(config(), slice(cut))
    file = tmp_path / "learnt.json"
    file.write_text(json.dumps(half))
    second, rest = ran(config({"learning": {"start": str(file)}}), slice(cut, None))
    assert first + second == whole
    assert rest["learner"]["rewards"] == learnt["learner"]["rewards"]
    assert rest["learner"]["costs"] == learnt["learner"]["costs"]


@pytest.mark.slow
def test_a_run_writes_what_it_has_learnt_and_another_begins_with_it(tmp_path):
    run_config(config(), tmp_path / "first")
    file = tmp_path / "first" / "learnt.json"
    assert json.loads(file.read_text())["learner"]["seen"] == 12
    run_config(config({"learning": {"start": str(file)}}), tmp_path / "second")
    assert json.loads((tmp_path / "second" / "learnt.json").read_text())["learner"]["seen"] == 24


@pytest.mark.parametrize("unit", ["seconds", "requests", "joules"])
@pytest.mark.parametrize("limit", [None, 1e6])
def test_any_unit_is_learnt(unit, limit):
    mapping = config(
        {"learning": {"unit": unit}},
        meter={"use": "model", "busy_watts": 100.0},
        budget={"run": {} if limit is None else {unit: limit}},
    )
    arms, learnt = ran(mapping)
    learner = learnt["learner"]
    assert (learnt["unit"], learner["budget"], learner["seen"]) == (unit, limit, 12)
    assert Counter(arms)["four"] > 0
    # How long another arm would have taken is not known.
    assert learner["ignored"] == (0 if unit == "requests" else Counter(arms)["four"])


# --- what is refused beforehand ------------------------------------------------------------------------

NONE = {"use": "plain", "items": [{"prompt": "1 + 1 ="}, {"prompt": "2 + 2 ="}]}
WRONG = [
    ({"unit": "joules"}, {}, "strategy.learning.unit", "no cost model of this run measures 'joules'"),
    ({"unit": "token"}, {}, "strategy.learning.unit", "Did you mean 'tokens'"),
    ({"unit": "seconds"}, {"tokens": 5}, "strategy.learning.unit", "the run has no budget in 'seconds'"),
    ({}, {"tokens": 5, "seconds": 5}, "strategy.learning.unit", "say which of them it spends"),
    ({"start": "/no/such/file.json"}, {}, "strategy.learning.start", "there is no such file"),
]


@pytest.mark.parametrize(("learning", "budget", "path", "message"), WRONG, ids=[w[3] for w in WRONG])
def test_what_cannot_be_is_said_before_anything_is_opened(learning, budget, path, message):
    with pytest.raises(ConfigError, match=message) as error:
        assemble(config({"learning": learning}, budget={"run": budget}))
    assert error.value.path == path


@pytest.mark.parametrize(
    ("auto", "path"),
    [
        ({"reward": "score"}, "strategy"),
        (
            {"reward": "correct", "arms": {"best": {"use": "strategy", "name": "best_of_n"}}},
            "strategy.arms.best.stages.score",
        ),
    ],
)
def test_what_needs_a_verifier_is_refused_without_one(auto, path):
    with pytest.raises(ConfigError, match="no verifier is set") as error:
        assemble(config(auto))
    assert error.value.path == path
    assemble(config(auto, verifier={"use": "fake"}))


@pytest.mark.slow
def test_to_learn_from_right_answers_some_must_be_known(tmp_path):
    setup = assemble(config({"reward": "correct"}))
    asked = setup.task.problems()
    unknown = [Problem(problem.prompt, id=problem.id) for problem in asked]
    check_gold(setup.strategy, setup.task, asked)
    check_gold(setup.strategy, setup.task, [*unknown, asked[0]])
    check_gold(setup.strategy, setup.task, [])
    check_gold(assemble(config()).strategy, setup.task, unknown)
    with pytest.raises(ConfigError, match="no gold answers") as error:
        check_gold(setup.strategy, setup.task, unknown)
    assert error.value.path == "strategy.reward"
    pipeline = Pipeline("auto", engine={"use": "fake"}, reward="correct")
    with pytest.raises(ConfigError, match="no gold answers"):
        pipeline.run(["1 + 1 ="])
    assert pipeline.run([{"prompt": "1 + 1 =", "gold": "2"}]).summary.problems == 1


def test_how_many_are_in_flight_is_in_the_fingerprint():
    one, other = (assemble(config(concurrency=count)).fingerprint for count in (1, 2))
    assert one != other


def test_equal_choosers_are_one():
    auto = Auto(ARMS)
    assert isinstance(auto.chooser, ChooserPart)
    both = Sequence({"a": auto, "b": Auto(ARMS), "c": Auto(ARMS, votes=4), "d": Auto(ARMS, reward="correct")})
    assert list(choosers_of(both, Budget(), ["tokens"]).values()) == ["tokens"] * 2


def test_a_comparison_with_the_plain_engine_leaves_out_what_was_chosen():
    setup = assemble(config(engine={"use": "fake", "check_exact": 1.0}))
    with Session(setup) as session:
        list(session.run(list(setup.task.problems())))
    assert session.exact == {"checked": 0, "differ": [], "skipped": 12}
