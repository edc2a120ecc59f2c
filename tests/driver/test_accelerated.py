"""What makes a run faster changes nothing else, whatever happens when."""

from dataclasses import dataclass, replace

import pytest

from ttsflow import Pipeline
from ttsflow.acceleration import Acceleration, Speculation
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.engines import warm
from ttsflow.engines.sample_store import SampleStore
from ttsflow.errors import ConfigError
from ttsflow.ledger import Budget
from ttsflow.plugins import load
from ttsflow.session import Session
from ttsflow.testing import FakeEngine, FakeEnginePart, run_fake
from ttsflow.testing.parts import FakeTask, FakeVerifierPart
from ttsflow.testing.schedules import SAMPLING, Schedule, draw, play, same

#: What others have spent, or what came of them, decides there.
STEERED = {"atest_beam", "atest_calibrated", "atest_online", "atest_reserve", "auto"}
SHIPPED = sorted({entry.name for entry in load().entries("strategy")} - STEERED)
SEARCHES = ["beam_search", "dvts"]
ALL = Acceleration(prefix_order=True, speculation=Speculation(curve=False), eager_verify=True)


def shipped(name):
    more = [] if name in {"single", "recipe"} else ["strategy.n=8"]
    return build("stage", compose([f"strategy={name}", *more])["strategy"], "strategy", load())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "lookahead")) for name in SHIPPED]
)
def test_the_schedule_changes_no_result_and_every_token_is_booked(name, tmp_path):
    strategy, settings = shipped(name), {"logprobs": 20, "certainty": True}
    plain = play(strategy, **settings)
    store = SampleStore(tmp_path / "samples.pool")
    for number in (32, 33, 37, 38):
        assert same(plain, play(strategy, draw(number), pool=store, **settings)), number
    store.close()


@pytest.mark.parametrize("name", SEARCHES)
def test_steps_are_begun_early_and_used(name):
    results, _, _ = play(shipped(name), Schedule(1, 64, 0.0, 1, 0, ALL), size=6)
    adopted = sum(result.usage.adopted for result in results.values())
    output = sum(result.usage.output for result in results.values())
    assert adopted > output / 8
    assert sum(result.usage.dropped for result in results.values()) > 0


def first_round(**each):
    """Return a tree search whose subtrees take one step each: what is begun early begins in their first."""
    body = {
        "score": {"use": "verify"},
        "keep": {"use": "select", "by": "score", "into": 4, "copies": 4},
        "step": {"use": "generate", "unit": "step"},
    }
    trees = {"use": "each", **each, "stages": {"search": {"use": "repeat", "at_most": 1, "stages": body}}}
    stages = {
        "roots": {"use": "generate", "n": 12, "unit": "step"},
        "funds": {"use": "budget_check", "reserve": 0.1},
        "trees": trees,
        "score": {"use": "verify"},
        "answer": {"use": "aggregate", "how": "weighted", "top": 12},
    }
    return build("stage", {"use": "sequence", "stages": stages}, "strategy", load())


@pytest.mark.parametrize(
    "each",
    [
        {"size": 4},
        *(pytest.param(one, marks=pytest.mark.slow) for one in ({"size": 5}, {}, {"by": "candidate"})),
    ],
    ids=str,
)
def test_the_first_step_in_every_subtree_is_begun_early(each):
    strategy = first_round(**each)
    plain = play(strategy, size=6)
    fast = play(strategy, Schedule(1, 64, 0.0, 2, 0, ALL), size=6)
    assert same(plain, fast)
    usage = [result.usage for result in fast[0].values()]
    assert sum(one.adopted for one in usage) > sum(one.output for one in usage) / 16
    for number in range(60, 75):
        assert same(plain, play(strategy, draw(number), size=6)), number


@pytest.mark.slow
def test_the_first_candidates_of_a_tree_search_are_scored_as_they_end():
    """Those of a subtree compete among themselves, so that all but its best are known to be beaten."""
    eager = Acceleration(speculation=Speculation(curve=False, depth=1), eager_verify=True)
    late = Acceleration(speculation=Speculation(curve=False, depth=1))
    strategy, wasted = first_round(size=4), {}
    for name, wanted in {"eager": eager, "late": late}.items():
        results, _, _ = play(strategy, Schedule(1, 256, 0.0, 1, 0, wanted), size=12)
        wasted[name] = sum(result.usage.dropped for result in results.values())
    assert wasted["eager"] < 0.9 * wasted["late"]


class Batches:
    """Gives verdicts as another verifier does, a step late, and notes what waits at every step."""

    aside = False

    def __init__(self, inner):
        self.inner, self.waiting, self.batches, self.given = inner, {}, [], 0

    def submit(self, id, problem, candidate):
        self.waiting[id] = candidate
        self.given += 1
        self.inner.submit(id, problem, candidate)

    def step(self):
        verdicts = self.inner.step()
        if self.waiting:
            self.batches.append(list(self.waiting.values()))
        self.waiting.clear()
        return verdicts

    def cancel(self, ids):
        for name in ids:
            self.waiting.pop(name, None)
        self.inner.cancel(ids)

    def close(self):
        self.inner.close()


def looking_ahead(*, verify, eager, name="beam_search"):
    verifier = Batches(FakeVerifierPart().open())
    speculation = Speculation(curve=False, verify=verify)
    results = run_fake(
        shipped(name),
        FakeTask(size=6).problems(),
        engine=FakeEngine(capacity=64),
        sampling=SAMPLING,
        verifier=verifier,
        concurrency=1,
        acceleration=Acceleration(speculation=speculation, eager_verify=eager),
    )
    return results, verifier


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("eager", [False, True])
def test_a_step_begun_early_is_scored_with_the_one_before_it(name, eager):
    plain, without = looking_ahead(verify=False, eager=eager, name=name)
    ahead, with_it = looking_ahead(verify=True, eager=eager, name=name)
    for problem, result in plain.items():
        assert (result.answer, result.text) == (ahead[problem].answer, ahead[problem].text)
    pairs = [
        (one, other)
        for batch in with_it.batches
        for one in batch
        for other in batch
        if other.path[:-1] == one.path and other.text.startswith(one.text)
    ]
    # Scored as they end, candidates are mostly ahead of what was begun behind them.
    assert pairs or eager
    assert not any(
        other.path[:-1] == one.path for batch in without.batches for one in batch for other in batch
    )
    # What was scored ahead is not asked about again.
    seen = [(one.prompt, one.path) for batch in with_it.batches for one in batch]
    assert len(seen) == len(set(seen))
    assert with_it.given >= without.given, "of those begun early some are not asked about in the end"
    assert sum(r.usage.verifier for r in ahead.values()) >= sum(r.usage.verifier for r in plain.values())


@pytest.mark.slow
def test_a_step_that_could_not_be_scored_ahead_is_asked_about_again():
    class Refuses(Batches):
        """Refuses what is longer than all that ended before, the first time it is heard of."""

        def __init__(self, inner):
            super().__init__(inner)
            self.refused = set()

        def step(self):
            paths = {name: candidate.path for name, candidate in self.waiting.items()}
            batch, verdicts = set(paths.values()), super().step()
            long = [v for v in verdicts if (path := paths[v.id])[:-1] in batch and path not in self.refused]
            self.refused |= {paths[verdict.id] for verdict in long}
            return [v._replace(scores=(), reason="too long") if v in long else v for v in verdicts]

    plain, _ = looking_ahead(verify=False, eager=False)
    verifier = Refuses(FakeVerifierPart().open())
    ahead = run_fake(
        shipped("beam_search"),
        FakeTask(size=6).problems(),
        engine=FakeEngine(capacity=64),
        sampling=SAMPLING,
        verifier=verifier,
        concurrency=1,
        acceleration=Acceleration(speculation=Speculation(curve=False, verify=True)),
    )
    assert verifier.refused
    for name, result in plain.items():
        assert (result.answer, result.text) == (ahead[name].answer, ahead[name].text)


class ByArrival(FakeEngine):
    """Seeds by arrival, as an engine with one source of randomness does."""

    arrivals = 0

    def seed_of(self, request):
        self.arrivals += 1
        return self.arrivals


@pytest.mark.slow
def test_the_comparison_notices_an_engine_that_seeds_by_arrival():
    strategy = shipped("beam_search")
    plain = run_fake(strategy, engine=ByArrival())
    fast = run_fake(strategy, engine=ByArrival(), acceleration=ALL)
    assert [r.text for r in plain.values()] != [r.text for r in fast.values()]


@pytest.mark.slow
def test_with_a_budget_nothing_is_begun_early():
    """What is dropped would spend the funds that answers depend on."""
    budget = Budget(problem={"tokens": 300})
    plain, fast = (
        run_fake(shipped("beam_search"), engine=FakeEngine(capacity=64), budget=budget, acceleration=faster)
        for faster in (None, ALL)
    )
    assert all(result.usage.dropped == 0 for result in fast.values())
    assert any(result.stopped for result in plain.values())
    for name, result in plain.items():
        assert (result.answer, result.usage.decoded) == (fast[name].answer, fast[name].usage.decoded)


def test_candidates_are_scored_while_others_still_run():
    """The verifier hears of most candidates before the last one of their round has ended."""

    class Counting:
        aside = False

        def __init__(self, inner):
            self.inner, self.batches = inner, []

        def submit(self, *given):
            self.inner.submit(*given)

        def step(self):
            verdicts = self.inner.step()
            self.batches += [len(verdicts)] if verdicts else []
            return verdicts

        def cancel(self, ids):
            self.inner.cancel(ids)

        def close(self):
            self.inner.close()

    from ttsflow.testing import FakeVerifierPart

    batches = {}
    for eager in (False, True):
        verifier = Counting(FakeVerifierPart().open())
        run_fake(
            shipped("best_of_n"),
            verifier=verifier,
            acceleration=Acceleration(eager_verify=eager),
            concurrency=1,
        )
        batches[eager] = verifier.batches
    assert batches[False] == [8] * 8
    assert sum(batches[True]) == 64
    # Halves: as many calls as a binary logarithm, not one for each.
    assert 8 * 2 <= len(batches[True]) <= 8 * 5


@pytest.mark.slow
@pytest.mark.parametrize("n", [8, 16])
def test_speculation_saves_a_sixth_of_the_time_on_a_simulated_card(n):
    def seconds(**more):
        pipeline = Pipeline(
            "beam_search",
            engine={"use": "sim", "memory_share": 0.22, **more},
            task={"use": "simulated", "size": 8},
            verifier={"use": "simulated", "model": "math-shepherd-7b", "memory_share": 0.68},
            hardware="rtx4090",
            n=n,
            concurrency=1,
        )
        run = pipeline.run()
        told = [(r.answer, r.text, r.usage.output, r.usage.serial) for r in run.results]
        return run.summary.usage["wall_seconds"], told

    plain, fast = seconds(), seconds(speculation=True, eager_verify=True)
    assert fast[1] == plain[1]
    assert fast[0] <= 0.85 * plain[0]
    assert seconds(speculation=True, eager_verify=True) == fast


@pytest.mark.parametrize(
    "verifier",
    [
        {"together": True},
        {"together": True, "prefix_cache": True},
        {"offload": "kv", "kv_gib": 2.0},
        {"prefix_cache": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [8, pytest.param(32, marks=pytest.mark.slow)])
def test_work_begun_early_never_keeps_a_verifier_from_its_turn(verifier, n):
    """It runs on when the driver has nothing else to wait for than scores."""

    def run(**more):
        engine = {"use": "sim", "memory_share": 0.22, "seats": 12, **more}
        if "offload" in verifier:
            engine |= {"kv_gib": 2.0}
        pipeline = Pipeline(
            "beam_search",
            engine=engine,
            task={"use": "simulated", "size": 3},
            verifier={"use": "simulated", "model": "math-shepherd-7b", "memory_share": 0.68, **verifier},
            hardware="rtx4090",
            n=n,
            concurrency=2,
        )
        return [(r.answer, r.text, r.usage.output, r.usage.serial) for r in pipeline.run().results]

    assert run(speculation=True, eager_verify=True, prefix_order=True) == run()


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_the_published_way_shares_what_siblings_begin_with_and_books_it_once(name):
    shared = Acceleration(speculation=Speculation(mode="shared", curve=False))
    plain, _, _ = play(shipped(name), size=6)
    results, trace, engine = play(shipped(name), Schedule(1, 64, 0.0, 1, 0, shared), size=6)
    usage = [result.usage for result in results.values()]
    assert sum(one.reused for one in usage) > 0
    assert sum(one.decoded for one in usage) == engine.decoded
    new = sum(data["tokens_new"] for data in trace.of("candidate"))
    assert new == sum(one.output + one.aborted + one.reused for one in usage)
    # Biased: what is sampled is something else.
    assert [r.text for r in results.values()] != [plain[name].text for name in results]


def test_the_published_way_has_a_fingerprint_of_its_own():
    def fingerprint(speculation):
        engine = {"use": "fake", "speculation": speculation}
        return Pipeline("beam_search", engine=engine, verifier="fake", task="simulated").setup.fingerprint

    assert fingerprint(True) == fingerprint(False) == fingerprint({"depth": 3})
    assert fingerprint({"mode": "shared"}) not in {
        fingerprint(True),
        fingerprint({"mode": "shared", "depth": 1}),
    }


@pytest.mark.slow
def test_the_simulator_goes_on_behind_a_part_of_a_step():
    pipeline = Pipeline(
        "beam_search",
        engine={"use": "sim", "speculation": {"mode": "shared"}, "check_exact": 0.5},
        task={"use": "simulated", "size": 4},
        verifier="simulated",
        n=8,
        concurrency=1,
    )
    run = pipeline.run()
    assert all(result.outcome == "answered" for result in run.results)
    usage = run.summary.usage
    assert usage["reused_tokens"] > 0
    assert usage["decoded_tokens"] == usage["output_tokens"] + usage["dropped_tokens"]
    assert run.summary.exact["differ"]


def checked(budget, strategy="beam_search", size=8, **engine):
    """Return the summary of a simulated run that is compared with the plain engine problem by problem."""
    pipeline = Pipeline(
        strategy,
        engine={"use": "sim", "prefix_order": True, "check_exact": 1.0, **engine},
        task={"use": "simulated", "size": size},
        verifier="simulated",
        budget=budget,
        concurrency=2,
        **({"n": 8} if isinstance(strategy, str) else {}),
    )
    run = pipeline.run()
    return run.summary, run.results


@pytest.mark.parametrize(("strategy", "end"), [("beam_search", "truncated"), ("majority", "deferred")])
@pytest.mark.slow
def test_problems_that_the_budget_of_the_run_ended_are_left_out_of_the_comparison(strategy, end):
    _, free = checked(None, strategy)
    limit = 0.6 * sum(result.usage.decoded for result in free)
    summary, results = checked({"run": {"tokens": limit}}, strategy)
    ended = [r for r in results if r.stopped and r.stopped.startswith(("budget", "funds"))]
    assert 2 < len(ended) < len(results)
    assert end in {result.outcome for result in ended}
    assert summary.exact == {"checked": 8 - len(ended), "differ": [], "skipped": len(ended)}
    assert checked(None, strategy)[0].exact == {"checked": 8, "differ": [], "skipped": 0}


@pytest.mark.slow
def test_a_stage_that_took_a_cheaper_way_is_left_out_though_nothing_says_that_it_did():
    cheaper = {
        "use": "sequence",
        "stages": {
            "few": {"use": "generate", "n": 2},
            "funds": {
                "use": "budget_check",
                "reserve": 0.4,
                "otherwise": {"use": "select", "keep": 1, "by": "order"},
            },
            "more": {"use": "generate", "n": 2},
            "vote": {"use": "aggregate"},
        },
    }
    _, free = checked(None, cheaper)
    summary, results = checked({"run": {"tokens": 1.2 * sum(r.usage.decoded for r in free)}}, cheaper)
    assert not any(result.stopped for result in results)
    changed = [one.id for one, other in zip(results, free, strict=True) if one.text != other.text]
    cheap = [result.id for result in results if result.candidates == 3]
    assert cheap
    assert set(changed) <= set(cheap)
    assert summary.exact == {"checked": 8 - len(cheap), "differ": [], "skipped": len(cheap)}


class Slowing(FakeEngine):
    """An engine that takes ten times as long from the 65th request on."""

    submitted, seconds = 0, 0.0

    def submit(self, request):
        self.submitted += 1
        super().submit(request)

    def step(self):
        self.seconds += 1 if self.submitted <= 64 else 10
        return super().step()

    def now(self):
        return self.seconds


@dataclass(frozen=True)
class SlowingPart(FakeEnginePart):
    def open(self):
        return Slowing()


def test_a_limit_in_seconds_that_only_the_plain_engine_reaches_is_no_difference(monkeypatch):
    monkeypatch.setattr(warm, "_held", [])
    made = Pipeline(
        "majority",
        engine={"use": "fake", "check_exact": 1.0},
        task={"use": "simulated", "size": 8},
        budget={"problem": {"seconds": 300.0}},
        n=8,
    ).setup
    with Session(replace(made, engine=SlowingPart())) as session:
        results = list(session.run(made.task.problems()))
    assert not any(result.stopped for result in results)
    assert session.exact["differ"] == []
    assert session.exact["skipped"] > 0
    assert session.exact["checked"] + session.exact["skipped"] == 8


@pytest.mark.slow
def test_the_cache_of_a_verifier_is_switched_from_here():
    def verifier(named, **engine):
        return Pipeline(
            "beam_search",
            engine={"use": "sim", "memory_share": 0.5, **engine},
            verifier=named,
            task="simulated",
        ).setup.verifier

    model = {"use": "simulated", "model": "skywork-prm-1.5b", "memory_share": 0.4}
    assert verifier(model, verifier_cache=True).prefix_cache
    assert not verifier({**model, "prefix_cache": True}, verifier_cache=False).prefix_cache
    assert verifier({**model, "prefix_cache": True}).prefix_cache
    with pytest.raises(ConfigError, match=r"engine\.verifier_cache: the verifier of this run has no model"):
        verifier("random", verifier_cache=True)


def test_settings_are_those_of_the_engine_and_change_no_fingerprint():
    def setup(**more):
        return Pipeline(
            "beam_search", engine={"use": "fake", **more}, verifier="fake", task="simulated"
        ).setup

    assert setup().acceleration == Acceleration()
    wanted = setup(speculation={"depth": 3}, prefix_order=True)
    assert wanted.acceleration == Acceleration(prefix_order=True, speculation=Speculation(depth=3))
    assert wanted.fingerprint == setup().fingerprint
    assert setup(speculation=True).acceleration.speculates == Speculation()
    assert replace(wanted.acceleration, speculation=False).speculates is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"speculation": {"depth": 5}}, "engine.speculation.depth: between 1 and 4 rounds ahead, got 5."),
        ({"speculation": {"tiers": 0}}, "engine.speculation.tiers: at least one tier is needed, got 0."),
        ({"speculation": {"keep_ratio": 0.5}}, "engine.speculation.keep_ratio: only `mode: shared` reads it"),
        ({"speculation": {"mode": "shared", "keep_ratio": 1.0}}, "engine.speculation.keep_ratio: a share"),
        ({"speculation": {"dept": 2}}, "engine.speculation.dept: .*Did you mean 'depth'"),
        ({"prefix_order": "yes"}, "engine.prefix_order: "),
        ({"prefix_orders": True}, "engine.prefix_orders: "),
    ],
)
def test_mistakes_are_told(given, said):
    with pytest.raises(ConfigError, match=said):
        Pipeline("majority", engine={"use": "fake", **given})
