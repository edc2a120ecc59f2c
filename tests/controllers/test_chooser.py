"""The chooser that learns: funds, features, and a state that goes on."""

import json
import random

import pytest

from ttsflow.choice import Chooser, ChooserPart, Outcome, Question
from ttsflow.control import ControllerPart
from ttsflow.controllers.chooser import Learning, LearningChooser
from ttsflow.errors import ConfigError, DataError

ARMS = (("four", 4.0), ("one", 1.0))
HERE = {"task": "t", "other": 3.0}


def part(**settings):
    learning = {name: settings.pop(name) for name in [*settings] if name in Learning.__dataclass_fields__}
    given = {"arms": ARMS, "reward": "agreement", "features": ("task",), **settings}
    return LearningChooser(Learning(**learning), **given)


def opened(limit=None, problems=10, **settings):
    chooser = part(**settings).open_chooser("tokens")
    chooser.begin(problems, limit)
    return chooser


def taught(chooser, *, one=0.2, four=0.9, times=60):
    for _ in range(times):
        chooser.learn("one", HERE, {"one": Outcome(one, 10.0)})
        chooser.learn("four", HERE, {"four": Outcome(four, 40.0)})
    return chooser


def chosen(chooser, left=None, ahead=10, seed=0):
    return chooser.choose(Question(HERE, left, ahead), random.Random(seed))


def test_it_is_a_chooser_and_no_controller():
    assert isinstance(part(), ChooserPart)
    assert not isinstance(part(), ControllerPart)
    assert isinstance(opened(), Chooser)
    assert hash(part()) == hash(part())
    assert part(reward="correct").graded
    assert not part().graded
    assert part(unit="seconds").unit == "seconds"


def test_without_a_budget_the_price_decides():
    assert chosen(taught(opened(price=0.0))).arm == "four"
    # Four times the cost would have to bring 1.5 of reward, three times the cheapest.
    assert chosen(taught(opened(price=0.5))).arm == "one"


def test_with_a_budget_it_is_the_cheapest_until_costs_are_known():
    chooser = opened(limit=10_000.0)
    assert chosen(chooser, 10_000.0) == ("one", None, None, 0)
    found = chosen(taught(chooser), 10_000.0)
    assert (found.arm, found.refused) == ("four", None)
    assert found.expected == pytest.approx(40, rel=0.1)


def test_as_funds_fall_arms_are_cheaper_and_at_last_there_is_none():
    chooser = taught(opened(limit=400.0))
    arms = [chosen(chooser, left).arm for left in (400.0, 130.0, 60.0, 12.0)]
    assert arms == ["four", "one", "one", "one"]
    found = chosen(chooser, 5.0)
    assert found.arm is None
    assert found.refused == "the cheapest, one, costs 10 tokens, and 5 are left"


def test_more_than_the_limit_is_no_more_than_all_of_it():
    assert chosen(taught(opened(limit=400.0)), 500.0, ahead=99).arm == "four"


def test_features_that_are_not_asked_for_are_left_out():
    chooser = taught(opened())
    assert chooser.state()["learner"]["cells"] == [[["task", "=t"]]]
    chooser.learn("one", {}, {"one": Outcome(1.0, 1.0)})
    assert len(chooser.state()["learner"]["cells"]) == 2


def test_others_are_learnt_with_the_one_that_ran():
    chooser = opened()
    chooser.learn("four", HERE, {"four": Outcome(1.0, 40.0), "one": Outcome(0.0, None)})
    state = chooser.state()["learner"]
    assert (state["seen"], state["ignored"]) == (1, 1)


# --- a state that goes on ------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "learnt.json"
    path.write_text(json.dumps(taught(opened(limit=50.0)).state()))
    return path


def test_a_saved_state_goes_on_under_another_budget(saved):
    before, after = taught(opened()), opened(start=str(saved))
    assert [chosen(before, seed=s) for s in range(20)] == [chosen(after, seed=s) for s in range(20)]
    assert taught(before, times=1).state() == taught(after, times=1).state()
    assert opened(1e4, start=str(saved)).state()["learner"]["budget"] == 1e4


WRONG = [
    ({"reward": "correct"}, "tokens", "the reward agreement, and this run has correct"),
    ({"features": ("task", "level")}, "tokens", r"features \['task'\], and this run has \['task', 'level'\]"),
    ({"arms": (("one", 1.0), ("two", 2.0))}, "tokens", "four at 4, one at 1, and this run has one at 1, two"),
    ({"arms": (("four", 5.0), ("one", 1.0))}, "tokens", "four at 4, one at 1, and this run has four at 5"),
    ({}, "joules", "learner in tokens, and this run counts joules"),
]


@pytest.mark.parametrize(("settings", "unit", "message"), WRONG, ids=[w[2] for w in WRONG])
def test_what_was_learnt_of_something_else_is_refused(settings, unit, message, saved):
    with pytest.raises(ConfigError, match=message) as error:
        part(start=str(saved), **settings).open_chooser(unit)
    assert error.value.path == "start"


def broken(saved, change):
    state = json.loads(saved.read_text())
    change(state)
    saved.write_text(json.dumps(state))


BROKEN = [
    (lambda s: s.pop("learner"), "holds no learner"),
    (lambda s: s["learner"].pop("arms"), "arms"),
    (lambda s: s["learner"].update(arms=3), "learnt.json"),
    (lambda s: s["learner"].update(arms={}), "no saved state"),
    (lambda s: s["learner"].update(arms=[["a"]]), "learnt.json"),
    (lambda s: s["learner"].update(seen=None), "no saved state"),
    (lambda s: s["learner"].update(costs={}), "no saved state"),
    (lambda s: s["learner"]["rewards"].update(pull=[[1.0]]), "no saved state"),
    (lambda s: s["learner"].update(cells=[[["task", "=a"]], [["task", "=a"]]]), "no saved state"),
    (lambda s: s["learner"]["edges"].update(prompt_tokens=[3, 1]), "no saved state"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_file_that_holds_nothing_learnt_is_refused(change, message, saved):
    broken(saved, change)
    with pytest.raises(DataError, match=message) as error:
        part(start=str(saved)).open_chooser("tokens")
    assert error.value.path == "start"


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path):
    for name, message in (("gone.json", "no such file"), ("text.json", "learner cannot be read")):
        (tmp_path / "text.json").write_text("{")
        with pytest.raises(DataError, match=message):
            part(start=str(tmp_path / name)).open_chooser("tokens")


@pytest.mark.parametrize(
    ("setting", "value"),
    [("price", -1.0), ("gain", -2.0), ("spread", 0.0), ("cell_spread", 11.0), ("boldness", -0.1)],
)
def test_settings_that_cannot_be(setting, value):
    with pytest.raises(ConfigError) as error:
        Learning(**{setting: value})
    assert error.value.path == setting
