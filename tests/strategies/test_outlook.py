"""What a loop foresees is what it then asks for."""

import itertools
from dataclasses import replace

import pytest

from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.ops import Fork, Generate
from ttsflow.plugins import load
from ttsflow.strategies.branch import Branch
from ttsflow.strategies.budget_check import BudgetCheck
from ttsflow.strategies.dedup import Dedup
from ttsflow.strategies.flow import Each, Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.lookahead import Lookahead
from ttsflow.strategies.outlook import Foresight, foresee, opening
from ttsflow.strategies.select import Select
from ttsflow.strategies.verify import Verify
from ttsflow.testing.drive import drive

STEP = GenerateStage(8, unit="step")
KEEP = Select(into=8, copies=4)
BODY = {"step": STEP, "score": Verify(), "keep": KEEP}


def shipped(name, *more):
    return build("stage", compose([f"strategy={name}", *more])["strategy"], "strategy", load())


def told(request):
    """Return a request without the scores its parent has by now."""
    return (request.parent.path, request.unit, request.separator or "", request.step_tokens or 0)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_beam_search_asks_for_exactly_what_its_outlook_said(kit, depth):
    rounds = []

    class Playing(kit.Driver):
        def __call__(self, op):
            reply = super().__call__(op)
            if isinstance(op, Generate):
                rounds.append((op, reply))
            return reply

    Playing(finish="step").run(Repeat(BODY, depth), kit.state())
    assert len(rounds) == depth
    for (op, reply), (later, _) in itertools.pairwise(rounds):
        foreseen = [told(r) for c in reply.candidates for r in op.outlook.children(c)]
        asked = [told(request) for request in later.requests]
        parents = {request[0] for request in asked}
        assert len(parents) == 2
        assert sorted(asked) == sorted(request for request in foreseen if request[0] in parents)
    assert rounds[-1][0].outlook is None


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_dvts_asks_for_what_the_outlook_of_its_first_candidates_said(kit, depth):
    ops = []

    class Playing(kit.Driver):
        def __call__(self, op):
            if isinstance(op, Fork):
                return tuple(drive(stage, state, self) for stage, state in op.branches)
            reply = super().__call__(op)
            if isinstance(op, Generate):
                ops.append((op, reply))
            return reply

    n, width = 8, 4
    strategy = shipped("dvts", f"strategy.n={n}", f"strategy.width={width}", f"strategy.depth={depth}")
    Playing(finish="step", quotation=kit.quotation({})).run(strategy, kit.state())
    (roots, reply), *later = ops
    assert (roots.scored, roots.outlook.size, roots.outlook.slots) == (True, width, 1)
    foreseen = [told(request) for c in reply.candidates for request in roots.outlook.children(c)]
    first = [told(r) for op, _ in later for r in op.requests if len(r.parent.path) == 1]
    assert len(first) == n
    assert set(first) <= set(foreseen)
    assert {(r[0][0] - 101) // width for r in first} == {0, 1}
    then = roots.outlook.then
    assert then == next(op.outlook for op, _ in later)
    assert (then is None) == (depth == 1)


def test_only_a_loop_that_prunes_first_is_opened():
    loop = Repeat({"score": Verify(), "keep": KEEP, "step": STEP}, 3)
    found = opening([BudgetCheck(0.1), loop])
    assert found == Foresight(STEP, 2, 4, 3)
    assert opening([Verify(), Each({"search": loop}, size=4)]) == replace(found, size=4)
    assert opening([Sequence({"search": loop})]) == found
    assert opening([Repeat(BODY, 3)]) is None
    assert opening([Each({"trees": Each({"search": loop}, size=4)}, size=8)]) is None
    for before in (Dedup(), Lookahead(), KEEP, STEP):
        assert opening([before, loop]) is None
    assert opening([]) is None


def test_candidates_that_were_there_before_take_the_outlook_away(kit):
    loop = Repeat({"score": Verify(), "keep": KEEP, "step": STEP}, 1)
    stages = {"a": GenerateStage(4, unit="step"), "trees": Each({"search": loop}, size=4)}
    for pool, has in (((), True), ((kit.cand(9, finish="step"),), False)):
        op = next(Sequence(stages)(kit.state(*pool)))
        assert (op.outlook is not None) == has


def test_candidates_that_ended_have_no_children(kit):
    assert Foresight(STEP, 2, 4, 1, False).children(kit.cand(0, "A")) == ()


def test_what_may_decide_otherwise_takes_the_outlook_away():
    assert foresee(BODY, left=1, completes=False) == Foresight(STEP, 2, 4, 1, False)
    assert foresee({**BODY, "funds": BudgetCheck(0.1)}, left=3, completes=True) == Foresight(STEP, 2, 4, 3)
    assert foresee({**BODY, "same": Dedup()}, left=1, completes=False) is None
    assert foresee({**BODY, "again": KEEP}, left=1, completes=False) is None
    assert foresee({**BODY, "funds": BudgetCheck(0.1, otherwise=KEEP)}, left=1, completes=False) is None
    assert foresee({"step": STEP, "score": Verify(), "share": Branch(8)}, left=1, completes=False) is None
    assert (
        foresee({"step": STEP, "keep": Select("tokens", into=8, copies=4)}, left=1, completes=False) is None
    )
    assert foresee({"step": GenerateStage(8), "keep": KEEP}, left=1, completes=False) is None


@pytest.mark.parametrize(("name", "has"), [("beam_search", True), ("lookahead", True), ("rebase", False)])
def test_which_shipped_searches_have_one(name, has):
    stages = shipped(name).stages["search"].stages
    assert (foresee(stages, left=1, completes=False) is not None) == has


def test_dvts_has_one_in_every_subtree():
    search = shipped("dvts").stages["subtrees"].stages["search"]
    assert foresee(search.stages, left=1, completes=False).slots == 1
