"""The stages on the fake engine, and by hand where a number is known."""

import math
import random
from collections import Counter

import pytest
from ttsflow_particles.gibbs import Gibbs
from ttsflow_particles.posterior import Posterior
from ttsflow_particles.resample import Resample, log_weight

from ttsflow.acceleration import Acceleration
from ttsflow.build import build
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose, strategy
from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note, Score, Scored, Verdict
from ttsflow.plugins import load, problems
from ttsflow.run import run_config
from ttsflow.strategies.flow import Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.until import AllFinished
from ttsflow.strategies.verify import Verify
from ttsflow.testing import drive, run_fake
from ttsflow.testing.contracts import PartContract, StageContract
from ttsflow.testing.schedules import draw, play, same
from ttsflow.types import Answer, Candidate, Problem, State, Usage

STRATEGIES = ["particle_filter", "particle_gibbs"]


def shipped(name, **settings):
    return build("stage", strategy(name, settings), "strategy", load())


def beam(number, score, finish="step", **changes):
    answer = Answer(str(number), str(number)) if finish == "stop" else None
    return Candidate((number,), (), (7,), "7", finish=finish, score=score, answer=answer, **changes)


def state(*pool, seed=0):
    return State(Problem("?", id="p"), seed=seed, pool=pool)


def run(stage, start):
    """Run a stage that asks for nothing, and return its state and what it told the trace."""
    told = []
    return drive(stage, start, told.append), told


# --- contracts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STRATEGIES)
class TestStrategies(StageContract):
    @pytest.fixture
    def part(self, name):
        return shipped(name, n=5, depth=6)


@pytest.mark.parametrize("part", [Resample(), Posterior()], ids=["resample", "posterior"])
class TestParts(PartContract):
    pass


def test_all_is_found():
    assert problems() == []
    assert {e.name for e in load().choices() if e.provider == "ttsflow-particles"} == {
        *STRATEGIES,
        "resample",
        "gibbs",
        "posterior",
    }


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Resample(temperature=0), "temperature"),
        (lambda: Resample(ess=1.5), "ess"),
        (lambda: Gibbs({}, 3), "stages"),
        (lambda: Gibbs({"a": GenerateStage()}, 0), "at_most"),
        (lambda: Gibbs({"a": GenerateStage()}, 3, iterations=0), "iterations"),
        (lambda: Gibbs({"a": GenerateStage()}, 3, resample=Resample(how="systematic")), "resample.how"),
    ],
)
def test_settings_are_refused(make, path):
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.path == path


@pytest.mark.parametrize("name", STRATEGIES)
def test_without_a_verifier_a_run_is_refused(name):
    with pytest.raises(ConfigError, match="no verifier is set"):
        assemble(compose([f"strategy={name}", "engine=fake"]))


# --- one draw ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_particles_come_in_proportion_to_their_odds():
    pool = (beam(0, 0.5), beam(1, 0.75), beam(2, 0.9))  # odds 1 : 3 : 9
    found = Counter()
    for seed in range(600):
        after, (note,) = run(Resample(), state(*pool, seed=seed))
        found.update(c.path[0] for c in after.pool)
        assert note.data["weights"] == pytest.approx([1 / 13, 3 / 13, 9 / 13])
    for number, odds in enumerate((1, 3, 9)):
        share = odds / 13
        assert abs(found[number] / 1800 - share) < 4 * math.sqrt(share * (1 - share) / 1800)


def test_a_finished_particle_competes_is_copied_and_does_not_grow():
    done = beam(0, 0.999999, finish="stop")
    after, _ = run(Resample(how="systematic"), state(done, beam(1, 0.5), beam(2, 0.5), beam(3, 0.5)))
    assert [c.path for c in after.pool] == [(0,)] * 4
    assert drive(GenerateStage(4, unit="step"), after, None) is after
    # And it can lose its place, as any other.
    after, _ = run(Resample(how="systematic"), state(beam(0, 1e-6, "stop"), beam(1, 0.9)))
    assert [c.path for c in after.pool] == [(1,), (1,)]


@pytest.mark.parametrize("finish", ["length", "aborted", "failed"])
def test_what_was_cut_has_no_weight(finish):
    after, _ = run(Resample(), state(beam(0, 0.999, finish), beam(1, 0.01)))
    assert [c.path for c in after.pool] == [(1,), (1,)]


def test_one_without_a_score_is_worth_as_much_as_the_lowest():
    _, (note,) = run(Resample("likelihood"), state(beam(0, None), beam(1, 0.2), beam(2, 0.6)))
    assert note.data["weights"] == pytest.approx([0.2, 0.2, 0.6])
    _, (note,) = run(Resample(), state(beam(0, None), beam(1, None)))
    assert note.data["weights"] == pytest.approx([0.5, 0.5])


def test_weights_multiply_until_too_few_particles_carry_them():
    never = Resample("likelihood", ess=0)
    after, told = run(never, state(beam(0, 0.2), beam(1, 0.8)))
    assert told == []
    after, told = run(never, after.with_(pool=tuple(c.with_(score=0.5) for c in after.pool)))
    assert [math.exp(log_weight(c)) for c in after.pool] == pytest.approx([0.1, 0.4])
    # Effective sample size 1 / (.2^2 + .8^2) = 1.47 of 2.
    assert run(Resample("likelihood", ess=0.73), state(beam(0, 0.2), beam(1, 0.8)))[1] == []
    after, (note,) = run(Resample("likelihood", ess=0.74), state(beam(0, 0.2), beam(1, 0.8)))
    assert note.data["effective"] == pytest.approx(1 / 0.68)
    assert [log_weight(c) for c in after.pool] == [0, 0]


def test_once_none_can_go_on_weights_are_kept_for_the_answer():
    after, told = run(Resample("likelihood"), state(beam(0, 0.2, "stop"), beam(1, 0.8, "stop")))
    assert told == []
    assert [c.path for c in after.pool] == [(0,), (1,)]
    assert [math.exp(log_weight(c)) for c in after.pool] == pytest.approx([0.2, 0.8])


def test_a_score_that_is_no_probability_fails_with_advice():
    with pytest.raises(ValueError, match="set `weigh: softmax`"):
        run(Resample(), state(beam(0, 3.0)))


# --- the answer --------------------------------------------------------------------------------------


def weighted(number, answer, weight, score=0.5):
    log = math.log(weight) if weight else -math.inf
    return beam(number, score, "stop", extra={"log_weight": log}).with_(answer=Answer(answer, answer))


def test_every_place_in_the_pool_votes_with_its_weight():
    one, two, three = weighted(0, "a", 0.4, 0.9), weighted(1, "b", 0.3), weighted(2, "c", 0.0, 1.0)
    after, (note,) = run(Posterior("vote"), state(one, two, two, three, beam(4, 0.9)))
    assert after.answer.key == "b"
    assert note.data["weights"] == pytest.approx({"a": 0.4, "b": 0.6})
    assert run(Posterior("best"), state(one, two, three))[0].answer.key == "a"


def test_a_sample_is_drawn_by_weight():
    pool = (weighted(0, "a", 0.9), weighted(1, "b", 0.1))
    found = Counter(run(Posterior("sample"), state(*pool, seed=i))[0].answer.key for i in range(500))
    assert abs(found["a"] / 500 - 0.9) < 4 * math.sqrt(0.09 / 500)


def test_without_an_answer_there_is_none():
    after, _ = run(Posterior(), state(beam(0, 0.5), beam(1, 0.5, "length")))
    assert (after.answer, after.chosen) == (None, None)


# --- whole runs --------------------------------------------------------------------------------------


def told(results):
    return {name: (r.answer, r.outcome, r.text, r.usage.output) for name, r in results.items()}


@pytest.mark.parametrize("name", STRATEGIES)
def test_one_particle_is_one_sample(name):
    one = {"n": 1, "iterations": 1} if name == "particle_gibbs" else {"n": 1}
    assert told(run_fake(shipped(name, depth=1, **one))) == told(run_fake(shipped("single")))
    steps = Repeat({"step": GenerateStage(1, unit="step")}, at_most=9, until=AllFinished())
    alone = run_fake(Sequence({"steps": steps, "answer": build("stage", {"use": "aggregate"}, "", load())}))
    assert told(run_fake(shipped(name, depth=9, **one))) == told(alone)


@pytest.mark.parametrize("settings", [{}, {"ess": 0.6}, {"weigh": "ratio", "temperature": 0.3}], ids=str)
def test_one_iteration_of_gibbs_is_particle_filtering(settings):
    filtering = play(shipped("particle_filter", n=6, depth=5, **settings))
    once = play(shipped("particle_gibbs", n=6, depth=5, iterations=1, **settings))
    assert same(filtering, once)
    assert filtering[1].of("select") == once[1].of("select")


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("number", range(6))
def test_whatever_the_engine_does_when_the_particles_are_the_same(name, number):
    strategy_ = shipped(name, n=5, depth=6, ess=0.7)
    assert same(play(strategy_), play(strategy_, draw(number)))


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_scores_are_asked_for_as_steps_end_and_nothing_changes(name):
    plain = run_fake(shipped(name, n=5, depth=6))
    faster = Acceleration(eager_verify=True, prefix_order=True, speculation=True)
    eager = run_fake(shipped(name, n=5, depth=6), acceleration=faster)
    assert told(plain) == told(eager)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_budget_ends_it_and_what_is_there_answers(name, tmp_path):
    settings = [f"strategy={name}", "engine=fake", "verifier=fake", "budget.problem.tokens=60", "limit=6"]
    summary = run_config(compose(settings), tmp_path / "run")
    assert (summary.status, summary.failed) == ("complete", 0)
    assert set(summary.stopped) == {"budget: 60 tokens per problem spent"}


def test_islands_draw_apart():
    def draws(first):
        pool = (beam(first, 0.5), beam(first + 1, 0.5))
        afters = [run(Resample(), state(*pool, seed=seed))[0] for seed in range(12)]
        return [[c.path[0] - first for c in after.pool] for after in afters]

    assert draws(0) == draws(0) != draws(2)


# --- particle Gibbs ----------------------------------------------------------------------------------


class Toy:
    """A model of two tokens, each step one of them with equal chance; scores by the tokens so far."""

    def __init__(self, scores, rng, depth):
        self.scores, self.rng, self.depth = scores, rng, depth
        self.count, self.notes, self.sent = Counter(), [], []

    def __call__(self, op):
        if isinstance(op, Generate):
            self.sent.append([request.parent for request in op.requests])
            return Generated(tuple(self.child(request.parent) for request in op.requests), Usage())
        if isinstance(op, Score):
            return Scored(tuple(Verdict("", self.steps(c.tokens)) for c in op.candidates), Usage())
        assert isinstance(op, Note)
        self.notes.append(op.data)
        return None

    def child(self, parent):
        above, tokens = (parent.path, parent.tokens) if parent else ((), ())
        path = (*above, self.count[above])
        self.count[above] += 1
        tokens += (self.rng.randrange(2),)
        finish = "stop" if len(tokens) == self.depth else "step"
        extra = parent.extra if parent else {}
        text = "x" * len(tokens)
        return Candidate(path, (), tokens, text, finish=finish, answer=Answer("", ""), extra=extra)

    def steps(self, tokens):
        return tuple(self.scores[tokens[: k + 1]] for k in range(len(tokens)))


TWO = {
    (0,): 0.2,
    (1,): 0.7,
    (0, 0): 0.9,
    (0, 1): 0.3,
    (1, 0): 0.1,
    (1, 1): 0.5,
}


def gibbs(n, iterations, **settings):
    body = {"step": GenerateStage(n, unit="step"), "score": Verify()}
    return Gibbs(body, 2, iterations, Resample(**settings))


def test_the_reference_is_compared_as_it_was_at_the_same_step():
    """A reference that scored .2 and then .9 weighs .2 in the first round, however good it is at the end."""
    toy = Toy(TWO, random.Random(0), 2)
    seen = {}

    def child(parent, plain=toy.child):
        made = plain(parent)
        # The first pass finds (0, 0) alone, the second one starts with a 1.
        wanted = (0, 0) if toy.count[()] <= 1 else (1, 1)
        made = made.with_(tokens=wanted[: len(made.tokens)])
        seen[made.path] = made.tokens
        return made

    toy.child = child
    drive(gibbs(1, 2, weigh="likelihood"), state(), toy)
    first, second = toy.notes
    assert first["weights"] == [1.0]
    assert second["weights"] == pytest.approx([0.7 / 0.9, 0.2 / 0.9])
    assert seen[0,] == (0,)


def test_one_that_draws_the_reference_goes_on_from_its_step_with_samples_of_its_own():
    grown = set()
    for seed in range(40):
        toy = Toy(dict.fromkeys(TWO, 0.5) | {(0,): 0.999}, random.Random(seed), 2)
        after = drive(gibbs(2, 3), state(seed=seed), toy)
        *free, reference = after.pool
        assert reference.finished
        assert len(free) == 2
        assert len({c.path for c in after.pool}) == 3, "no sample is used twice"
        grown |= {parent.path for parents in toy.sent[3::2] for parent in parents if parent}
    assert any(path[0] < 2 for path in grown), "some prefix of an earlier pass was drawn and extended"


class Listening(Gibbs):
    """Tells which references it takes."""

    def _chosen(self, *args):
        reference = super()._chosen(*args)
        heard.append(reference)
        return reference


heard = []


def test_the_reference_lives_on_whatever_is_drawn():
    heard.clear()
    stage = gibbs(3, 4, weigh="likelihood")
    toy = Toy(TWO, random.Random(3), 2)
    after = drive(Listening(stage.stages, 2, 4, stage.resample), state(), toy)
    assert len(heard) == 4
    assert after.pool[-1].path == heard[2][-1].path
    assert [len(c.path) for c in heard[2]] == [1, 2]
    assert [c.active for c in heard[2]] == [True, False]


def posterior_of(scores):
    """Return the distribution that the filter aims at: equal chances times the scores of both steps."""
    weights = {pair: scores[pair[:1]] * scores[pair] for pair in scores if len(pair) == 2}
    total = math.fsum(weights.values())
    return {pair: weight / total for pair, weight in weights.items()}


@pytest.mark.slow
@pytest.mark.parametrize("ess", [1.0, 0.6])
def test_passes_leave_the_posterior_as_it_is(ess):
    """References of many passes are samples of the exact posterior, though a pass has two particles."""
    heard.clear()
    toy, passes = Toy(TWO, random.Random(1), 2), 4000
    stage = gibbs(1, passes, weigh="likelihood", ess=ess)
    drive(Listening(stage.stages, 2, passes, stage.resample), state(), toy)
    found = Counter(reference[-1].tokens for reference in heard)
    for pair, chance in posterior_of(TWO).items():
        # Passes follow each other, so that they tell less than as many independent ones.
        assert abs(found[pair] / passes - chance) < 8 * math.sqrt(chance * (1 - chance) / passes), pair


@pytest.mark.slow
def test_many_particles_find_the_posterior_in_one_pass():
    toy = Toy(TWO, random.Random(1), 2)
    after = drive(gibbs(4000, 1, weigh="likelihood"), state(), toy)
    sums = Counter()
    for candidate in after.pool:
        sums[candidate.tokens] += math.exp(log_weight(candidate))
    total = math.fsum(sums.values())
    for pair, chance in posterior_of(TWO).items():
        assert abs(sums[pair] / total - chance) < 0.04


def test_a_pass_that_is_cut_short_does_not_replace_a_whole_one():
    toy, passes = Toy(TWO, random.Random(1), 2), []

    def short(op, plain=toy.__call__):
        reply = plain(op)
        if isinstance(op, Generate) and len(toy.sent) == 3:
            passes.append(len(reply.candidates))
            return Generated(reply.candidates, Usage(), stopped="budget: spent")
        return reply

    after = drive(gibbs(3, 5), state(), short)
    assert passes == [3]
    assert after.stopped == "budget: spent"
    assert all(c.finished and c.path[0] < 3 for c in after.pool)
