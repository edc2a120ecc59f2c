"""A run in which problems go wrong one after another stops spending."""

import json

import pytest

from ttsflow import Pipeline, cli
from ttsflow.analysis.doctor import diagnose
from ttsflow.budget import Breaker, Budget
from ttsflow.controllers.online import Online
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.ladder import Ladder
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import Sampling

SHORT = Sampling(max_tokens=3)


class Unreadable(FakeEngine):
    """Cannot read the prompts of some questions."""

    def __init__(self, bad, **settings):
        super().__init__(**settings)
        self.bad = bad

    def encode(self, prompt):
        if int(prompt.split()[1]) in self.bad:
            raise ValueError("no such letter")
        return super().encode(prompt)


def run(tools, bad, *, size=12, breaker=None, concurrency=1, strategy=None, **more):
    return run_fake(
        strategy or tools.trees.majority(2),
        FakeTask(size=size).problems(),
        engine=Unreadable(bad),
        budget=Budget(breaker=breaker or Breaker(last=3), **more),
        concurrency=concurrency,
    )


def test_problems_left_are_deferred_with_the_reason(tools):
    results = run(tools, range(2, 12))
    assert [r.outcome for r in results.values()] == ["answered"] * 2 + ["failed"] * 3 + ["deferred"] * 7
    for result in [*results.values()][5:]:
        assert result.stopped == "breaker: 3 of the last 3 problems failed"
        assert result.reason == "no sample was drawn: breaker: 3 of the last 3 problems failed"
        assert result.usage.requests == 0
    assert all("no such letter" in result.reason for result in [*results.values()][2:5])


def test_failures_that_are_not_in_a_row_do_not_trip_it(tools):
    results = run(tools, [0, 1, 3, 4, 6, 7, 9, 10])
    assert tools.outcomes(results)["deferred"] == 0
    results = run(tools, [0, 1, 3, 4, 6, 7, 9, 10], breaker=Breaker(last=4, share=0.75))
    assert [r.outcome for r in results.values()][:4] == ["failed", "failed", "answered", "failed"]
    assert tools.outcomes(results)["deferred"] == 8


def test_where_the_first_ones_fail_before_anything_runs_nothing_is_begun(tools):
    results = run(tools, [3, 4], breaker=Breaker(last=2), concurrency=8)
    assert tools.outcomes(results) == {"failed": 2, "deferred": 10}
    assert not any(result.usage.requests for result in results.values())


@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_what_runs_is_ended_and_votes_with_what_is_there(concurrency, tools):
    trace = tools.Watcher()
    engine = Unreadable([3, 4])
    results = run_fake(
        tools.trees.majority(4),
        FakeTask(size=12).problems(),
        engine=engine,
        budget=Budget(breaker=Breaker(last=2)),
        concurrency=concurrency,
        trace=trace,
    )
    assert len(results) == 12
    assert tools.decoded(results) == engine.decoded
    reason = "breaker: 2 of the last 2 problems failed"
    ended = {problem for problem, data in trace.of("stop") if data["reason"] == reason}
    # Whoever is in flight when the second failure comes is ended.
    assert len(ended) == concurrency - 1
    for name in ended:
        assert results[name].stopped == reason
        assert results[name].outcome in {"answered", "truncated", "abstained"}
    assert not engine._running


def test_truncated_problems_trip_it_only_where_they_count(tools):
    def outcomes(counts):
        results = run_fake(
            tools.trees.majority(2),
            sampling=SHORT,
            engine=FakeEngine(),
            budget=Budget(breaker=Breaker(last=2, counts=counts)),
            concurrency=1,
        )
        return tools.outcomes(results)

    assert outcomes(("failed",))["deferred"] == 0
    assert outcomes(("failed", "truncated"))["deferred"] > 0


def test_wrong_answers_never_trip_it(tools):
    class Wrong(FakeTask):
        def correct(self, answer, problem):
            return False

    results = run_fake(
        tools.trees.majority(2),
        task=Wrong(size=20),
        budget=Budget(breaker=Breaker(last=1, share=0.1)),
        concurrency=4,
    )
    assert tools.outcomes(results)["deferred"] == 0
    assert not any(result.correct for result in results.values())


def test_a_grader_that_breaks_counts_as_a_failure(tools):
    class Broken(FakeTask):
        def correct(self, answer, problem):
            raise ValueError("no")

    results = run_fake(
        tools.trees.majority(2), task=Broken(), budget=Budget(breaker=Breaker(last=2)), concurrency=1
    )
    assert [r.outcome for r in results.values()] == ["failed"] * 2 + ["deferred"] * 6


def test_a_second_run_trips_at_the_same_place(tools):
    first, second = (run(tools, [2, 5, 6, 7, 8], concurrency=3) for _ in range(2))
    assert first == second
    assert tools.outcomes(first)["deferred"] > 0


def test_an_engine_that_dies_is_told_before_a_breaker(tools):
    results = run_fake(
        tools.trees.majority(2), engine=FakeEngine(dies_after=3), budget=Budget(breaker=Breaker(last=1))
    )
    assert {result.outcome for result in results.values()} == {"failed"}
    assert {result.stopped for result in results.values()} == {None}


def test_questions_that_were_to_be_asked_again_are_deferred_too(tools):
    strategy = Sequence({"climb": Ladder(controller=Online(retry=True)), "vote": Aggregate()})
    results = run(tools, [2, 3], breaker=Breaker(last=2), strategy=strategy, run={"tokens": 10**6})
    assert len(results) == 12
    assert tools.outcomes(results)["deferred"] == 8


def test_the_run_has_failed_and_says_so(tmp_path, capsys, monkeypatch):
    from ttsflow.tasks.arithmetic import Arithmetic

    def refuse(self, answer, problem):
        raise ValueError("the grader is gone")

    monkeypatch.setattr(Arithmetic, "correct", refuse)
    folder = tmp_path / "run"
    words = ["engine=fake", "budget.breaker.last=4", "concurrency=1", "limit=10"]
    assert cli.main(["run", "-q", *words, f"hydra.run.dir={folder}"]) == 1
    assert "error: breaker: 4 of the last 4 problems failed" in capsys.readouterr().err
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["failed"], summary["deferred"]) == ("failed", 4, 6)
    assert summary["error"] == "breaker: 4 of the last 4 problems failed"
    assert summary["stopped"] == {"breaker: 4 of the last 4 problems failed": 6}
    (finding,) = [found for found in diagnose(folder) if found.what == "breaker"]
    assert finding.seen == "the run was ended: 4 of the last 4 problems failed"
    assert "budget.breaker.last" in finding.change


def test_a_pipeline_says_so_and_an_answer_is_still_a_result(monkeypatch):
    from ttsflow.tasks.plain import Plain

    def refuse(self, answer, problem):
        raise ValueError("no")

    monkeypatch.setattr(Plain, "correct", refuse)
    budget = {"breaker": {"last": 1}}
    pipeline = Pipeline("majority", engine={"use": "fake"}, budget=budget, n=2, concurrency=1)
    ended = pipeline.run(["1 + 1", "2 + 2"])
    assert ended.summary.status == "failed"
    assert ended.summary.error == "breaker: 1 of the last 1 problems failed"
    assert [result.outcome for result in ended.results] == ["failed", "deferred"]
    assert pipeline.answer("1 + 1").outcome == "failed"
