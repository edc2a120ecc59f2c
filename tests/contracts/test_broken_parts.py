"""A contract is worth what it refuses: each fails for a part that breaks it."""

import itertools
import random
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from ttsflow.errors import PluginError
from ttsflow.ops import Decision, Offer, Verdict
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.testing import FakeEngine, FakeTask
from ttsflow.testing.contracts import (
    ControllerContract,
    CostContract,
    EngineContract,
    LoadContract,
    MeterContract,
    PredictorContract,
    StageContract,
    TaskContract,
    UntilContract,
    VerifierContract,
    WatchContract,
)
from ttsflow.types import Answer

COUNT = itertools.count()


@dataclass
class Thawed:
    """Its settings can be changed."""

    n: int = 1

    def __call__(self, state):
        return state


@dataclass(frozen=True)
class Hidden:
    """One of its settings cannot be written in a config."""

    n: object = field(default_factory=object)

    def __call__(self, state):
        return state


@dataclass(frozen=True)
class Chance:
    """Keeps candidates by chance that does not come from the state."""

    def __call__(self, state):
        kept = tuple(c for c in state.pool if random.random() < 0.5)
        return state.with_(pool=kept, answer=kept[0].answer if kept else None)


@dataclass(frozen=True)
class Misspelt:
    """Needs something that nobody checks."""

    needs: ClassVar[frozenset[str]] = frozenset({"verifer"})

    def __call__(self, state):
        return state


@dataclass(frozen=True)
class Raising:
    """Fails every problem."""

    def __call__(self, state):
        raise RuntimeError("no")


@dataclass(frozen=True)
class Everywhere:
    """Ends what does not exist, and shares its memory between operations."""

    seen: ClassVar[list] = []

    def begin(self, size):
        def observe(traces, changed):
            self.seen.append(size)
            return Decision(abort=(size,)) if len(self.seen) % 2 else None

        return observe


@dataclass(frozen=True)
class Moody:
    """A condition that says another thing every time."""

    def __call__(self, state):
        return str(next(COUNT))


@dataclass(frozen=True)
class TooShort:
    """Foresees fewer tokens than there are."""

    def __call__(self, trace):
        return 0, None


@dataclass(frozen=True)
class Forgetful:
    """Scores only the first candidate it is given, and by how many wait."""

    def open(self):
        return ForgetfulVerifier()


class ForgetfulVerifier:
    def __init__(self):
        self.waiting = {}

    def submit(self, id, problem, candidate):
        self.waiting[id] = candidate

    def step(self):
        waiting, self.waiting = self.waiting, {}
        return [
            Verdict(name, (float(len(waiting)),) * sum(bool(line) for line in c.text.split("\n")))
            for name, c in waiting.items()
        ]

    def cancel(self, ids):
        pass

    def close(self):
        pass


@dataclass(frozen=True)
class Rebate:
    """The more the cheaper."""

    unit: ClassVar[str] = "money"

    def __call__(self, usage):
        return 10.0 - usage.decoded


@dataclass(frozen=True)
class Backwards:
    """Counts joules down."""

    source: ClassVar[str] = "x"
    window: ClassVar[float] = 0.0

    def check(self):
        pass

    def open(self):
        return self

    def read(self, now):
        return 100.0 - now

    def close(self):
        pass


@dataclass(frozen=True)
class Overfull:
    """A load above 1."""

    def check(self):
        pass

    def open(self):
        return self

    def read(self, now, problem):
        return 1.5

    def close(self):
        pass


@dataclass(frozen=True)
class Generous:
    """Grants everything."""

    unit: str | None = None

    def open(self, unit):
        return GenerousController(unit)


class GenerousController:
    def __init__(self, unit):
        self.unit = unit

    def begin(self, problems, limit):
        pass

    def offer(self, asking):
        return Offer(self.unit, 1.0)

    def observe(self, samples, load, cost):
        pass

    def closed(self, spent):
        pass

    def state(self):
        return {"prices": {1, 2}}


@dataclass(frozen=True, slots=True)
class Guessing(FakeTask):
    """Finds an answer in nothing."""

    def answer(self, text, problem):
        return Answer("1", "1")


class Unseeded(FakeEngine):
    """Decodes whatever comes to its mind."""

    def seed_of(self, request):
        return next(COUNT)


def stage(part):
    return Sequence({"sample": GenerateStage(4), "broken": part})


BROKEN = {
    "thawed": (StageContract, Thawed(), "test_is_a_frozen_dataclass"),
    "hidden": (StageContract, Hidden(), "test_a_config_makes_an_equal_part"),
    "chance": (StageContract, stage(Chance()), "test_runs_and_is_deterministic"),
    "chance, faster": (StageContract, stage(Chance()), "test_what_makes_a_run_faster_changes_nothing"),
    "raising": (StageContract, stage(Raising()), "test_runs_and_is_deterministic"),
    "misspelt": (StageContract, Misspelt(), "test_says_what_it_needs_in_words_that_are_known"),
    "watch": (WatchContract, Everywhere(), "test_decisions_are_well_formed"),
    "condition": (UntilContract, Moody(), "test_a_reason_or_none_and_always_the_same"),
    "predictor": (PredictorContract, TooShort(), "test_a_length_lies_between_its_bounds"),
    "verifier": (VerifierContract, Forgetful(), "test_a_score_does_not_depend_on_what_is_scored_beside_it"),
    "cancel": (VerifierContract, Forgetful(), "test_cancelled_is_silent"),
    "cost": (CostContract, Rebate(), "test_pure_and_monotone"),
    "meter": (MeterContract, Backwards(), "test_counts_and_never_goes_back"),
    "load": (LoadContract, Overfull(), "test_a_load_lies_between_0_and_1"),
    "offer": (ControllerContract, Generous(), "test_offers_are_well_formed_and_follow_from_what_was_told"),
    "state": (ControllerContract, Generous(), "test_what_it_has_learnt_can_be_written"),
    "task": (TaskContract, Guessing(), "test_answers"),
    "borders": (TaskContract, FakeTask(stop=("\n",)), "test_borders"),
    "seeds": (EngineContract, Unseeded(), "test_seed_decides"),
}


@pytest.mark.parametrize(("contract", "part", "test"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_a_contract_is_found(contract, part, test):
    # What `pytest.raises` inside a contract says is no assertion.
    with pytest.raises((AssertionError, TypeError, pytest.fail.Exception, PluginError)):
        getattr(contract(), test)(part)
