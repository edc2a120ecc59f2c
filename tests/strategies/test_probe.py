"""Dynasor: a candidate ends once its last probes agree, and none of them hedges."""

import pytest

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated
from ttsflow.strategies.probe import HEDGES, Probe
from ttsflow.types import Usage


class Model:
    """Answers probes: ``says`` has one (answer, text, finish) per probe, asked for in this order."""

    def __init__(self, kit, *says, stopped=None):
        self.kit = kit
        self.says = list(says)
        self.stopped = stopped
        self.asked = []
        self.notes = []

    def __call__(self, op):
        if not isinstance(op, Generate):
            self.notes.append(op)
            return None
        self.asked += op.requests
        probes = []
        for request in op.requests[: len(self.says)]:
            answer, text, finish = self.says.pop(0)
            path = (*request.parent.path, len(self.asked))
            words = request.parent.text + (request.probe or "task says: ") + text
            probes.append(self.kit.cand(path, answer, finish=finish).with_(text=words))
        return Generated(tuple(probes), Usage(output=7), self.stopped)


def probed(kit, stage, model, *pool, **changes):
    from ttsflow.testing import drive

    return drive(stage, kit.state(*pool, **changes), model)


def rounds(kit, stage, *says):
    """Probe one candidate once per item of ``says``; return it, and what the model saw."""
    candidate, model = kit.cand(0, finish="step"), Model(kit, *says)
    for _ in says:
        (candidate,) = probed(kit, stage, model, candidate).pool
        if not candidate.active:
            break
    return candidate, model


SAYS_4 = ("4", "4.", "stop")


def test_it_ends_with_the_answer_after_so_many_probes_that_agree(kit):
    candidate, model = rounds(kit, Probe(window=3), *[SAYS_4] * 5)
    assert len(model.asked) == 3
    assert candidate.finish == "stop"
    assert candidate.answer.key == "4"
    assert candidate.reason == "the last 3 probes agree"
    assert candidate.path == (0,)
    assert candidate.tokens == kit.cand(0).tokens


@pytest.mark.parametrize(
    ("said", "ends_after"),
    [
        ("44444", 2),
        ("34444", 3),
        ("43434", None),
        ("4-444", 4),
        ("---44", 5),
        ("----4", None),
        ("-----", None),
    ],
)
def test_a_probe_that_says_something_else_or_nothing_starts_anew(said, ends_after, kit):
    says = [(None if c == "-" else c, c, "length") for c in said]
    candidate, model = rounds(kit, Probe(window=2), *says)
    assert candidate.finished == (ends_after is not None)
    assert len(model.asked) == (ends_after or len(said))


@pytest.mark.parametrize("hedge", [*HEDGES, "Wait", "HMM", "Not sure", "wait,"])
def test_never_while_it_hedges(hedge, kit):
    hedging = ("4", f"4. {hedge} no", "length")
    candidate, _ = rounds(kit, Probe(window=2), *[hedging] * 4)
    assert candidate.active
    candidate, model = rounds(kit, Probe(window=2), SAYS_4, hedging, SAYS_4, SAYS_4)
    assert len(model.asked) == 4
    assert candidate.finished


@pytest.mark.parametrize("word", ["waiter", "await", "hmmm", "maybes", "Perhapsburg"])
def test_a_hedge_is_a_word_of_its_own(word, kit):
    candidate, _ = rounds(kit, Probe(window=1), ("4", f"4 {word}", "stop"))
    assert candidate.finished


def test_neither_the_trajectory_nor_the_words_asked_with_hedge(kit):
    model = Model(kit, ("4", "4", "stop"))
    candidate = kit.cand(0, finish="step").with_(text="wait, maybe ")
    (end,) = probed(kit, Probe(window=1, words="Wait, I am sure: "), model, candidate).pool
    assert end.finished


def test_hedges_are_a_setting(kit):
    hedging = ("4", "4, wait", "stop")
    assert rounds(kit, Probe(window=1, hedges=()), hedging)[0].finished
    assert rounds(kit, Probe(window=1, hedges=("a.b",)), ("4", "axb", "stop"))[0].finished
    assert rounds(kit, Probe(window=1, hedges=("a.b",)), ("4", "a.b", "stop"))[0].active


@pytest.mark.parametrize("finish", ["aborted", "failed"])
def test_a_probe_that_was_ended_or_failed_says_nothing(finish, kit):
    candidate, _ = rounds(kit, Probe(window=1), ("4", "4", finish))
    assert candidate.active


def test_what_is_asked(kit):
    pool = [kit.cand(0, finish="step"), kit.cand(1, "9"), kit.cand(2, finish="step")]
    model = Model(kit, SAYS_4, SAYS_4)
    end = probed(kit, Probe(tokens=7), model, *pool)
    assert [(r.parent, r.unit, r.step_tokens, r.probe) for r in model.asked] == [
        (pool[0], "tokens", 7, ""),
        (pool[2], "tokens", 7, ""),
    ]
    assert [c.path for c in end.pool] == [c.path for c in pool]
    assert end.spent == Usage(output=7)
    assert model.notes[0].data == {
        "answers": [{"path": (0,), "answer": "4"}, {"path": (2,), "answer": "4"}],
    }


def test_the_words_are_a_setting(kit):
    _, model = rounds(kit, Probe(words="So: "), SAYS_4)
    assert model.asked[0].probe == "So: "


def test_probes_never_join_the_pool_and_only_the_last_ones_are_kept(kit):
    candidate, _ = rounds(kit, Probe(window=2), *((str(i), str(i), "stop") for i in range(5)))
    assert candidate.extra == {"probes": ("3", "4")}


def test_copies_of_one_candidate_are_probed_once(kit):
    copy = kit.cand(0, finish="step")
    model = Model(kit, SAYS_4)
    end = probed(kit, Probe(window=1), model, copy, copy)
    assert len(model.asked) == 1
    assert [c.finish for c in end.pool] == ["stop", "stop"]


def test_without_active_candidates_nothing_is_asked(kit):
    model = Model(kit)
    start = kit.state(kit.cand(0, "A"), kit.cand(1, finish="length"))
    assert probed(kit, Probe(), model, *start.pool) == start
    assert not model.asked


def test_the_problem_stops_when_no_candidate_is_left(kit):
    pool = [kit.cand(0, finish="step"), kit.cand(1, finish="step")]
    end = probed(kit, Probe(window=1), Model(kit, SAYS_4, SAYS_4), *pool)
    assert end.stopped == "the last 1 probes agree"
    end = probed(kit, Probe(window=1), Model(kit, SAYS_4, (None, "?", "length")), *pool)
    assert end.stopped is None
    assert [c.active for c in end.pool] == [False, True]


def test_a_budget_that_refuses_probes_leaves_the_candidates_as_they_are(kit):
    pool = [kit.cand(0, finish="step"), kit.cand(1, finish="step")]
    end = probed(kit, Probe(window=1), Model(kit, SAYS_4, stopped="budget: spent"), *pool)
    assert [c.active for c in end.pool] == [False, True]
    assert end.pool[1] == pool[1]
    assert end.stopped == "budget: spent"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"window": 0}, "window"),
        ({"tokens": 0}, "tokens"),
        ({"words": ""}, "words"),
        ({"hedges": ("",)}, "hedges"),
    ],
)
def test_settings_that_make_no_sense(settings, field):
    with pytest.raises(ConfigError) as caught:
        Probe(**settings)
    assert caught.value.path == field


def test_it_continues_trajectories():
    assert Probe.needs == {"continuation"}
