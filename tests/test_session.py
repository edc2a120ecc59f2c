"""Verifiers with a model of their own in a session: which engine they get, and what stays open."""

from dataclasses import dataclass, replace

import pytest

from ttsflow.composing.assemble import assemble
from ttsflow.engines import warm
from ttsflow.engines.shared import Port
from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Request, Score
from ttsflow.pipeline import Pipeline
from ttsflow.protocols import Capabilities
from ttsflow.session import Session
from ttsflow.testing import FakeEngine, FakeEnginePart, FakeTask, FakeVerifierPart
from ttsflow.verifiers.batch import Batched
from ttsflow.verifiers.judge import Judge

WORDS = {"good": ("1", "2", "3"), "bad": ("4", "5", "6")}


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setattr(warm, "_held", [])


@dataclass(frozen=True)
class Model:
    """An engine of a verifier that only remembers that it was closed."""

    name: str = "model"
    broken: bool = False

    def open(self):
        if self.broken:
            raise OSError("no such model")
        return Loaded()


class Loaded:
    def __init__(self):
        self.closed = self.dead = False
        self.resets = 0

    def reset(self):
        self.resets += 1

    def close(self):
        self.closed = True


@dataclass(frozen=True)
class Own:
    """A verifier with models of its own."""

    engines: tuple = (Model(),)
    refuses: bool = False

    def check_engine(self, capabilities):
        assert isinstance(capabilities, Capabilities)
        if self.refuses:
            raise ConfigError("cannot be asked", "engine")

    def open(self):
        raise AssertionError("a session opens it on engines")

    def open_on(self, engines, separator):
        if self.refuses:
            raise ConfigError("no such tag", "tag")
        verifier = Batched(lambda batch: [[0.5] for _ in batch])
        verifier.engines, verifier.separator = engines, separator
        return verifier


def setup(verifier, engine=None):
    strategy = {
        "use": "sequence",
        "stages": {
            "sample": {"use": "generate", "n": 4},
            "score": {"use": "verify"},
            "answer": {"use": "aggregate", "how": "weighted"},
        },
    }
    mapping = {"strategy": strategy, "engine": {"use": "fake"}, "verifier": {"use": "fake"}}
    made = assemble(mapping, FakeTask())
    return replace(made, verifier=verifier, engine=engine or made.engine)


def run(made):
    with Session(made) as session:
        return {result.id: result for result in session.run(made.task.problems())}, session


def test_models_of_a_verifier_stay_open_beside_the_engine():
    made = setup(Own((Model("a"), Model("b"))))
    results, session = run(made)
    assert all(result.outcome != "failed" for result in results.values())
    assert len(warm._held) == 3
    models = session._verifier.engines
    assert session._verifier.separator == "\n"
    assert [model.closed for model in models] == [False, False]
    _, again = run(made)
    assert again._verifier.engines == models
    assert [model.resets for model in models] == [1, 1]
    run(setup(FakeVerifierPart()))
    assert len(warm._held) == 3
    warm.close_all()
    assert all(model.closed for model in models)


def test_a_model_that_died_is_replaced_with_all_others():
    made = setup(Own())
    _, session = run(made)
    (model,) = session._verifier.engines
    model.dead = True
    _, again = run(made)
    assert model.closed
    assert again._verifier.engines != [model]


def test_a_model_that_cannot_be_loaded_leaves_nothing_open():
    with pytest.raises(OSError, match="no such model"):
        run(setup(Own((Model(broken=True),))))
    assert warm._held == []


def test_an_interrupt_closes_all():
    session = Session(setup(Own()))

    def interrupted():
        with session:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(model.closed for model in session._verifier.engines)
    assert warm._held == []


def test_what_a_verifier_refuses_has_its_place():
    with pytest.raises(ConfigError) as caught:
        run(setup(Own(refuses=True)))
    assert caught.value.path == "verifier.tag"
    with pytest.raises(ConfigError, match="cannot be asked"):
        run(setup(Own((), refuses=True)))


class Counted(FakeEngine):
    """Counts the tokens decoded for each user."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.by = {}

    def step(self):
        news = super().step()
        for item in news:
            user = item.id.partition("-")[0] == "judge"
            self.by[user] = self.by.get(user, 0) + len(item.tokens)
        return news


@dataclass(frozen=True)
class CountedPart(FakeEnginePart):
    def open(self):
        return Counted(capacity=self.capacity, dies_after=self.dies_after)


@pytest.mark.parametrize("engine", [None, CountedPart()], ids=["null", "the same"])
def test_a_judge_on_the_engine_of_the_run_is_its_guest(engine):
    made = setup(Judge(engine, **WORDS), CountedPart())
    results, session = run(made)
    assert len(warm._held) == 1
    assert isinstance(session._engine, Port)
    counted = warm._held[0].engine
    assert sum(result.usage.decoded for result in results.values()) == counted.by[False]
    asked = sum(result.usage.verifier for result in results.values())
    assert asked > counted.by[True] == 4 * len(results)
    assert not counted._running
    assert not counted._waiting
    assert any(result.outcome == "answered" for result in results.values())


def test_a_guest_changes_no_sample_and_no_price():
    alone, _ = run(setup(Judge(FakeEnginePart(capacity=64), **WORDS), CountedPart()))
    warm.close_all()
    guest, _ = run(setup(Judge(**WORDS), CountedPart()))
    for name, result in alone.items():
        assert (guest[name].answer, guest[name].text) == (result.answer, result.text)
        assert guest[name].usage.decoded == result.usage.decoded
        assert guest[name].usage.verifier == result.usage.verifier


def test_a_judge_that_brings_its_engine_is_no_guest():
    made = setup(Judge(FakeEnginePart(capacity=5), **WORDS))
    _, session = run(made)
    assert len(warm._held) == 2
    assert not isinstance(session._engine, Port)


def test_an_engine_that_dies_under_driver_and_judge_ends_the_run():
    results, session = run(setup(Judge(**WORDS), CountedPart(dies_after=6)))
    assert "died" in session.dead
    assert len(results) == 8
    assert all(result.outcome == "failed" for result in results.values())
    assert warm._held == []


def test_a_judge_whose_own_engine_dies_fails_its_candidates_and_the_run_goes_on():
    results, session = run(setup(Judge(FakeEnginePart(dies_after=1), **WORDS)))
    assert session.dead is None
    assert len(results) == 8
    failed = [result for result in results.values() if result.outcome == "failed"]
    assert failed
    assert all("the judge's engine died" in result.reason for result in failed)


def test_an_engine_without_log_probabilities_is_refused_before_it_is_opened():
    made = setup(Judge(), FakeEnginePart(logprobs=0))
    with pytest.raises(ConfigError, match="needs 20 log-probabilities"):
        run(made)
    assert warm._held == []


def test_a_judge_in_a_pipeline():
    pipeline = Pipeline(
        "best_of_n",
        engine={"use": "fake"},
        verifier={"use": "judge", "good": ["1", "2", "3"], "bad": ["4", "5", "6"]},
        n=4,
    )
    result = pipeline.answer("1 + 2 =")
    assert result.usage.verifier > 0
    assert result.outcome in {"answered", "truncated", "abstained"}


NEVER = Own((Model(broken=True),))


def test_a_verifier_that_no_stage_asks_is_never_opened(monkeypatch):
    """A model of its own would take minutes to load, and could fail a run that has no use for it."""
    with pytest.raises(OSError, match="no such model"):
        run(setup(NEVER))
    silent = replace(setup(NEVER), strategy=Pipeline("majority", engine={"use": "fake"}, n=4).setup.strategy)
    results, session = run(silent)
    assert {result.outcome for result in results.values()} == {"answered"}
    assert session._verifier is None

    def opened(part):
        raise AssertionError("the verifier was opened")

    monkeypatch.setattr(FakeVerifierPart, "open", opened)
    results, _ = run(replace(silent, verifier=FakeVerifierPart()))
    assert {result.usage.verifier for result in results.values()} == {0}


def test_nothing_is_asked_of_the_engine_for_a_verifier_that_no_stage_asks():
    words = {"engine": {"use": "fake", "logprobs": 20}, "verifier": "confidence"}
    assert Pipeline("best_of_n", **words).setup.logprobs == 20
    assert Pipeline("majority", **words).setup.logprobs == 0


@dataclass(frozen=True)
class Silent:
    """A stage of somebody else's that does not say whom it asks."""

    def __call__(self, state):
        got = yield Generate((Request(),) * 2)
        reply = yield Score(got.candidates)
        assert len(reply.verdicts) == 2
        return state.with_(pool=got.candidates)


def test_a_stage_of_another_package_that_says_nothing_finds_the_verifier_open():
    results, _ = run(replace(setup(Own()), strategy=Silent()))
    assert {result.outcome for result in results.values()} == {"abstained"}
