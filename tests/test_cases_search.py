"""What goes wrong in searches and with their scores, case by case: the right behaviour of each.

The names of the tests begin with the ids of their cases: reward-model scores (d) and search (e);
``pytest tests/test_cases_search.py -k e2_`` runs one. The other sections are in ``test_cases.py``.
"""

import math
from functools import cache

import pytest

from ttsflow.build import build
from ttsflow.config import compose, strategy
from ttsflow.errors import ConfigError
from ttsflow.plugins import load
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.dedup import Dedup
from ttsflow.strategies.flow import Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.reduce import reduce_scores
from ttsflow.strategies.select import Select
from ttsflow.strategies.until import AllFinished
from ttsflow.strategies.verify import Verify
from ttsflow.testing import FakeEngine, FakeTask, Heard, drive, run_fake
from ttsflow.types import Answer, Candidate, Problem, Sampling, State
from ttsflow.verifiers.batch import Batched, steps_of
from ttsflow.verifiers.pooled import Unreadable

TASK = FakeTask(size=6)
SEARCHES = ("beam_search", "dvts", "rebase", "dynamic_branching", "varying_granularity", "lookahead")
REDUCED = (*SEARCHES, "best_of_n", "weighted_best_of_n", "weighted_majority")
LONG, SHORT = (0.9,) * 10, (0.8, 0.8)


@cache
def shipped(name, *more):
    """Return a shipped strategy, built; the tests share it."""
    return build("stage", compose([f"strategy={name}", *more])["strategy"], "strategy", load())


def part(kind, *words):
    return build(kind, compose(list(words))[kind], kind, load())


def cand(place, answer=None, *, score=None, finish="stop", text=""):
    known = None if answer is None else Answer(answer, answer)
    return Candidate((place,), (), (7,), text=text, finish=finish, answer=known, score=score)


def vote(stage, *pool):
    return drive(stage, State(Problem("?", id="p"), pool=pool), lambda op: None)


def run(name, *more, **settings):
    """Run a shipped strategy; return results, what the trace heard, and the engine."""
    heard, engine = Heard(), FakeEngine()
    results = run_fake(shipped(name, *more), task=TASK, engine=engine, trace=heard, **settings)
    return results, heard, engine


# --- D: reward-model scores ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["last", "min", "mean", "prod", "geometric"])
@pytest.mark.parametrize("name", REDUCED)
def test_d1_the_reduction_that_was_set_is_used_everywhere(name, how):
    found = []

    def look(node):
        if isinstance(node, dict):
            found.extend([node["reduce"]] if node.get("use") in {"verify", "lookahead"} else [])
            for child in node.values():
                look(child)

    look(strategy(name, {"reduce": how, "n": 4}))
    assert set(found) == {how}


def test_d1_the_reduction_decides_who_wins():
    scores = {"long": LONG, "short": SHORT}

    def score(batch):
        return [scores["long" if candidate.path == (0,) else "short"] for _, candidate in batch]

    def winner(how):
        stage = Sequence({"score": Verify(how), "best": Aggregate("best")})

        def answer(op):
            if not hasattr(op, "candidates"):
                return None
            verifier = Batched(score)
            for candidate in op.candidates:
                verifier.submit(str(candidate.path), state.problem, candidate)
            return type("R", (), {"verdicts": verifier.step(), "spent": state.spent})

        state = State(Problem("?", id="p"), pool=(cand(0, "long"), cand(1, "short")))
        return drive(stage, state, answer).answer.key

    assert {how: winner(how) for how in ("last", "min", "mean", "geometric", "prod")} == {
        "last": "long",
        "min": "long",
        "mean": "long",
        "geometric": "long",
        "prod": "short",
    }


@pytest.mark.parametrize("separator", ["\n", "\n\n", ". ", "."])
def test_d3_a_separator_at_the_end_makes_no_step(separator):
    steps = ["3 + 4 = 7", "7 + 5 = 12"]
    text = separator.join(steps) + separator
    assert steps_of(text, separator) == steps
    assert steps_of(text + separator, separator) == steps


def test_d4_products_punish_length_and_the_others_do_not():
    assert reduce_scores(LONG, "prod") == pytest.approx(0.3487, abs=1e-4)
    assert reduce_scores(SHORT, "prod") == pytest.approx(0.64)
    for how in ("last", "min", "mean", "geometric"):
        assert reduce_scores(LONG, how) > reduce_scores(SHORT, how)


@pytest.mark.parametrize("how", ["best", "weighted"])
@pytest.mark.parametrize("finish", ["step", "length", "aborted", "failed"])
def test_d4_only_complete_trajectories_can_win(how, finish):
    pool = (cand(0, score=0.99, finish=finish, text="Answer: 1"), cand(1, "2", score=0.1))
    assert vote(Aggregate(how), *pool).answer.key == "2"


@pytest.mark.parametrize("name", ["qwen_prm", "math_shepherd", "skywork_prm"])
def test_d6_a_reward_model_is_described_and_not_looked_up(name):
    prm = part("verifier", f"verifier={name}", "verifier.engine.model=some/other-prm", "verifier.tag='<+>'")
    assert prm.engine.model == "some/other-prm"
    assert prm.tag == "<+>"


@pytest.mark.parametrize("name", ["qwen_prm", "math_shepherd", "skywork_prm"])
@pytest.mark.parametrize("numbers", [8192, 0, 3])
def test_d7_d8_other_than_the_wanted_numbers_at_a_step_are_no_score(name, numbers):
    prm = part("verifier", f"verifier={name}", "verifier.engine.model=some/prm")
    with pytest.raises(Unreadable, match=f"gave {numbers} numbers for a step"):
        prm._score((0.5,) * numbers)


def test_d8_scores_are_one_for_every_step_or_none_is_taken():
    verifier = Batched(lambda batch: [[0.5] * 380_160 for _ in batch], separator="\n")
    verifier.submit("a", Problem("?", id="p"), cand(0, text="one\ntwo\n"))
    (verdict,) = verifier.step()
    assert verdict.scores == ()
    assert verdict.reason == "returned 380160 scores for 2 steps"


# --- E: search -------------------------------------------------------------------------------------


def test_e1_a_step_that_was_cut_is_no_end_of_text():
    _, heard, _ = run("beam_search", "strategy.n=4", sampling=Sampling(max_tokens=9, max_step_tokens=2))
    ends = heard.of("candidate")
    assert {end["finish"] for end in ends} == {"step", "length", "stop"}
    for end in ends:
        if end["finish"] == "step" and not end["text"].endswith("\n"):
            assert end["tokens_new"] == 2
        if end["finish"] == "length":
            assert "answer" not in end


def test_e2_the_best_of_all_finished_are_kept_and_not_the_first():
    weak = [cand(i, f"bad{i}", score=0.1) for i in range(3)]
    strong = [cand(3 + i, "good", score=0.9) for i in range(3)]
    assert vote(Aggregate("weighted", top=3), *weak, *strong).answer.key == "good"
    assert vote(Aggregate("majority", top=3), *weak, *strong).answer.key == "good"


def test_e4_what_is_looked_ahead_is_scored_and_paid():
    results, heard, engine = run("lookahead", "strategy.n=4")
    rollouts = [end for end in heard.of("candidate") if end.get("aside") == "rollout"]
    assert rollouts
    assert sum(len(note["scores"]) for note in heard.of("lookahead")) > 0
    assert sum(r.usage.decoded for r in results.values()) == engine.decoded
    # Every score of the search is that of a rollout, or of a candidate that had ended.
    asked = [tuple(data["path"]) for data in heard.of("score")]
    known = {tuple(end["path"]) for end in rollouts}
    ended = {tuple(e["path"]) for e in heard.of("candidate") if e["finish"] != "step"}
    assert set(asked) <= known | ended


@pytest.mark.parametrize("name", SEARCHES)
def test_e5_all_tokens_are_counted_those_of_pruned_candidates_as_well(name):
    results, heard, engine = run(name, "strategy.n=8")
    assert sum(r.usage.decoded for r in results.values()) == engine.decoded > 0
    assert sum(end["tokens_new"] for end in heard.of("candidate")) == engine.decoded


@pytest.mark.parametrize("name", SEARCHES)
def test_e7_a_step_has_its_own_limit_and_a_trajectory_another(name):
    limits = Sampling(max_tokens=12, max_step_tokens=3)
    # What a strategy says of its own steps is their limit.
    own = ["strategy.first_tokens=3"] if name == "varying_granularity" else []
    _, heard, _ = run(name, "strategy.n=4", *own, sampling=limits)
    ends = heard.of("candidate")
    assert max(end["tokens"] for end in ends) <= 12
    assert max(end["tokens_new"] for end in ends if end["finish"] == "step") <= 3
    assert any(end["tokens"] > 3 for end in ends)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("beam_search", "strategy.n=2"), "n must be at least the width"),
        (("beam_search", "strategy.n=6"), "use 4 or 8"),
        (("dvts", "strategy.n=2"), "no multiple of 4"),
    ],
)
def test_e8_a_budget_that_is_no_search_is_refused(words, text):
    with pytest.raises(ConfigError, match=text):
        shipped(*words)


def test_e8_a_budget_as_large_as_the_width_is_a_search():
    _, heard, _ = run("beam_search", "strategy.n=4")
    roots = [end["path"] for end in heard.of("candidate") if len(end["path"]) == 1]
    assert len(roots) == 4 * len(TASK.problems())


@pytest.mark.parametrize("name", SEARCHES)
def test_e10_the_end_of_the_text_ends_a_candidate_without_any_stop_string(name):
    assert TASK.stop == ()
    _, heard, _ = run(name, "strategy.n=4")
    ended = {
        (p, tuple(d["path"])) for kind, p, d in heard.events if kind == "candidate" and d["finish"] == "stop"
    }
    paths = {(p, tuple(d["path"])) for kind, p, d in heard.events if kind == "candidate"}
    assert ended
    assert not [(p, path) for p, path in paths if any((p, path[:i]) in ended for i in range(1, len(path)))]


def test_e11_no_text_is_invented_between_steps():
    engine = FakeEngine()
    stages = {"step": GenerateStage(2, unit="step", step_tokens=2)}
    seen = []

    class Look:
        def __call__(self, state):
            seen.extend(state.pool)
            return state

    run_fake(Sequence({"search": Repeat(stages, 6), "look": Look()}), task=TASK, engine=engine)
    assert any(len(candidate.tokens) > 4 for candidate in seen)
    assert all(candidate.text == engine.decode(candidate.tokens) for candidate in seen)


def test_e14_equal_candidates_can_be_dropped():
    pool = [cand(i, finish="step", text=text) for i, text in enumerate(("a\n", "a", "b"))]
    assert [c.path for c in vote(Dedup(), *pool).pool] == [(0,), (2,)]


@pytest.mark.parametrize("name", SEARCHES)
def test_e16_where_no_beam_ends_the_best_partial_one_is_returned_and_flagged(name):
    results, heard, _ = run(name, "strategy.n=4", sampling=Sampling(max_tokens=2))
    cut = [r for r in results.values() if r.outcome == "truncated"]
    assert cut
    for result in cut:
        assert result.answer is None
        assert result.correct is False
        assert result.truncated
        texts = [d["text"] for kind, p, d in heard.events if kind == "candidate" and p == result.id]
        assert result.text in texts


def test_e16_a_loop_over_nothing_ends():
    stages = {"keep": Select(into=4, copies=4), "step": GenerateStage(4, unit="step")}
    state = State(Problem("?", id="p"), pool=(cand(0, "1", score=1.0),))
    end = drive(Repeat(stages, 10, AllFinished()), state, lambda op: pytest.fail(f"asked {op}"))
    assert end.pool == state.pool


@pytest.mark.parametrize("scores", [(math.nan, 0.5), (None, 0.5), (math.inf, 0.5)])
def test_a_missing_score_is_never_a_number(scores):
    verifier = Batched(lambda batch: [list(scores) for _ in batch])
    verifier.submit("a", Problem("?", id="p"), cand(0))
    assert verifier.step()[0].scores == (None, 0.5)
    assert reduce_scores((None, 0.5), "mean") == 0.5
    assert reduce_scores((None, None), "min") is None


def test_e20_an_unknown_task_is_refused_with_those_there_are():
    with pytest.raises(ConfigError) as error:
        compose(["task=arithmetik"])
    assert "arithmetic" in str(error.value)
    assert "countdown" in str(error.value)
