"""Several verifiers as one: scores are blended, models stay warm, what one fails on has failed."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.ops import Verdict
from ttsflow.run import run_config
from ttsflow.testing import FakeEnginePart, FakeVerifierPart
from ttsflow.testing.contracts import VerifierContract
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.answer import GoldAnswer
from ttsflow.verifiers.confidence import ConfidenceScore
from ttsflow.verifiers.constant import Constant, RandomScore
from ttsflow.verifiers.ensemble import Ensemble
from ttsflow.verifiers.judge import Judge
from ttsflow.verifiers.served import served

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=5)


class TestEnsemble(VerifierContract):
    @pytest.fixture
    def part(self):
        return Ensemble({"a": FakeVerifierPart(), "b": RandomScore(1)}, weights={"a": 3.0})


def scored(part, text="1\n2\n3"):
    verifier = part.open()
    verifier.submit("x", Problem("?"), Candidate((0,), (), (1,), text, finish="stop"))
    return next(verdict for _ in range(9) for verdict in verifier.step())


def test_each_step_has_the_mean_the_lowest_or_the_product():
    inner = {"a": Constant(0.2), "b": Constant(0.8)}
    assert scored(Ensemble(inner)).scores == pytest.approx((0.5,) * 3)
    assert scored(Ensemble(inner, weights={"b": 3.0})).scores == pytest.approx((0.65,) * 3)
    assert scored(Ensemble(inner, how="min")).scores == (0.2,) * 3
    assert scored(Ensemble(inner, how="prod")).scores == pytest.approx((0.16,) * 3)


@pytest.mark.slow
@given(SCORES, SCORES)
def test_where_they_differ_in_number_the_last_of_each_counts(one, other):
    blended = Ensemble({"a": Constant(), "b": Constant()}).blend({"a": one, "b": other})
    if len(one) == len(other):
        assert blended == pytest.approx(tuple(sum(pair) / 2 for pair in zip(one, other, strict=True)))
    else:
        assert blended == pytest.approx(((one[-1] + other[-1]) / 2,))


def test_a_step_that_one_of_them_leaves_has_no_score():
    part = Ensemble({"a": Constant(), "b": Constant()})
    assert part.blend({"a": (0.5, None), "b": (0.5, 0.5)}) == (0.5, None)
    assert part.blend({"a": (), "b": (0.5,)}) == ()


@dataclass(frozen=True, slots=True)
class Slow:
    """Answers at the second step, or fails; tells what it was asked."""

    reason: str = ""

    def open(self):
        return SlowVerifier(self.reason)


class SlowVerifier:
    deadline = 9.0
    aside = True

    def __init__(self, reason):
        self.reason, self.ids, self.turn, self.closed = reason, [], 0, 0

    def submit(self, id, problem, candidate):
        if self.reason == "submit":
            raise RuntimeError("full")
        self.ids.append(id)

    def step(self):
        self.turn += 1
        ids, self.ids = (self.ids, []) if self.turn > 1 else ([], self.ids)
        return [Verdict(id_, () if self.reason else (1.0,), 5, self.reason) for id_ in ids]

    def cancel(self, ids):
        self.ids = [id_ for id_ in self.ids if id_ not in ids]

    def counters(self):
        return {"read": 2.0}

    def close(self):
        self.closed += 1


def test_it_answers_once_all_have_and_counts_the_tokens_of_all():
    assert scored(Ensemble({"a": Slow(), "b": Constant(0.0)}), "1") == Verdict("x", (0.5,), 5)
    verifier = Ensemble({"a": Slow(), "b": Slow()}).open()
    assert verifier.deadline == 9.0
    assert verifier.aside
    assert verifier.counters() == {"read": 4.0}
    assert not Ensemble({"a": Slow(), "b": Constant()}).open().aside


@pytest.mark.parametrize(("reason", "told"), [("no", "a: no"), ("submit", "a: RuntimeError: full")])
def test_what_one_fails_on_has_failed(reason, told):
    verdict = scored(Ensemble({"a": Slow(reason), "b": Constant()}), "1")
    assert (verdict.scores, verdict.reason) == ((), told)


def test_settings_are_refused():
    for make, path in (
        (lambda: Ensemble({}), "of"),
        (lambda: Ensemble({"a": GoldAnswer(evaluation=True)}), "of.a"),
        (lambda: Ensemble({"a": Judge()}), "of.a"),
        (lambda: Ensemble({"a": Constant()}, weights={"b": 1.0}), "weights.b"),
        (lambda: Ensemble({"a": Constant()}, weights={"a": 0.0}), "weights.a"),
        (lambda: Ensemble({"a": Constant()}, weights={"a": math.inf}), "weights.a"),
        (lambda: Ensemble({"a": Constant()}, how="min", weights={"a": 1.0}), "weights"),
    ):
        with pytest.raises(ConfigError) as caught:
            make()
        assert caught.value.path == path


def test_what_its_parts_need_it_needs():
    plain = Ensemble({"a": Constant(), "b": ConfidenceScore(top=7)})
    assert (plain.logprobs, plain.certainty, served(plain), plain.engines) == (7, False, None, ())
    assert Ensemble({"a": ConfidenceScore("self_certainty")}).certainty
    with_model = Ensemble({"a": Judge(FakeEnginePart(capacity=3)), "b": Constant()})
    assert served(with_model) is with_model
    assert with_model.engines == (FakeEnginePart(capacity=3),)


def test_a_part_of_it_may_refuse_the_task():
    mapping = compose(["strategy=best_of_n", "engine=fake", "task=countdown", "verifier=equations"])
    mapping["verifier"] = {"use": "ensemble", "of": {"rule": mapping["verifier"]}}
    with pytest.raises(ConfigError, match=r"^verifier\.of\.rule"):
        assemble(mapping)


@pytest.mark.parametrize("capacity", [4, 16], ids=["an engine of its own", "that of the run"])
def test_a_judge_and_a_rule_score_a_run_together(capacity, tmp_path):
    judge = {"use": "judge", "engine": {"use": "fake", "capacity": capacity}}
    mapping = compose(["strategy=best_of_n", "engine=fake", "strategy.n=3", "limit=4"])
    mapping["verifier"] = {"use": "ensemble", "of": {"judge": judge, "rule": {"use": "fake"}}}
    summary = run_config(mapping, tmp_path / "run")
    assert (summary.status, summary.failed) == ("complete", 0)
    assert summary.usage["verifier_tokens"] > 0
