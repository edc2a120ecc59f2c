import pytest

from ttsflow.errors import ConfigError
from ttsflow.strategies.until import Agreed, AllFinished, AllOf, AnyOf, Finished, Not, PoolSize, Stopped


def test_all_finished_is_the_natural_end(kit):
    done = [kit.cand(0, "A"), kit.cand(1, finish="length"), kit.cand(2, finish="failed")]
    assert AllFinished()(kit.state(*done)) == ""
    assert AllFinished()(kit.state(*done, kit.cand(3, finish="step"))) is None
    assert AllFinished()(kit.state()) is None


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
        (PoolSize, {"at_least": 0}, "at_least"),
        (Finished, {"at_least": 0}, "at_least"),
    ],
)
def test_settings_that_make_no_sense(part, settings, field):
    with pytest.raises(ConfigError) as caught:
        part(**settings)
    assert caught.value.path == field
