"""What one strategy would have made of another one's samples, and when that is settled beforehand."""

import pytest

from ttsflow.control import ControllerPart
from ttsflow.controllers.online import Online
from ttsflow.ops import Generate, Request, Score
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.budget_check import BudgetCheck
from ttsflow.strategies.flow import Each, Repeat, Sequence, When
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.ladder import Ladder
from ttsflow.strategies.nested import Extent, extent, plain, replayed, width
from ttsflow.strategies.recipe import Recipe
from ttsflow.strategies.select import Select
from ttsflow.strategies.until import Agreed, PoolSize
from ttsflow.strategies.verify import Verify
from ttsflow.strategies.watches import FirstFinished


def majority(n):
    return Sequence({"sample": GenerateStage(n), "vote": Aggregate()})


def rounds(n, batch, at_most=99):
    body = {"sample": GenerateStage(batch, total=n)}
    return Sequence(
        {"rounds": Repeat(body, at_most=at_most, until=Agreed(0.75, at_least=batch)), "vote": Aggregate()}
    )


@pytest.mark.parametrize(
    ("stage", "known"),
    [
        (GenerateStage(3), (3, 3)),
        (majority(8), (8, 8)),
        (Sequence({"a": GenerateStage(2), "b": GenerateStage(3)}), (5, 5)),
        (Sequence({"a": GenerateStage(2), "b": GenerateStage(3, total=4)}), (4, 4)),
        (Sequence({"a": GenerateStage(5), "b": GenerateStage(3, total=4)}), (5, 5)),
        (rounds(8, 4), (4, 8)),
        (rounds(8, 4, at_most=1), (4, 4)),
        (Repeat({"a": GenerateStage(2)}, at_most=3), (2, 6)),
        (Sequence({"a": GenerateStage(4), "v": Verify(), "k": Select(keep=2)}), (4, 4)),
        (Ladder(n=8), (1, 8)),
        (Ladder(n=2, rungs=(3,)), (2, 2)),
        (Sequence({"a": GenerateStage(4), "l": Ladder(n=8)}), (4, 8)),
        (Ladder(controller=Online()), (0, None)),
        (GenerateStage(8, watch=FirstFinished(2)), (0, None)),
        (GenerateStage(8, unless=PoolSize(1)), (0, None)),
        (GenerateStage(8, unit="step"), (0, None)),
        (Sequence({"a": GenerateStage(4), "b": GenerateStage(8, watch=FirstFinished(2))}), (4, None)),
        (Sequence({"a": GenerateStage(4), "b": BudgetCheck(0.5)}), (4, None)),
        (When(PoolSize(1), GenerateStage(1)), (0, None)),
        (Each({"a": GenerateStage(1)}), (0, None)),
        (Recipe(4), (0, None)),
    ],
    ids=str,
)
def test_how_many_samples_are_certain(stage, known):
    assert extent(stage) == Extent(*known)


def test_a_controller_is_a_part_and_no_stage():
    assert isinstance(Online(), ControllerPart)
    assert extent(Sequence({"l": Ladder(controller=Online()), "a": GenerateStage(2)})) == Extent(2, None)


@pytest.mark.parametrize(
    ("strategy", "known"),
    [
        (majority(8), 8),
        (rounds(16, 4), 16),
        (Recipe(5), 5),
        (Aggregate(), 1),
        (Sequence({"s": GenerateStage(4, unit="step"), "k": Select(into=6)}), 6),
    ],
    ids=str,
)
def test_how_wide_a_strategy_is(strategy, known):
    assert width(strategy) == known


@pytest.mark.parametrize(
    ("op", "known"),
    [
        (Generate((Request(),) * 2), True),
        (Generate(()), True),
        (Generate((Request(),), FirstFinished(1)), False),
        (Generate((Request(unit="step"),)), False),
        (Generate((Request(greedy=True),)), False),
        (Generate((Request(probe=""),)), False),
        (Score(()), False),
    ],
)
def test_what_lets_whole_samples_end(op, known):
    assert plain(op) is known


ANSWERS = "AABABBBB"


@pytest.mark.parametrize(
    ("strategy", "answer", "dealt"),
    [
        (majority(1), "A", 1),
        (majority(4), "A", 4),
        (majority(8), "B", 8),
        (rounds(8, 4), "A", 4),
        (rounds(8, 2), "A", 2),
        (Sequence({"climb": Ladder(n=8, settled=0.5, worth=0.5), "vote": Aggregate()}), "A", 1),
    ],
)
def test_samples_are_dealt_in_order(strategy, answer, dealt, kit):
    samples = [kit.cand(place, said) for place, said in enumerate(ANSWERS)]
    end, used = replayed(strategy, kit.state(), samples)
    assert (end.answer.text, used) == (answer, dealt)


@pytest.mark.parametrize(
    "strategy",
    [
        majority(9),
        Sequence({"a": GenerateStage(2), "v": Verify(), "b": Aggregate("best")}),
        Sequence({"a": GenerateStage(4, watch=FirstFinished(2)), "b": Aggregate()}),
        Sequence({"a": GenerateStage(2, unit="step"), "b": Aggregate()}),
        Sequence({"a": GenerateStage(2), "b": BudgetCheck(0.5), "c": Aggregate()}),
    ],
    ids=["too many", "scores", "a watch", "steps", "funds"],
)
def test_what_the_samples_do_not_settle_is_not_known(strategy, kit):
    assert replayed(strategy, kit.state(), [kit.cand(p, said) for p, said in enumerate(ANSWERS)]) is None
