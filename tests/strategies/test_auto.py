"""The stage that chooses a strategy: what it asks, what it runs on which samples, and what it tells."""

import pytest

from ttsflow.errors import ConfigError
from ttsflow.ops import (
    Choose,
    Chosen,
    Generate,
    Generated,
    Learn,
    Note,
    Quote,
    Request,
    Score,
    Scored,
    Verdict,
)
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.auto import Auto
from ttsflow.strategies.flow import Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.select import Select
from ttsflow.strategies.until import Agreed
from ttsflow.strategies.verify import Verify
from ttsflow.strategies.watches import FirstFinished
from ttsflow.strategies.worth import stability
from ttsflow.testing import drive
from ttsflow.types import Problem, Usage


def majority(n):
    return Sequence({"sample": GenerateStage(n), "vote": Aggregate()})


def best(n):
    return Sequence({"sample": GenerateStage(n), "score": Verify(), "best": Aggregate("best")})


EARLY = Sequence(
    {
        "sample": GenerateStage(4, watch=FirstFinished(2)),
        "keep": Select(by="tokens", keep=2, answered=True),
        "vote": Aggregate(),
    }
)
ROUNDS = Sequence(
    {
        "rounds": Repeat({"s": GenerateStage(4, total=8)}, at_most=8, until=Agreed(0.9, at_least=4)),
        "vote": Aggregate(),
    }
)
ARMS = {"one": majority(1), "four": majority(4), "eight": majority(8)}


class Play:
    """Plays the driver: deals samples with these answers, takes ``arm``, and keeps what is asked."""

    def __init__(self, kit, arm, answers="AABABBBB", *, refused=None, stopped_at=None, score=0.7):
        self.cards = [kit.cand(place, None if a == "-" else a) for place, a in enumerate(answers)]
        self.chosen = Chosen(arm, refused=refused, number=17)
        self.stopped_at = stopped_at
        self.score = score
        self.ops = []
        self.dealt = 0

    def __call__(self, op):
        self.ops.append(op)
        if isinstance(op, Choose):
            return self.chosen
        if isinstance(op, Score):
            return Scored(tuple(Verdict("", (0.1, self.score)) for _ in op.candidates), Usage())
        if not isinstance(op, Generate):
            return None
        if self.stopped_at is not None and self.dealt >= self.stopped_at:
            return Generated((), Usage(), "budget")
        cards = self.cards[self.dealt : self.dealt + len(op.requests)]
        self.dealt += len(op.requests)
        return Generated(tuple(cards), Usage(output=3 * self.dealt, requests=self.dealt))

    def run(self, stage, state):
        return drive(stage, state, self)

    def of(self, kind):
        return [op for op in self.ops if isinstance(op, kind)]

    @property
    def told(self):
        (op,) = self.of(Learn)
        assert op.number == 17
        return op.arms


@pytest.mark.parametrize(("arm", "answer", "dealt"), [("one", "A", 1), ("four", "A", 4), ("eight", "B", 8)])
def test_the_chosen_arm_runs_as_it_would_alone(arm, answer, dealt, kit):
    play = Play(kit, arm)
    end = play.run(Auto(ARMS), kit.state())
    assert (end.answer.text, play.dealt) == (answer, dealt)
    assert [c.path for c in end.pool] == [(place,) for place in range(dealt)]
    (choose,) = play.of(Choose)
    assert choose.by == Auto(ARMS).chooser
    assert choose.samples == {"one": 1, "four": 4, "eight": 8}
    assert [note.kind for note in play.of(Note) if note.kind in {"auto", "reward"}] == ["auto", "reward"]


def test_draws_depend_on_seed_and_problem_alone(kit):
    def drawn(state):
        play = Play(kit, "one")
        play.run(Auto(ARMS), state)
        return play.of(Choose)[0].rng.random()

    assert drawn(kit.state()) == drawn(kit.state())
    assert len({drawn(kit.state(seed=seed)) for seed in range(4)}) == 4
    assert drawn(kit.state()) != drawn(kit.state().with_(problem=Problem("?", id="q")))


# --- rewards -----------------------------------------------------------------------------------------


def test_agreement_is_the_chance_to_win_the_vote(kit):
    play = Play(kit, "four")
    play.run(Auto(ARMS), kit.state())
    assert play.told["four"].reward == stability([3, 1], 8)
    assert play.told["one"].reward == stability([1], 8)
    assert "eight" not in play.told


@pytest.mark.parametrize(
    ("answers", "reward"),
    [("----", 0.0), ("A---", stability([1], 8, drawn=4)), ("AB--", stability([1, 1], 8, drawn=4))],
)
def test_samples_without_an_answer_are_no_votes(answers, reward, kit):
    play = Play(kit, "four", answers)
    play.run(Auto(ARMS), kit.state())
    assert play.told["four"].reward == reward


def test_an_answer_that_does_not_lead_the_vote_earns_nothing(kit):
    arms = {"last": Sequence({"s": GenerateStage(3), "vote": Aggregate("weighted", top=1)})}
    play = Play(kit, "last", "AAB")
    play.cards = [card.with_(score=float(place)) for place, card in enumerate(play.cards)]
    end = play.run(Auto(arms), kit.state())
    assert end.answer.text == "B"
    assert play.told["last"].reward == 0.0


def test_with_correct_the_answer_is_told_and_the_reward_left_to_the_driver(kit):
    play = Play(kit, "eight")
    play.run(Auto(ARMS, reward="correct"), kit.state())
    assert {name: (e.answer.text, e.reward) for name, e in play.told.items()} == {
        "eight": ("B", None),
        "four": ("A", None),
        "one": ("A", None),
    }


@pytest.mark.parametrize(("score", "reward"), [(0.7, 0.7), (-2.0, 0.0), (1.5, 1.0), (None, 0.1)])
def test_with_score_the_verifier_is_asked_about_the_chosen_candidate(score, reward, kit):
    play = Play(kit, "four", "BABB", score=score)
    end = play.run(Auto(ARMS, reward="score"), kit.state())
    (asked,) = play.of(Score)
    assert asked.candidates == (end.chosen,)
    assert {name: earned.reward for name, earned in play.told.items()} == {"four": reward}


def test_without_an_answer_no_score_is_asked_for(kit):
    play = Play(kit, "four", "----")
    play.run(Auto(ARMS, reward="score"), kit.state())
    assert not play.of(Score)
    assert play.told["four"].reward == 0.0


# --- other arms ----------------------------------------------------------------------------------------


def test_others_are_told_of_with_what_they_would_have_used(kit):
    play = Play(kit, "eight")
    play.run(Auto(ARMS), kit.state())
    assert play.told["eight"].usage is None
    assert play.told["four"].usage == Usage(output=12, serial=3, requests=4)
    assert play.told["one"].usage == Usage(output=3, serial=3, requests=1)


@pytest.mark.parametrize("answers", ["AAAAAAAA", "ABCDEFGH"])
def test_whether_others_are_told_of_does_not_depend_on_the_samples(answers, kit):
    arms = {**ARMS, "rounds": ROUNDS}
    play = Play(kit, "rounds", answers)
    play.run(Auto(arms), kit.state())
    assert set(play.told) == {"rounds", "one", "four"}


@pytest.mark.parametrize("arm", ["early", "best"])
def test_an_arm_that_ends_samples_or_is_scored(arm, kit):
    arms = {"early": EARLY, "best": best(4), "one": majority(1)}
    play = Play(kit, arm)
    play.run(Auto(arms, reward="correct"), kit.state())
    assert set(play.told) == ({"early"} if arm == "early" else {"best", "one"})


# --- a probe -------------------------------------------------------------------------------------------


def test_a_probe_is_a_feature_and_the_first_samples_of_the_arm(kit):
    play = Play(kit, "eight")
    end = play.run(Auto(ARMS, probe=3), kit.state())
    assert play.ops[0] == Quote(3)
    assert play.ops[1] == Generate((Request(),) * 3)
    (choose,) = play.of(Choose)
    assert choose.features == {"agreement": 2 / 3}
    assert choose.samples == {"one": 1, "four": 1, "eight": 5}
    assert [len(op.requests) for op in play.of(Generate)] == [3, 5]
    assert [c.path for c in end.pool] == [(place,) for place in range(8)]
    assert end.answer.text == "B"


def test_an_arm_that_is_narrower_than_the_probe_asks_for_nothing_more(kit):
    play = Play(kit, "one")
    end = play.run(Auto(ARMS, probe=4), kit.state())
    assert play.dealt == 4
    assert [c.path for c in end.pool] == [(0,)]
    assert set(play.told) == {"one", "four"}
    assert play.told["four"].usage.requests == 4
    other = Play(kit, "eight")
    other.run(Auto(ARMS, probe=4), kit.state())
    assert other.told["one"].usage.requests == 4, "a probe is paid for whatever is chosen"


def test_an_arm_that_ends_samples_draws_its_own(kit):
    play = Play(kit, "early")
    end = play.run(Auto({"early": EARLY, "one": majority(1)}, probe=2), kit.state())
    assert {c.path for c in end.pool} <= {(place,) for place in range(2, 6)}
    assert set(play.told) == {"early", "one"}, "the probe settles the single sample"


def test_a_probe_that_is_refused_ends_the_question(kit):
    play = Play(kit, "one", stopped_at=0)
    end = play.run(Auto(ARMS, probe=2), kit.state())
    assert (end.stopped, end.pool) == ("budget", ())
    assert not play.of(Choose)


@pytest.mark.parametrize("probe", [0, 3])
def test_when_no_arm_is_affordable_a_probe_votes(probe, kit):
    play = Play(kit, None, "ABB", refused="too dear")
    end = play.run(Auto(ARMS, probe=probe), kit.state())
    assert not play.of(Learn)
    if probe:
        assert (end.answer.text, end.stopped, end.ended) == ("B", None, "too dear")
    else:
        assert (end.answer, end.stopped, end.pool) == (None, "too dear", ())


# --- features and costs --------------------------------------------------------------------------------


def test_features_are_taken_from_the_data_of_a_problem(kit):
    state = kit.state().with_(problem=Problem("?", id="p", data={"level": 3, "subject": "algebra"}))
    play = Play(kit, "one")
    play.run(Auto(ARMS, features=("task", "level", "topic")), state)
    assert play.of(Choose)[0].features == {"level": "3"}


def test_declared_costs_are_the_samples_of_an_arm_unless_they_are_set():
    assert dict(Auto(ARMS, {"four": 2.5}).chooser.arms) == {"one": 1.0, "four": 2.5, "eight": 8.0}
    assert dict(Auto(ARMS, probe=4).chooser.arms) == {"one": 4.0, "four": 4.0, "eight": 8.0}
    assert Auto(ARMS, probe=4).chooser.features == ("task", "prompt_tokens", "agreement")
    assert Auto(ARMS).chooser == Auto(dict(reversed(ARMS.items()))).chooser


WRONG = [
    ({"arms": {}}, "arms", "at least one strategy"),
    ({"costs": {"for": 1.0}}, "costs.for", "Did you mean 'four'"),
    ({"costs": {"four": 0.0}}, "costs.four", "above 0"),
    ({"costs": {"four": float("nan")}}, "costs.four", "above 0"),
    ({"votes": 0}, "votes", "1 to 64"),
    ({"votes": 65}, "votes", "1 to 64"),
    ({"probe": -1}, "probe", "between 0 and"),
    ({"features": ("task", "task")}, "features", "twice"),
    ({"features": ("agreement",)}, "features", "whenever `probe` is set"),
    ({"arms": {"best": best(4)}}, "arms.best", "highest score, whatever the votes"),
    ({"arms": {"none": Sequence({"s": GenerateStage(2)})}}, "arms.none", "no stage of this strategy chooses"),
]


@pytest.mark.parametrize(("settings", "path", "message"), WRONG, ids=[str(w[1:]) for w in WRONG])
def test_settings_that_cannot_be(settings, path, message):
    with pytest.raises(ConfigError, match=message) as error:
        Auto(**{"arms": ARMS, **settings})
    assert error.value.path == path


def test_what_has_no_votes_may_earn_otherwise():
    assert Auto({"best": best(4)}, reward="correct").needs == frozenset()
    assert Auto({"best": best(4)}, reward="score").needs == {"verifier"}
