"""What is counted, exactly: decoded, serial, requests, engine steps, paths."""

import pytest

from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Each, Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.watches import FirstFinished
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import Sampling

SAMPLING = Sampling(max_tokens=60, max_step_tokens=16)


def lengths_of(tools, n, problems=None, sampling=SAMPLING):
    """Return problem -> [(length, valid) in sample order] when nothing is ended early."""
    trace = tools.Watcher()
    run_fake(tools.trees.majority(n), problems, trace=trace, sampling=sampling)
    found = {}
    for problem, data in sorted(trace.of("candidate"), key=lambda item: item[1]["path"]):
        valid = data["finish"] == "stop" and "answer" in data
        found.setdefault(problem, []).append((data["tokens"], valid))
    return found


@pytest.mark.parametrize("k", [1, 3, 8])
def test_first_finish_counts_every_trace_up_to_the_cut(k, tools):
    lengths = lengths_of(tools, 8)
    results = run_fake(tools.trees.ffs(8, k), engine=FakeEngine(capacity=64), sampling=SAMPLING)
    for name, result in results.items():
        valid = sorted(length for length, ok in lengths[name] if ok)
        cut = valid[k - 1] if len(valid) >= k else max(length for length, _ in lengths[name])
        assert result.usage.decoded == sum(min(length, cut) for length, _ in lengths[name])
        assert result.usage.serial == cut
        assert result.usage.output + result.usage.aborted == result.usage.decoded


@pytest.mark.slow
def test_with_few_seats_first_finish_decodes_more_but_has_the_same_voters_and_serial_tokens(tools):
    runs = {
        seats: run_fake(
            tools.trees.ffs(16, 4), engine=FakeEngine(capacity=seats), concurrency=1, sampling=SAMPLING
        )
        for seats in (2, 5, 64)
    }
    for seats in (2, 5):
        assert tools.key(runs[seats]) == tools.key(runs[64])
        for name, result in runs[seats].items():
            assert result.usage.serial == runs[64][name].usage.serial
            assert result.usage.decoded >= runs[64][name].usage.decoded


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(3, 1), (16, 4)])
def test_the_recorded_reason_names_the_final_cut_for_any_number_of_seats(n, k, tools):
    problems = FakeTask(size=40).problems()
    for seats in (2, 5, 64):
        results = run_fake(tools.trees.ffs(n, k), problems, engine=FakeEngine(capacity=seats), concurrency=1)
        stopped = [result for result in results.values() if result.stopped is not None]
        assert stopped
        for result in stopped:
            assert result.stopped == f"first {k} finished after {result.usage.serial} tokens"


def test_exactly_k_vote_even_when_lengths_are_equal(tools):
    trace = tools.Watcher()
    results = run_fake(tools.trees.ffs(16, 4), trace=trace)
    lengths = lengths_of(tools, 16)
    assert any(
        sorted(n for n, ok in found if ok)[3] == sorted(n for n, ok in found if ok)[4]
        for found in lengths.values()
    ), "no tie at the border, so that this test shows nothing"
    for problem, data in trace.of("aggregate"):
        assert sum(data["weights"].values()) == 4
        ranked = sorted((n, i) for i, (n, ok) in enumerate(lengths[problem]) if ok)[:4]
        kept = next(found["kept"] for name, found in trace.of("select") if name == problem)
        assert kept == [(i,) for _, i in ranked]
    assert all(result.candidates == 4 for result in results.values())


def test_refill_launches_what_is_missing_and_no_more(tools):
    lengths = lengths_of(tools, 10, sampling=Sampling(max_tokens=14))
    trace = tools.Watcher()
    results = run_fake(
        tools.trees.ffs(4, 4, refill=6), sampling=Sampling(max_tokens=14), trace=trace, concurrency=1
    )
    launched = {}
    for problem, data in trace.of("candidate"):
        launched[problem] = max(launched.get(problem, 0), data["path"][0] + 1)
    assert set(launched.values()) != {4}
    for name in results:
        want, n = lengths[name], 4
        while (missing := 4 - sum(ok for _, ok in want[:n])) > 0 and n < 10:
            n = min(10, n + missing)
        assert launched[name] == n == results[name].usage.requests


def test_serial_tokens_of_majority_are_its_longest_trace(tools):
    lengths = lengths_of(tools, 6)
    for name, result in run_fake(tools.trees.majority(6), sampling=SAMPLING).items():
        assert result.usage.serial == max(length for length, _ in lengths[name])
        assert result.usage.decoded == sum(length for length, _ in lengths[name])


def test_serial_tokens_add_up_along_a_sequence_and_a_loop(tools):
    lengths = lengths_of(tools, 6)
    pair = Sequence({"a": GenerateStage(2), "b": GenerateStage(4), "vote": Aggregate()})
    loop = Sequence({"r": Repeat({"s": GenerateStage(2)}, at_most=3), "vote": Aggregate()})
    for strategy, parts in ((pair, [(0, 2), (2, 6)]), (loop, [(0, 2), (2, 4), (4, 6)])):
        for name, result in run_fake(strategy, sampling=SAMPLING).items():
            longest = [max(length for length, _ in lengths[name][a:b]) for a, b in parts]
            assert result.usage.serial == sum(longest)


def test_serial_tokens_of_branches_are_those_of_the_slowest(tools):
    trace = tools.Watcher()
    strategy = Sequence(
        {
            "roots": GenerateStage(3, unit="step"),
            "each": Each({"r": Repeat({"step": GenerateStage(1, unit="step")}, at_most=3)}),
            "more": GenerateStage(1),
            "vote": Aggregate(),
        }
    )
    results = run_fake(strategy, sampling=SAMPLING, trace=trace)
    for name, result in results.items():
        new = {data["path"]: data["tokens_new"] for problem, data in trace.of("candidate") if problem == name}
        (last,) = [path for path in new if path == (3,)]
        roots = [path for path in new if len(path) == 1 and path != last]
        below = [sum(new[path] for path in new if len(path) > 1 and path[:1] == root) for root in roots]
        assert result.usage.serial == max(new[root] for root in roots) + max(below) + new[last]


@pytest.mark.slow
def test_a_straggler_does_not_delay_another_problem(tools):
    strategy = tools.trees.beam()
    alone = run_fake(strategy, engine=FakeEngine(capacity=4096), concurrency=1)
    together = run_fake(strategy, engine=FakeEngine(capacity=4096), concurrency=8)
    steps = {name: result.usage.engine_steps for name, result in alone.items()}
    assert len(set(steps.values())) > 1
    assert {name: result.usage.engine_steps for name, result in together.items()} == steps


def test_requests_and_prompt_tokens_are_counted_per_request(tools):
    task = FakeTask(size=2)
    engine = FakeEngine()
    for problem, result in zip(
        task.problems(), run_fake(tools.trees.majority(5), task=task).values(), strict=True
    ):
        assert result.usage.requests == 5
        assert result.usage.prompt == 5 * len(engine.encode(problem.prompt))


def test_tokens_that_beams_share_count_once_as_path(tools):
    trace = tools.Watcher()
    results = run_fake(tools.trees.beam(), trace=trace, sampling=SAMPLING)
    for name, result in results.items():
        of_problem = [data for problem, data in trace.of("candidate") if problem == name]
        new = {data["path"]: data["tokens_new"] for data in of_problem}
        assert sum(new.values()) == result.usage.decoded
        finished = [data["path"] for data in of_problem if data["finish"] == "stop"]
        nodes = {path[:depth] for path in finished for depth in range(1, len(path) + 1)}
        assert result.path_tokens == sum(new[node] for node in nodes) <= result.usage.decoded


def test_a_watch_that_wants_the_whole_rest_ended(tools):
    class Enough:
        def begin(self, size):
            from ttsflow.ops import Decision

            return lambda traces, changed: (
                Decision(done=True, launch=5, reason="enough")
                if any(trace.candidate for trace in traces)
                else None
            )

    engine = FakeEngine(capacity=64)
    strategy = Sequence({"s": GenerateStage(8, watch=Enough()), "vote": Aggregate()})
    results = run_fake(strategy, engine=engine)
    assert tools.decoded(results) == engine.decoded
    assert all(r.usage.requests == 8 and r.stopped == "enough" and r.usage.aborted for r in results.values())


def test_a_watch_never_sees_another_operation():
    seen = []

    class Counts(FirstFinished):
        def begin(self, size):
            observe = super().begin(size)

            def look(traces, changed):
                seen.append((size, len(traces), tuple(changed)))
                return observe(traces, changed)

            return look

    run_fake(Sequence({"s": GenerateStage(3, watch=Counts(2)), "vote": Aggregate()}))
    assert seen
    assert all(size == count == 3 and list(news) == sorted(set(news)) for size, count, news in seen)
    assert all(0 <= index < 3 for _, _, news in seen for index in news)
