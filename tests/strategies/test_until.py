import pytest

from ttsflow.errors import ConfigError
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


def test_all_finished_is_the_natural_end(kit):
    done = [kit.cand(0, "A"), kit.cand(1, finish="length"), kit.cand(2, finish="failed")]
    assert AllFinished()(kit.state(*done)) == ""
    assert AllFinished()(kit.state(*done, kit.cand(3, finish="step"))) is None
    assert AllFinished()(kit.state()) is None


@pytest.mark.parametrize(
    ("finished", "active", "holds"),
    [
        ([0.9], [0.8, 0.1], True),
        ([0.9, 0.1], [0.9], True),  # of equal ones, the one that has finished
        ([0.3, 0.2], [0.8], False),  # weak ones that finish early end nothing
        ([0.9], [0.8, None], False),  # the best is not known yet
        ([0.2], [], True),
        ([None], [], False),
        ([], [0.5], False),
    ],
)
def test_the_best_has_finished(finished, active, holds, kit):
    pool = [kit.cand((0, i), "A", score=score) for i, score in enumerate(finished)]
    pool += [kit.cand((1, i), finish="step", score=score) for i, score in enumerate(active)]
    assert BestFinished()(kit.state(*pool)) == ("" if holds else None)


def test_a_cut_candidate_has_not_finished_however_good_it_is(kit):
    pool = [kit.cand(0, finish="length", score=1.0), kit.cand(1, finish="step", score=0.1)]
    assert BestFinished()(kit.state(*pool)) is None


@pytest.mark.parametrize(
    ("answers", "share", "at_least", "reason"),
    [
        ("AAAB", 0.75, 4, "agreed: 3 of 4 votes"),
        ("AAAB", 0.76, 4, None),
        ("AAA", 0.75, 4, None),
        ("AAA", 1.0, 3, "agreed: 3 of 3 votes"),
        ("A", 0.5, 1, "agreed: 1 of 1 votes"),
        ("A", 0.5, 2, None),
        ("", 0.5, 1, None),
        ("AABB", 0.5, 2, None),
        ("AABC", 0.5, 2, "agreed: 2 of 4 votes"),
        ("AB", 0.5, 2, None),
    ],
)
def test_agreed(answers, share, at_least, reason, kit):
    pool = [kit.cand(i, a) for i, a in enumerate(answers)]
    assert Agreed(share, at_least)(kit.state(*pool)) == reason


def test_those_without_an_answer_neither_agree_nor_disagree(kit):
    nobody = [kit.cand(0), kit.cand(1, "A", finish="length"), kit.cand(2), kit.cand(3)]
    assert Agreed(0.5, 1)(kit.state(*nobody)) is None
    assert Agreed(1.0, 1)(kit.state(*nobody, kit.cand(4, "B"))) == "agreed: 1 of 1 votes"


def test_copies_of_one_candidate_agree_once(kit):
    copy = kit.cand(0, "A")
    assert Agreed(0.5, 2)(kit.state(copy, copy)) is None


def test_pool_size(kit):
    assert PoolSize(2)(kit.state(kit.cand(0))) is None
    assert PoolSize(2)(kit.state(kit.cand(0), kit.cand(1))) == "pool of 2"


def test_enough_have_finished_by_themselves(kit):
    pool = [kit.cand(0, "A"), kit.cand(1), kit.cand(2, finish="length"), kit.cand(3, finish="step")]
    assert Finished(3)(kit.state(*pool)) is None
    assert Finished(2)(kit.state(*pool)) == "2 candidates finished"
    # At the end of the search that is nothing early.
    assert Finished(2)(kit.state(*pool[:3])) == ""


def test_stopped(kit):
    assert Stopped()(kit.state()) is None
    assert Stopped()(kit.state(stopped="funds low")) == "funds low"


YES, NATURAL, NO = (lambda s: "yes"), (lambda s: ""), (lambda s: None)


def test_combinations(kit):
    state = kit.state()
    assert AnyOf({"a": NO, "b": NATURAL, "c": YES})(state) == ""
    assert AnyOf({"a": NO, "b": YES})(state) == "yes"
    assert AnyOf({"a": NO, "b": NO})(state) is None
    assert AllOf({"a": YES, "b": NATURAL, "c": lambda s: "too"})(state) == "yes, too"
    assert AllOf({"a": NATURAL, "b": NATURAL})(state) == ""
    assert AllOf({"a": YES, "b": NO})(state) is None
    assert Not(NO)(state) == "not function"
    assert Not(NATURAL)(state) is None
    assert Not(Stopped())(state) == "not stopped"


@pytest.mark.parametrize(
    ("part", "settings", "field"),
    [
        (Agreed, {"share": 0}, "share"),
        (Agreed, {"share": 1.1}, "share"),
        (Agreed, {"at_least": 0}, "at_least"),
        (Agreed, {"share": 0, "by": "score"}, "share"),
        (PoolSize, {"at_least": 0}, "at_least"),
        (Finished, {"at_least": 0}, "at_least"),
    ],
)
def test_settings_that_make_no_sense(part, settings, field):
    with pytest.raises(ConfigError) as caught:
        part(**settings)
    assert caught.value.path == field


@pytest.mark.parametrize(
    ("scored", "share", "reason"),
    [
        ([("A", 9.0), ("B", 1.0)], 0.9, "agreed: 9 of 10 votes"),
        ([("A", 9.0), ("B", 1.0)], 0.91, None),
        ([("A", 9.0), ("B", None), ("C", None)], 1.0, "agreed: 9 of 9 votes"),
        ([("A", None)], 0.5, None),
        ([("A", 0.0)], 0.5, None),
        ([("A", 0.5), ("B", 0.5)], 0.5, None),
        ([("A", 0.5), ("A", 0.5), ("B", 1.5)], 0.6, "agreed: 1.5 of 2.5 votes"),
        # Sums that differ in the last bit alone are a tie, as in the vote itself.
        ([("A", 0.1), ("A", 0.2), ("B", 0.3)], 0.5, None),
        ([(None, 9.0), ("A", 1.0)], 1.0, "agreed: 1 of 1 votes"),
    ],
)
def test_agreed_by_score(scored, share, reason, kit):
    pool = [kit.cand(i, a, score=s) for i, (a, s) in enumerate(scored)]
    assert Agreed(share, 1, "score")(kit.state(*pool)) == reason


def test_votes_by_score_are_counted_too(kit):
    pool = [kit.cand(0, "A", score=9.0), kit.cand(1, "A")]
    assert Agreed(0.5, 2, "score")(kit.state(*pool)) is None
    assert Agreed(0.5, 1, "score")(kit.state(*pool)) is not None


def test_negative_scores_are_no_votes(kit):
    with pytest.raises(ValueError, match="transform"):
        Agreed(0.5, 1, "score")(kit.state(kit.cand(0, "A", score=-1.0)))


def test_only_votes_by_score_need_scores():
    assert Agreed(by="score").needs == {"scores"}
    assert not Agreed().needs
