"""Every part that is shipped keeps its protocol."""

import json
from types import SimpleNamespace

import pytest

from ttsflow.acceleration import Acceleration
from ttsflow.builtin import PARTS
from ttsflow.control import ControllerPart
from ttsflow.controllers.online import Online
from ttsflow.controllers.reserve import Reserve
from ttsflow.controllers.shares import Shares
from ttsflow.costs.basic import Requests, Seconds, Tokens
from ttsflow.costs.by_engine import ByEngine
from ttsflow.costs.hardware import Hardware
from ttsflow.costs.prices import Joules, Money
from ttsflow.costs.work import Flops, RooflineSeconds
from ttsflow.engines.accelerated import accelerated
from ttsflow.engines.law import Law
from ttsflow.engines.recorded_samples import RecordedSamples
from ttsflow.engines.replay import Replay
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import Texts
from ttsflow.engines.sim import Sim
from ttsflow.engines.traced import Traced
from ttsflow.engines.vllm import VLLM
from ttsflow.load.cpu import CPULoad
from ttsflow.load.idle import NoLoad
from ttsflow.load.queued import QueueLoad
from ttsflow.load.written import TraceLoad
from ttsflow.meters.model import PowerModel
from ttsflow.meters.plain import NoMeter
from ttsflow.meters.rapl import RAPL
from ttsflow.paths import PathsPart
from ttsflow.protocols import EnginePart
from ttsflow.sensors import LoadPart, MeterPart
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.apart import Apart
from ttsflow.strategies.auto import Auto
from ttsflow.strategies.branch import Branch
from ttsflow.strategies.budget_check import BudgetCheck
from ttsflow.strategies.confidence import Confidence, LowConfidence
from ttsflow.strategies.dedup import Dedup
from ttsflow.strategies.flow import Each, Repeat, Sequence, When
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.ladder import Ladder
from ttsflow.strategies.lookahead import Lookahead
from ttsflow.strategies.probe import Probe
from ttsflow.strategies.recipe import Recipe
from ttsflow.strategies.repetition import Repetition
from ttsflow.strategies.select import Select
from ttsflow.strategies.stability import Consistent, WindowAgreed
from ttsflow.strategies.until import (
    Agreed,
    AllFinished,
    AllOf,
    AnyOf,
    BestFinished,
    Finished,
    Not,
    PoolSize,
    Stopped,
)
from ttsflow.strategies.verify import Verify
from ttsflow.strategies.watches import FirstFinished, LastFinished, ThinkingEnded
from ttsflow.tasks.arithmetic import Arithmetic
from ttsflow.tasks.jsonl import Jsonl
from ttsflow.tasks.plain import Plain
from ttsflow.tasks.simulated import SimulatedTask
from ttsflow.testing import FakeEngine, FakeEnginePart, FakeTask, FakeVerifierPart
from ttsflow.testing.contracts import (
    ControllerContract,
    CostContract,
    EngineContract,
    LoadContract,
    MeterContract,
    PartContract,
    PredictorContract,
    StageContract,
    TaskContract,
    UntilContract,
    VerifierContract,
    WatchContract,
)
from ttsflow.verifiers.answer import GoldAnswer
from ttsflow.verifiers.confidence import ConfidenceScore
from ttsflow.verifiers.constant import Constant, RandomScore
from ttsflow.verifiers.countdown import CountdownSteps
from ttsflow.verifiers.ensemble import Ensemble
from ttsflow.verifiers.equations import Equations
from ttsflow.verifiers.judge import Judge
from ttsflow.verifiers.tests import CodeTests


@pytest.fixture
def part(request):
    return request.param


def parts(**known):
    return pytest.mark.parametrize("part", known.values(), ids=known, indirect=True)


@pytest.mark.parametrize(
    "settings",
    [{}, {"capacity": 1}, {"capacity": 2, "preempt": 0.5}, {"logprobs": 0, "certainty": False}],
    ids=["plain", "one-seat", "preempting", "no-signals"],
)
class TestFakeEngine(EngineContract):
    @pytest.fixture
    def engine(self, settings):
        engine = FakeEngine(context=200, **settings)
        yield engine
        engine.close()


@pytest.mark.parametrize("settings", [{}, {"capacity": 1}, {"capacity": 2, "preempt": 0.5}], ids=str)
class TestAcceleratedEngine(EngineContract):
    @pytest.fixture
    def engine(self, settings):
        wanted = Acceleration(prefix_order=True, speculation=True)
        return accelerated(FakeEngine(context=200, **settings), wanted)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Return a pool that all tests of an engine share, so that what one has asked for another finds."""
    store = SampleStore(tmp_path_factory.mktemp("pool") / "samples.pool")
    yield store
    store.close()


@pytest.mark.parametrize("settings", [{}, {"capacity": 1}, {"capacity": 2, "preempt": 0.5}], ids=str)
@pytest.mark.parametrize("wanted", [Acceleration(), Acceleration(prefix_order=True, speculation=True)])
class TestPooledEngine(EngineContract):
    @pytest.fixture
    def engine(self, settings, wanted, samples):
        return accelerated(FakeEngine(context=200, **settings), wanted, pool=(samples, Texts("fake", "")))


LAW = Law(median=3, sigma=0.5, longest=10, end=0.2)


ENGINES = {
    "fake": FakeEnginePart(),
    "replay": Replay(),
    "sim": Sim(Hardware(80, 100, 1000), paths=LAW),
    "vllm": VLLM("some/model"),
}


@parts(**ENGINES)
class TestEngineParts(PartContract):
    def test_keeps_the_protocol(self, part):
        assert isinstance(part, EnginePart)


PATHS = {"law": LAW, "recorded": RecordedSamples(), "trace": Traced("a folder")}


@parts(**PATHS)
class TestPaths(PartContract):
    def test_keeps_the_protocol(self, part):
        assert isinstance(part, PathsPart)


STEP = GenerateStage(4, unit="step")
STAGES = {
    "sequence": Sequence({"a": GenerateStage(2), "b": GenerateStage(1)}),
    "repeat": Repeat({"step": STEP}, at_most=4, until=AllFinished()),
    "when": When(PoolSize(1), GenerateStage(1), GenerateStage(2)),
    "each": Sequence({"roots": STEP, "each": Each({"more": Repeat({"step": STEP}, at_most=3)})}),
    "apart": Sequence({"a": GenerateStage(2), "b": Apart({"step": STEP, "more": STEP})}),
    "generate": GenerateStage(3, total=2, watch=FirstFinished(1, refill=1)),
    "verify": Sequence({"a": GenerateStage(3), "s": Verify("geometric")}),
    "select": Repeat({"step": STEP, "score": Verify(), "keep": Select(into=4, copies=2)}, at_most=4),
    "aggregate": Sequence(
        {"a": GenerateStage(5), "s": Verify(), "v": Aggregate(how="weighted", ties="score")}
    ),
    "branch": Repeat({"step": STEP, "score": Verify(), "branch": Branch(4)}, at_most=4),
    "dedup": Repeat({"step": STEP, "drop": Dedup()}, at_most=4),
    "lookahead": Sequence({"step": STEP, "ahead": Lookahead(), "keep": Select(into=2)}),
    "confidence": Sequence(
        {
            "warm_up": GenerateStage(4),
            "more": GenerateStage(4, watch=LowConfidence(group=4)),
            "score": Confidence(group=4),
            "vote": Aggregate(how="weighted"),
        }
    ),
    "probe": Repeat(
        {"more": GenerateStage(2, unit="tokens", step_tokens=4), "probe": Probe(window=2)}, at_most=9
    ),
    "recipe": Recipe(4),
    # With one arm there is nothing to choose; what is chosen depends on what has ended.
    "auto": Auto({"vote": Sequence({"a": GenerateStage(3), "v": Aggregate()})}, probe=2),
    "ladder": Sequence({"climb": Ladder(), "vote": Aggregate()}),
    "budget_check": Sequence({"a": GenerateStage(2), "b": BudgetCheck(0.5, 9)}),
}


@parts(**STAGES)
class TestStages(StageContract):
    pass


WATCHES = {
    "first_finished": FirstFinished(),
    "more": FirstFinished(3, refill=2),
    "last_finished": LastFinished(2, ThinkingEnded("1", 3)),
    "low_confidence": LowConfidence(group=2, top=1),
    "repetition": Repetition(times=2, least=2),
}


@parts(**WATCHES)
class TestWatches(WatchContract):
    pass


UNTILS = {
    "all_finished": AllFinished(),
    "agreed": Agreed(),
    "by_score": Agreed(by="score"),
    "consistent": Consistent(),
    "window_agreed": WindowAgreed(2),
    "best_finished": BestFinished(),
    "finished": Finished(2),
    "pool_size": PoolSize(3),
    "stopped": Stopped(),
    "any_of": AnyOf({"a": PoolSize(3), "b": Stopped()}),
    "all_of": AllOf({"a": PoolSize(3), "b": Agreed()}),
    "not": Not(PoolSize(3)),
}


@parts(**UNTILS)
class TestConditions(UntilContract):
    pass


PREDICTORS = {"thinking_ended": ThinkingEnded("1", 3)}


@parts(**PREDICTORS)
class TestPredictors(PredictorContract):
    pass


LOADS = {"none": NoLoad(), "cpu": CPULoad(), "trace": TraceLoad((0.0, 0.5, 1.0), each=2.0, cycle=True)}


@parts(**LOADS)
class TestLoads(LoadContract):
    def test_keeps_the_protocol(self, part):
        assert isinstance(part, LoadPart)


class BusyEngine(FakeEngine):
    """A fake engine that others use as well."""

    def load(self):
        return SimpleNamespace(running=16, waiting=9)


class TestQueue(LoadContract):
    @pytest.fixture
    def part(self):
        return QueueLoad()

    def opened(self, part):
        return part.open_on(BusyEngine(), lambda: 3)


CONTROLLERS = {"online": Online(), "reserve": Reserve(), "shares": Shares()}


@parts(**CONTROLLERS)
class TestControllers(ControllerContract):
    def test_keeps_the_protocol(self, part):
        assert isinstance(part, ControllerPart)


VERIFIERS = {
    "countdown": CountdownSteps(),
    "equations": Equations(),
    "constant": Constant(0.25),
    "random": RandomScore(3),
    "fake": FakeVerifierPart(),
    "judge": Judge(FakeEnginePart(), per="step"),
    "ensemble": Ensemble({"a": Equations(), "b": RandomScore(3)}),
}


@parts(**VERIFIERS)
class TestVerifiers(VerifierContract):
    pass


OUTCOMES = {
    "answer": GoldAnswer(evaluation=True),
    "confidence": ConfidenceScore("self_certainty"),
    "tests": CodeTests(),
}


@parts(**OUTCOMES)
class TestOutcomeVerifiers(VerifierContract):
    whole = True


COSTS = {
    "tokens": Tokens(prompt=0.1, verifier=0.2),
    "seconds": Seconds(),
    "requests": Requests(),
    "by_engine": ByEngine(Money(output=8.0), {"large": Money(output=20.0)}),
    "joules": Joules(),
    "money": Money(output=8.0),
    "flops": Flops("smollm2-135m", context=100),
    "roofline": RooflineSeconds(Hardware(80, 100, 1000), "smollm2-135m"),
}


@parts(**COSTS)
class TestCosts(CostContract):
    pass


METERS = {"none": NoMeter(), "model": PowerModel(60.0, idle_watts=20.0)}


@parts(**METERS)
class TestMeters(MeterContract):
    def test_keeps_the_protocol(self, part):
        assert isinstance(part, MeterPart)


class TestRAPL(MeterContract):
    @pytest.fixture
    def part(self, tmp_path):
        zone = tmp_path / "intel-rapl:0"
        zone.mkdir()
        for name, text in {"name": "package-0", "energy_uj": "5", "max_energy_range_uj": "1000"}.items():
            (zone / name).write_text(text)
        return RAPL(str(tmp_path))


TASKS = {
    "fake": FakeTask(stop=("!",)),
    "arithmetic": Arithmetic(),
    "plain": Plain(({"prompt": "?", "gold": "4"},)),
    "simulated": SimulatedTask(),
}


@parts(**TASKS)
class TestTasks(TaskContract):
    pass


class TestJsonl(TaskContract):
    @pytest.fixture
    def part(self, tmp_path):
        path = tmp_path / "data.jsonl"
        rows = [{"question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in range(3)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Jsonl(str(path))


def test_every_shipped_part_of_these_kinds_is_held_to_its_contract():
    # These need the budget of a run, and a controller of it needs what was measured before: their own tests
    # hold them to what they say.
    assert {*STAGES, "round_check", "allocate"} == set(PARTS["stage"])
    # Recorded scores belong to recorded samples alone, reward models need a model, and a simulated one scores
    # the steps of a law; their own tests hold them to the protocol.
    assert {*VERIFIERS, *OUTCOMES, "recorded", "prm", "orm", "simulated"} == set(PARTS["verifier"])
    assert {*WATCHES} - {"more"} == set(PARTS["watch"])
    assert {*UNTILS} - {"by_score"} == set(PARTS["until"])
    assert set(PREDICTORS) == set(PARTS["predictor"])
    assert {*CONTROLLERS, "calibrated"} == set(PARTS["controller"])
    # That of GPUs needs one: its own tests hold it to made-up boards.
    assert {*LOADS, "queue", "nvml"} == set(PARTS["load"])
    assert set(ENGINES) == set(PARTS["engine"])
    assert set(PATHS) == set(PARTS["paths"])
    assert set(COSTS) == set(PARTS["cost"])
    # Those of GPUs need one: their own tests hold them to it on made-up boards.
    assert {*METERS, "rapl", "nvml", "power"} == set(PARTS["meter"])
