"""The shipped sampling strategies as a whole, on the fake engine."""

import itertools
import math
from collections import Counter
from functools import cache

import pytest

from ttsflow import Pipeline, config, plugins
from ttsflow.build import build
from ttsflow.confidence import group_means, token_confidence
from ttsflow.errors import ConfigError
from ttsflow.ledger import Budget
from ttsflow.strategies.confidence import quantile
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.recipe import Recipe
from ttsflow.strategies.stability import chance_of_lead
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import Answer, Sampling
from ttsflow.verifiers.batch import Batched

SAMPLING = Sampling(max_tokens=60)
READS = {"logprobs": 20, "certainty": True}


@cache
def shipped(name, **settings):
    """Return a strategy of the config groups, built."""
    return build("stage", config.strategy(name, settings), "strategy", plugins.load())


class Sees:
    """A stage that changes nothing and keeps the pools it has seen, by problem."""

    def __init__(self):
        self.pools = {}

    def __call__(self, state):
        self.pools[state.problem.id] = state.pool
        return state


def before(strategy, name):
    """Return a strategy with a stage that sees the pool before the stage ``name``, and that stage."""
    sees = Sees()
    items = (
        (key, (sees, stage)) if key == name else (key, (stage,)) for key, stage in strategy.stages.items()
    )
    return Sequence({f"{key}{i}": stage for key, stages in items for i, stage in enumerate(stages)}), sees


class FewAnswers(FakeTask):
    """The answers 0 to 2 are one answer, so that votes agree now and then."""

    def answer(self, text, problem):
        found = super().answer(text, problem)
        return found and Answer(found.text, "low" if found.key in "012" else found.key)


def samples_of(tools, n, task, sampling=SAMPLING):
    """Return problem -> [answer or None in sample order] of ``n`` samples, nothing ended early."""
    trace = tools.Watcher()
    run_fake(tools.trees.majority(n), task=task, trace=trace, sampling=sampling)
    found = {}
    for problem, data in sorted(trace.of("candidate"), key=lambda item: item[1]["path"]):
        found.setdefault(problem, []).append(data.get("answer"))
    return found


def plurality(answers):
    votes = Counter(answer for answer in answers if answer is not None)
    return next((a for a in answers if votes and votes[a] == max(votes.values())), None)


STRATEGIES = {
    "lfs": {"n": 6, "k": 2, "least_tokens": 5},
    "short_m_at_k": {"n": 6, "m": 2, "marker": "\n"},
    "cisc": {"n": 6},
    "self_certainty": {"n": 6},
    "adaptive_consistency": {"n": 8, "threshold": 0.9, "batch": 2},
    "esc": {"n": 9, "window": 2},
    "deepconf": {"n": 6, "group": 4},
    "deepconf_online": {"n": 10, "warmup": 4, "consensus": 1.0, "keep": 0.5, "group": 4},
    "dynasor": {"n": 2, "chunk": 3, "window": 1, "probe_tokens": 4},
    "weighted_best_of_n": {"n": 6},
    "recipe": {"n": 6, "objective": "latency"},
}
SCHEDULES = list(itertools.product((2, 64), (1, 8), (0.0, 0.3)))


@pytest.mark.parametrize("name", [*STRATEGIES, "article"])
def test_the_schedule_changes_no_result_and_every_token_is_booked(name, tools):
    strategy = Recipe(6, "article", probes=2) if name == "article" else shipped(name, **STRATEGIES[name])
    problems = FakeTask(size=4).problems()
    found = []
    for number, (seats, concurrency, preempt) in enumerate(SCHEDULES):
        engine = FakeEngine(capacity=seats, preempt=preempt, schedule_seed=number)
        order = problems[:: -1 if number % 2 else 1]
        results = run_fake(
            strategy, order, engine=engine, concurrency=concurrency, sampling=SAMPLING, seed=5, **READS
        )
        assert tools.decoded(results) == engine.decoded
        assert all(r.usage.output + r.usage.aborted == r.usage.decoded for r in results.values())
        found.append(tools.key(results) + [results[name].usage.serial for name in sorted(results)])
    assert len({repr(key) for key in found}) == 1
    assert any(result[2] == "answered" for result in found[0][:4])


@pytest.mark.parametrize("n", [1, 5])
def test_the_last_the_first_and_all_of_n_finishes_are_one_strategy(n, tools):
    task, sampling = FakeTask(size=12), Sampling(max_tokens=20)
    runs = [
        run_fake(strategy, task=task, sampling=sampling)
        for strategy in (shipped("majority", n=n), shipped("lfs", n=n, k=n), shipped("ffs", n=n, k=n))
    ]
    answers = [{name: (r.answer, r.outcome == "answered") for name, r in run.items()} for run in runs]
    assert answers[0] == answers[1] == answers[2]
    assert tools.decoded(runs[0]) == tools.decoded(runs[1])


@pytest.mark.parametrize(("name", "settings"), [("lfs", {"n": 6, "k": 3}), ("ffs", {"n": 6, "k": 3})])
def test_exactly_k_vote(name, settings, tools):
    trace = tools.Watcher()
    results = run_fake(shipped(name, **settings), trace=trace)
    assert {sum(data["weights"].values()) for _, data in trace.of("aggregate")} == {3}
    assert {result.candidates for result in results.values()} == {3}


def test_last_finish_takes_the_longest_and_costs_all(tools):
    trace = tools.Watcher()
    results = run_fake(shipped("lfs", n=6, k=2), trace=trace)
    kept = dict(trace.of("select"))
    for name, result in results.items():
        lengths = {d["path"]: d["tokens"] for p, d in trace.of("candidate") if p == name}
        assert kept[name]["kept"] == sorted(lengths, key=lambda path: (-lengths[path], path))[:2]
        assert result.usage.decoded == sum(lengths.values())
        assert result.usage.serial == max(lengths.values())


def test_last_finish_may_end_what_cannot_be_among_the_longest(tools):
    watch = {"use": "last_finished", "k": 1, "predictor": {"use": "thinking_ended", "marker": "Answer: "}}
    whole, early = (
        run_fake(
            build("stage", config.strategy("lfs", {"n": 6, "k": 1, "watch": w}), "strategy", plugins.load())
        )
        for w in (None, watch)
    )
    assert tools.decoded(early) < tools.decoded(whole)
    # A sample ends one token after its marker, so the prediction is nearly exact.
    assert [r.answer for r in early.values()] == [r.answer for r in whole.values()]
    assert any(r.stopped and "others will have at least" in r.stopped for r in early.values())


def test_the_shortest_thinking_writes_its_answer(tools):
    trace = tools.Watcher()
    results = run_fake(
        shipped("short_m_at_k", n=6, m=1, marker="\n"), engine=FakeEngine(capacity=64), trace=trace
    )
    whole = tools.Watcher()
    run_fake(tools.trees.majority(6), trace=whole)
    for name, result in results.items():
        texts = {d["path"]: d["text"] for p, d in whole.of("candidate") if p == name}
        tokens = {d["path"]: d["tokens"] for p, d in whole.of("candidate") if p == name}
        # A line of digits has one token per character.
        thinking = {p: t.index("\n") + 1 if "\n" in t else tokens[p] for p, t in texts.items()}
        (chosen,) = dict(trace.of("select"))[name]["kept"]
        assert chosen == min(thinking, key=lambda path: (thinking[path], path))
        assert result.text == texts[chosen]
        assert result.usage.serial == tokens[chosen]
        cut = thinking[chosen]
        others = sum(min(tokens[path], cut) for path in tokens if path != chosen)
        assert result.usage.decoded == tokens[chosen] + others


def adaptive(answers, threshold, n):
    """Return how many of the samples Adaptive-Consistency draws."""
    for drawn in range(1, n + 1):
        first, second = [*sorted(Counter(a for a in answers[:drawn] if a).values(), reverse=True), 0, 0][:2]
        if first > second and chance_of_lead(first, second) >= threshold:
            return drawn
    return n


def test_adaptive_consistency_draws_until_the_lead_is_settled(tools):
    task = FewAnswers(size=12)
    samples = samples_of(tools, 20, task)
    results = run_fake(shipped("adaptive_consistency", n=20), task=task, sampling=SAMPLING)
    drawn = {name: adaptive(samples[name], 0.95, 20) for name in results}
    assert {name: r.usage.requests for name, r in results.items()} == drawn
    assert len(set(drawn.values())) > 3
    for name, result in results.items():
        assert result.answer is not None
        key = "low" if result.answer in "012" else result.answer
        assert key == plurality(samples[name][: drawn[name]])
        assert (result.stopped is None) == (drawn[name] == 20) or result.stopped.startswith("beta: ")


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 11])
def test_early_stopping_takes_the_answer_of_the_window_that_agrees(n, tools):
    task, sampling = FewAnswers(size=60), Sampling(max_tokens=20)
    samples = samples_of(tools, n, task, sampling)
    results = run_fake(shipped("esc", n=n, window=3), task=task, sampling=sampling)
    against = invalid = never = 0
    for name, result in results.items():
        answers = samples[name]
        whole = [(end, answers[end - 3 : end]) for end in range(3, n + 1, 3)]
        agreed = next(((end, w[0]) for end, w in whole if w[0] and len(set(w)) == 1), None)
        end, expected = agreed or (n, plurality(answers))
        assert result.usage.requests == end
        assert result.answer is None or ("low" if result.answer in "012" else result.answer) == expected
        against += agreed is not None and expected != plurality(answers[:end])
        invalid += any(None in w and len(set(w)) == 2 for _, w in whole)
        never += agreed is None
    assert invalid
    assert never
    assert n == 11 or against, "no window agrees on another answer than the plurality: this shows nothing"


def test_cisc_weighs_by_the_softmax_of_the_mean_confidence(tools):
    strategy, sees = before(shipped("cisc", n=6, temperature=2.0), "answer")
    trace = tools.Watcher()
    run_fake(strategy, trace=trace, sampling=Sampling(max_tokens=20), **READS)
    for name, data in trace.of("aggregate"):
        voters = [c for c in sees.pools[name] if c.finished and c.answer]
        means = [sum(token_confidence(e, 20) for e in c.logprobs) / len(c.logprobs) for c in voters]
        total = sum(math.exp(mean / 2) for mean in means)
        expected = Counter()
        for candidate, mean in zip(voters, means, strict=True):
            expected[candidate.answer.key] += math.exp(mean / 2) / total
        assert data["weights"] == pytest.approx(dict(expected))
    assert any(c.finish == "length" for pool in sees.pools.values() for c in pool)


def test_self_certainty_ranks_by_the_certainty_of_the_whole_distribution(tools):
    strategy, sees = before(shipped("self_certainty", n=6, power=1.5), "answer")
    trace = tools.Watcher()
    run_fake(strategy, trace=trace, sampling=SAMPLING, **READS)
    for name, data in trace.of("aggregate"):
        voters = [c for c in sees.pools[name] if c.finished and c.answer]
        ranked = sorted(voters, key=lambda c: -sum(c.certainties) / len(c.certainties))
        expected = Counter()
        for rank, candidate in enumerate(ranked, 1):
            assert len(candidate.certainties) == len(candidate.tokens)
            expected[candidate.answer.key] += (len(voters) - rank + 1) ** 1.5
        assert data["weights"] == pytest.approx(dict(expected))


def test_weighted_best_of_n_takes_logits(tools):
    logits = Batched(lambda batch: [[len(candidate.tokens) - 12.0] for _, candidate in batch])
    strategy, sees = before(shipped("weighted_best_of_n", n=6), "answer")
    trace = tools.Watcher()
    run_fake(strategy, verifier=logits, trace=trace)
    for name, data in trace.of("aggregate"):
        expected = Counter()
        for candidate in sees.pools[name]:
            expected[candidate.answer.key] += 1 / (1 + math.exp(12.0 - len(candidate.tokens)))
        assert data["weights"] == pytest.approx(dict(expected))


def test_by_arrival_the_first_k_that_arrive_vote(tools):
    watch = {"use": "first_finished", "k": 2, "order": "arrival"}
    mapping = config.strategy("ffs", {"n": 8, "k": 2})
    mapping["stages"]["sample"]["watch"] = watch
    strategy = build("stage", mapping, "strategy", plugins.load())
    for seats in (1, 64):
        trace, engine = tools.Watcher(), FakeEngine(capacity=seats)
        results = run_fake(strategy, engine=engine, concurrency=1, trace=trace)
        assert tools.decoded(results) == engine.decoded
        assert {result.candidates for result in results.values()} == {2}
        if seats == 1:
            assert {tuple(sorted(data["kept"])) for _, data in trace.of("select")} == {((0,), (1,))}
            assert all(result.usage.aborted == 0 for result in results.values())


def lowest(candidate, group):
    return min(group_means([token_confidence(e, 20) for e in candidate.logprobs], group))


def test_deepconf_lets_the_most_confident_vote(tools):
    strategy, sees = before(shipped("deepconf", n=7, keep=0.5, group=3), "keep")
    trace = tools.Watcher()
    run_fake(strategy, trace=trace, sampling=Sampling(max_tokens=20), **READS)
    for name, data in trace.of("aggregate"):
        voters = [c for c in sees.pools[name] if c.finished and c.answer]
        kept = sorted(voters, key=lambda c: -lowest(c, 3))[: math.ceil(len(voters) / 2)]
        expected = Counter()
        for candidate in kept:
            expected[candidate.answer.key] += lowest(candidate, 3)
        assert data["weights"] == pytest.approx(dict(expected))


def test_deepconf_online_ends_what_falls_below_the_threshold_of_the_warm_up(tools):
    settings = {"n": 12, "warmup": 5, "keep": 0.4, "group": 3, "consensus": 1.0}
    strategy, sees = before(shipped("deepconf_online", **settings), "answer")
    trace = tools.Watcher()
    results = run_fake(strategy, trace=trace, sampling=SAMPLING, **READS)
    aborted = 0
    for name, data in trace.of("aggregate"):
        pool = sees.pools[name]
        warmup, rest = pool[:5], pool[5:]
        least = quantile([lowest(c, 3) for c in warmup], 0.6)
        expected = Counter()
        for candidate in pool:
            confidences = [token_confidence(e, 20) for e in candidate.logprobs]
            full = group_means(confidences, 3) if len(confidences) >= 3 else []
            if candidate in rest and candidate.finish == "aborted":
                aborted += 1
                assert full[-1] < least <= min([*full[:-1], math.inf])
            elif candidate in rest:
                assert all(mean >= least for mean in full[:-1])
                expected[candidate.answer.key] += lowest(candidate, 3)
            elif lowest(candidate, 3) >= least:
                expected[candidate.answer.key] += lowest(candidate, 3)
        assert len(pool) == 12 or results[name].stopped.startswith("agreed")
        assert data["weights"] == pytest.approx(dict(expected))
    assert aborted


def test_deepconf_online_stops_when_one_answer_leads(tools):
    strategy = shipped("deepconf_online", n=12, warmup=4, keep=1.0, consensus=0.5, group=3)
    results = run_fake(strategy, task=FewAnswers(size=12), sampling=SAMPLING, **READS)
    reasons = Counter((r.stopped or "").partition(":")[0].partition(" has ")[0] for r in results.values())
    assert reasons["agreed"]
    assert reasons["one answer"]
    warm_enough = [r for r in results.values() if r.stopped and r.stopped.startswith("agreed")]
    assert {r.usage.requests for r in warm_enough} == {4}


def test_the_warm_up_is_part_of_the_samples():
    results = run_fake(shipped("deepconf_online", n=3, warmup=16, group=3), **READS)
    assert {r.usage.requests for r in results.values()} == {3}


# --- dynasor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "window"), [(1, 1), (3, 1), (2, 2)])
def test_a_trajectory_ends_once_its_probes_agree_and_probe_tokens_count(n, window, tools):
    trace = tools.Watcher()
    engine = FakeEngine()
    strategy, sees = before(shipped("dynasor", n=n, chunk=2, window=window, probe_tokens=3), "answer")
    results = run_fake(strategy, FakeTask(size=12).problems(), engine=engine, trace=trace)
    assert tools.decoded(results) == engine.decoded
    exits = 0
    for name, result in results.items():
        events = [data for problem, data in trace.of("candidate") if problem == name]
        assert result.usage.decoded == sum(data["tokens_new"] for data in events)
        assert result.usage.requests == len(events)
        said = {}
        for problem, data in trace.of("probe"):
            if problem == name:
                for item in data["answers"]:
                    said.setdefault(item["path"][0], []).append(item["answer"])
        assert result.candidates == len(sees.pools[name]) == n
        for candidate in sees.pools[name]:
            heard = said.get(candidate.path[0], [])
            agreed = [
                end
                for end in range(window, len(heard) + 1)
                if heard[end - 1] and len(set(heard[end - window : end])) == 1
            ]
            early = candidate.reason == f"the last {window} probes agree"
            exits += early
            assert agreed == ([len(heard)] if early else [])
            if early:
                assert candidate.answer.key == heard[-1]
                assert len(candidate.tokens) == 2 * len(heard)
            # Chunks are numbered behind the probe of their parent: no probe is ever continued.
            assert set(candidate.path[1:]) <= {candidate.path[0] + n}
    assert exits


def test_probes_are_in_series_with_what_they_probe(tools):
    trace = tools.Watcher()
    results = run_fake(shipped("dynasor", n=1, chunk=2, window=9, probe_tokens=3), trace=trace)
    for name, result in results.items():
        assert result.usage.serial == sum(d["tokens_new"] for p, d in trace.of("candidate") if p == name)
        assert result.stopped is None


def test_the_last_chunk_runs_to_the_end():
    results = run_fake(shipped("dynasor", n=1, chunk=1, window=9, probe_tokens=1, most_chunks=2))
    assert {r.outcome for r in results.values()} == {"answered"}
    assert {r.usage.requests for r in results.values()} <= {1, 2, 3, 4, 5}


# --- what an engine must give, and budgets ---------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "engine", "path", "text"),
    [
        ("deepconf", {"logprobs": 0}, "strategy.stages.score", "needs 20 log-probabilities"),
        ("deepconf", {"logprobs": 19}, "strategy.stages.score", "gives 19"),
        ("deepconf_online", {"logprobs": 0}, "strategy.stages.first", "needs 20 log-probabilities"),
        ("cisc", {"logprobs": 0}, "strategy.stages.score", "gives none"),
        ("self_certainty", {"certainty": False}, "strategy.stages.score", "certainty of every token"),
    ],
)
def test_an_engine_that_says_too_little_is_refused_before_anything_runs(strategy, engine, path, text):
    with pytest.raises(ConfigError, match=text) as caught:
        Pipeline(strategy, engine={"use": "fake", **engine})
    assert caught.value.path == path


def test_a_watch_and_a_verifier_that_read_log_probabilities_are_refused_too():
    stages = {"s": {"use": "generate", "n": 2, "watch": {"use": "low_confidence"}}, "a": {"use": "aggregate"}}
    with pytest.raises(ConfigError, match="needs 20 log-probabilities") as caught:
        Pipeline({"use": "sequence", "stages": stages}, engine={"use": "fake", "logprobs": 0})
    assert caught.value.path == "strategy.stages.s.watch"


@pytest.mark.parametrize(
    "strategy", ["lfs", "short_m_at_k", "adaptive_consistency", "esc", "dynasor", "recipe", "self_certainty"]
)
def test_log_probabilities_are_asked_for_only_where_they_are_read(strategy):
    setup = Pipeline(strategy, engine={"use": "fake", "logprobs": 0}).setup
    assert setup.logprobs == 0
    assert setup.certainty == (strategy == "self_certainty")


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_budget_ends_every_strategy_with_its_reason(name, tools):
    engine = FakeEngine(capacity=64)
    results = run_fake(
        shipped(name, **STRATEGIES[name]), engine=engine, budget=Budget(problem={"tokens": 12}), **READS
    )
    assert tools.decoded(results) == engine.decoded
    reasons = [r.stopped for r in results.values()]
    assert "budget: 12 tokens per problem spent" in reasons
    assert all(r.outcome in {"answered", "truncated", "abstained"} for r in results.values())
    assert all(r.usage.decoded < 12 + 12 for r in results.values())
