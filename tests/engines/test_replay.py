import itertools
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.engines.recorded_paths import RecordedPaths, sample_number
from ttsflow.engines.replay import Replay
from ttsflow.engines.replay_live import ReplayEngine
from ttsflow.errors import ConfigError, DataError
from ttsflow.library import Library
from ttsflow.ops import EngineRequest
from ttsflow.pipeline import Pipeline
from ttsflow.protocols import Capabilities, Engine, EnginePart, Leaping
from ttsflow.recordings import Recording, Sample, write_recordings
from ttsflow.run import run_config
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.select import Select
from ttsflow.strategies.watches import FirstFinished
from ttsflow.tasks.recorded import Recorded
from ttsflow.testing import Heard, run_fake
from ttsflow.testing.contracts import EngineContract, decode_all
from ttsflow.types import Message, Problem, Sampling

ENDLESS = Sampling(max_tokens=1_000_000)
_ids = itertools.count()


def sample(tokens, answer="1", **fields):
    return Sample(answer, tokens, None, **{"finish": "stop", **fields})


def opened(*samples, gold="1", **settings):
    return of([Recording("q", samples, gold=gold)], **settings)


def of(recordings, **settings):
    library = Library("these samples", recordings)
    capabilities = Capabilities(library.logprobs, token_prompts=False, certainty=library.certainty)
    own = {name: settings.pop(name) for name in ("shuffle", "cut_votes", "current") if name in settings}
    return ReplayEngine(RecordedPaths(library, **own), capabilities, **settings)


def request(number=0, **changes):
    name = f"r{next(_ids)}"
    fields = {
        "prompt": (),
        "sampling": ENDLESS,
        "seed": 0,
        "max_tokens": 10**6,
        "problem": "q",
        "path": (number,),
    }
    return EngineRequest(**{"id": name, **fields, **changes})


def drain(engine):
    """Step until nothing is left; return (iterations, news) of every step."""
    steps = []
    while news := engine.step():
        steps.append((engine.advanced, news))
    return steps


TEXTS = ["".join(chr(97 + (number * 7 + place) % 26) for place in range(5 + number)) for number in range(30)]


class TestContract(EngineContract):
    """What does not fit: a replayed prompt has no text, and no prompt is as long as the context."""

    @pytest.fixture(params=[2, 64])
    def engine(self, request):
        samples = [
            sample(
                len(text),
                text=text,
                logprobs=tuple((-0.5 - place, -9.0, -10.0) for place in range(len(text))),
                certainties=tuple(map(float, range(len(text)))),
            )
            for text in TEXTS
        ]
        engine = opened(*samples, seats=request.param)
        yield engine
        engine.close()
        engine.close()

    def request(self, engine, *, seed=0, **changes):
        return super().request(engine, seed=seed, **{"problem": "q", "path": (seed,), **changes})

    def test_encode_decode(self, engine):
        tokens, _ = decode_all(engine, {"a": self.request(engine, seed=8, max_tokens=99)})["a"]
        assert engine.decode(tokens) == TEXTS[8]

    def test_no_room_is_length_not_an_error(self, engine):
        tokens, end = decode_all(engine, {"a": self.request(engine, max_tokens=0)})["a"]
        assert (tokens, end.finish) == ((), "length")


def test_it_keeps_the_protocols():
    assert isinstance(opened(sample(3)), Engine)
    assert isinstance(opened(sample(3)), Leaping)
    assert isinstance(Replay(), EnginePart)


# --- the virtual clock ----------------------------------------------------------------------------------


def test_it_jumps_from_end_to_end():
    engine = opened(sample(30), sample(10), sample(10), token_seconds=0.5)
    for number in range(3):
        engine.submit(request(number))
    steps = drain(engine)
    assert [advanced for advanced, _ in steps] == [10, 20]
    assert [[len(item.tokens) for item in news] for _, news in steps] == [[10, 10], [30]]
    assert engine.now() == 15.0


def test_a_leap_bounds_the_jump_and_streams_report_what_they_grew():
    engine = opened(sample(10), sample(25))
    quiet, loud = request(0), request(1, stream=True)
    engine.submit(quiet)
    engine.submit(loud)
    engine.leap = 4
    seen = [
        [(item.id == loud.id, len(item.tokens), item.finish) for item in news] for _, news in drain(engine)
    ]
    assert seen == [
        [(True, 4, None)],
        [(True, 4, None)],
        [(True, 2, None), (False, 10, "stop")],
        [(True, 4, None)],
        [(True, 4, None)],
        [(True, 4, None)],
        [(True, 3, "stop")],
    ]


def test_seats_go_by_priority_then_arrival():
    engine = opened(*(sample(5) for _ in range(5)), seats=2)
    requests = [request(number, priority=priority) for number, priority in enumerate([1, 1, 0, 1, 0])]
    for one in requests:
        engine.submit(one)
    order = [
        [requests.index(next(r for r in requests if r.id == i.id)) for i in news] for _, news in drain(engine)
    ]
    assert order == [[2, 4], [0, 1], [3]]


def test_a_freed_seat_is_taken_in_the_middle_of_things():
    engine = opened(sample(4), sample(10), sample(10), seats=2)
    requests = [request(number) for number in range(3)]
    for one in requests:
        engine.submit(one)
    assert [advanced for advanced, _ in drain(engine)] == [4, 6, 4]


def test_aborted_requests_free_their_seats_and_stay_silent():
    engine = opened(sample(5), sample(9), sample(9), seats=1)
    first, second, third = (request(number, stream=True) for number in range(3))
    for one in (first, second, third):
        engine.submit(one)
    engine.leap = 2
    assert [item.id for item in engine.step()] == [first.id]
    engine.abort([first.id, second.id, "unknown"])
    engine.leap = None
    [(advanced, [item])] = drain(engine)
    assert (advanced, item.id, item.finish) == (9, third.id, "stop")
    assert engine.step() == []
    assert engine.advanced == 0


def test_an_id_in_use_is_refused_and_one_that_ended_is_not():
    engine = opened(sample(5))
    engine.submit(request(id="a"))
    with pytest.raises(ValueError, match="in use"):
        engine.submit(request(id="a"))
    engine.abort(["a"])
    engine.submit(request(id="a"))
    assert len(drain(engine)) == 1
    engine.submit(request(id="a"))
    engine.reset()
    assert engine.step() == []
    assert engine.now() == 0


def test_a_sample_without_tokens_takes_an_iteration():
    engine = opened(sample(0, None), sample(3))
    engine.submit(request(0))
    engine.submit(request(1))
    assert [(advanced, [len(i.tokens) for i in news]) for advanced, news in drain(engine)] == [
        (1, [0]),
        (2, [3]),
    ]


# --- what is played -------------------------------------------------------------------------------------


def play(engine, number=0, **changes):
    return decode_all(engine, {"a": request(number, **changes)})["a"]


def test_tokens_say_which_sample_they_are_of():
    engine = of([Recording("p", (sample(2),)), Recording("q", (sample(2), sample(4, text="abcdefgh")))])
    for number, problem, path in ((0, "p", (0,)), (1, "q", (0,)), (2, "q", (1,))):
        tokens, _ = play(engine, problem=problem, path=path)
        assert {sample_number(token) for token in tokens} == {number}


def test_decoding():
    engine = opened(sample(4, text="abcdefghij"), sample(4, "7"), sample(4, None), sample(4, "7", text=""))
    texts = [play(engine, number)[0] for number in range(4)]
    assert [engine.decode(tokens) for tokens in texts] == ["abcdefghij", r"\boxed{7}", "", r"\boxed{7}"]
    assert [engine.decode(texts[0][:n]) for n in range(5)] == ["", "ab", "abcde", "abcdefg", "abcdefghij"]
    assert engine.decode(texts[1][:3]) == ""
    # Any run of tokens reads as its own part, so that a watch finds a marker at its place.
    assert "".join(engine.decode((token,)) for token in texts[0]) == "abcdefghij"


def test_a_lower_limit_cuts():
    engine = opened(sample(10), sample(10, finish="length"))
    assert [(len(t), end.finish) for t, end in (play(engine, max_tokens=most) for most in (9, 10, 11))] == [
        (9, "length"),
        (10, "stop"),
        (10, "stop"),
    ]
    assert play(engine, 1)[1].finish == "length"


def test_a_cut_sample_votes_only_when_told_so():
    samples = (sample(10, "5", finish="length"), sample(10, None, finish="length"))
    assert play(opened(*samples))[1].finish == "length"
    engine = opened(*samples, cut_votes=True)
    assert [play(engine, number)[1].finish for number in (0, 1)] == ["stop", "length"]
    assert play(engine, max_tokens=9)[1].finish == "length"


def test_a_stop_string_ends_a_text_that_holds_it():
    engine = opened(sample(5, text="aabbccddee"), sample(5))
    tokens, end = play(engine, stop=("dd", "bc"))
    assert (end.finish, end.stop, engine.decode(tokens)) == ("stop", "bc", "aabbcc")
    tokens, end = play(engine, stop=("dd", "bc"), max_tokens=2)
    assert (end.finish, end.stop, engine.decode(tokens)) == ("length", None, "aabb")
    assert play(engine, 1, stop=("1",))[1].stop is None


def test_values_per_token():
    engine = opened(sample(3, logprobs=((-1, -2), (-1, -3, -4), (-2, -3)), certainties=(1.0, 2.0, 3.0)))
    assert (engine.capabilities.logprobs, engine.capabilities.certainty) == (2, True)
    engine.submit(request(stream=True, logprobs=2, certainty=True))
    engine.leap = 2
    news = [item for _, items in drain(engine) for item in items]
    assert [item.logprobs for item in news] == [({0: -1, 1: -2}, {0: -1, 1: -3}), ({0: -2, 1: -3},)]
    assert [item.certainties for item in news] == [(1.0, 2.0), (3.0,)]
    assert play(engine)[1].logprobs == ()


def test_shuffling_is_a_fixed_order_per_problem():
    recordings = [Recording(name, tuple(sample(n + 1) for n in range(8))) for name in "pq"]
    orders = [
        [[len(play(of(recordings, shuffle=seed), n, problem=name)[0]) for n in range(8)] for name in "pq"]
        for seed in (None, 0, 0, 1)
    ]
    assert orders[0] == [list(range(1, 9))] * 2
    assert orders[1] == orders[2]
    assert len({str(order) for pair in orders for order in pair}) == 5
    assert all(sorted(order) == list(range(1, 9)) for pair in orders for order in pair)


def test_prompts_have_their_length_where_it_is_known():
    chat = (Message("user", "2 + 2?"),)
    known = Problem(chat)
    recordings = [
        Recording("a", (sample(1),), prompt_tokens=7, prompt=known.id),
        Recording("b", (sample(1),), prompt_tokens=3),
        Recording("c", (sample(1),), prompt="ffff"),
    ]
    engine = of(recordings)
    assert [len(engine.encode(prompt)) for prompt in (chat, "b", "a", "c", "x")] == [7, 3, 7, 0, 0]


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        (
            {"path": (2,)},
            "engine.path",
            "sample 3 of the problem 'q' .* 2 are recorded in these .*`strategy.n` to 2",
        ),
        ({"problem": "qq"}, "engine.path", "of the problem 'qq' are recorded .* 1 problems such as 'q'"),
        ({"path": (0, 0)}, "engine", "cannot be continued"),
    ],
)
def test_what_was_not_recorded_is_refused(changes, path, message):
    engine = opened(sample(1), sample(2))
    with pytest.raises(ConfigError, match=message) as caught:
        engine.submit(request(**changes))
    assert caught.value.path == path
    assert engine.step() == []


def test_nothing_can_be_put_behind_a_sample():
    with pytest.raises(ConfigError, match="cannot be continued"):
        opened(sample(1)).tokenize("So the answer is")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", " "),
        ("seats", 0),
        ("token_seconds", 0.0),
        ("token_seconds", float("inf")),
        ("count", "bytes"),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ConfigError) as caught:
        Replay(**{field: value})
    assert caught.value.path == field


def test_a_bad_file_is_named_before_anything_runs(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"problem": 1}\n')
    for file, message in ((path, r"r\.jsonl:1: `samples`"), (tmp_path / "no.jsonl", "no file")):
        with pytest.raises(DataError, match=message) as caught:
            Pipeline("majority", engine={"use": "replay", "path": str(file)}, n=2)
        assert caught.value.path.startswith("engine")
        with pytest.raises(DataError, match=message):
            Replay(str(file)).check()
        with pytest.raises(DataError, match=message):
            Replay(str(file)).open()


def test_search_in_steps_is_refused():
    with pytest.raises(ConfigError, match="continues trajectories"):
        assemble(compose(["engine=replay", "task=recorded", "strategy=beam_search", "verifier=equations"]))


# --- with the driver --------------------------------------------------------------------------------------


def ffs(n, k):
    return Sequence(
        {
            "sample": GenerateStage(n, watch=FirstFinished(k)),
            "keep": Select(by="tokens", keep=k, answered=True),
            "vote": Aggregate(),
        }
    )


def run(recordings, strategy, *, concurrency=8, trace=None, file=None, **settings):
    """Run a strategy on recordings, through a file as everyone does."""
    write_recordings(file, recordings)
    engine = Replay(str(file), **settings).open()
    task = Recorded(str(file))
    return run_fake(
        strategy, engine=engine, task=task, sampling=ENDLESS, concurrency=concurrency, trace=trace
    )


SAMPLES = st.lists(
    st.tuples(
        st.integers(1, 400), st.sampled_from(["1", "2", "3", None]), st.sampled_from(["stop", "length"])
    ),
    min_size=4,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.lists(SAMPLES, min_size=1, max_size=3), k=st.integers(1, 4), seats=st.integers(1, 6))
def test_first_finish_search_is_its_definition_on_tokens(tmp_path_factory, data, k, seats):
    recordings = [
        Recording(
            f"p{place}", tuple(sample(n, answer, finish=finish) for n, answer, finish in drawn), gold="1"
        )
        for place, drawn in enumerate(data)
    ]
    file = tmp_path_factory.getbasetemp() / "ffs.jsonl"
    together = run(recordings, ffs(4, k), file=file, seats=64)
    few = run(recordings, ffs(4, k), file=file, seats=seats, concurrency=2)
    for recording in recordings:
        result = together[recording.id]
        lengths = [one.tokens for one in recording.samples]
        valid = sorted(
            (one.tokens, place, one.answer)
            for place, one in enumerate(recording.samples)
            if one.answer is not None and one.finish == "stop"
        )
        cut = valid[k - 1][0] if len(valid) >= k else max(lengths)
        # In lock-step every sample was decoded up to the cut, and not one token beyond.
        assert result.usage.decoded == sum(min(length, cut) for length in lengths)
        assert result.usage.serial == min(cut, max(lengths))
        votes = [answer for _, _, answer in valid[:k]]
        # Voters stand in the pool in sample order.
        first = [answer for _, _, answer in sorted(valid[:k], key=lambda one: one[1])]
        best = max(map(votes.count, votes), default=0)
        expected = next((answer for answer in first if votes.count(answer) == best), None)
        assert result.answer == expected
        # Fewer seats cost more tokens at most, never another result.
        other = few[recording.id]
        assert (other.answer, other.outcome, other.correct) == (result.answer, result.outcome, result.correct)
        assert other.usage.serial == result.usage.serial
        assert result.usage.decoded <= other.usage.decoded <= sum(lengths)


def test_a_sample_that_starts_late_is_aborted_exactly_at_the_cut(tmp_path):
    """Two seats: the third sample starts at 10, and the clock stops for it at its own token 10, not 30."""
    recordings = [Recording("q", (sample(10), sample(40, None), sample(500)), gold="1")]
    trace = Heard()
    [result] = run(recordings, ffs(3, 1), file=tmp_path / "r.jsonl", seats=2, trace=trace).values()
    ends = {
        data["path"]: (data["finish"], data["tokens"])
        for kind, _, data in trace.events
        if kind == "candidate"
    }
    assert ends == {(0,): ("stop", 10), (1,): ("aborted", 10), (2,): ("aborted", 10)}
    assert (result.usage.decoded, result.usage.aborted, result.usage.serial) == (30, 20, 10)
    assert result.usage.seconds == pytest.approx(20 * 0.02)
    assert result.usage.engine_steps == 20


def test_ending_a_problem_starts_the_next_one_at_that_very_token(tmp_path):
    recordings = [
        Recording(name, (sample(length), sample(900)), gold="1") for name, length in (("p", 7), ("q", 5))
    ]
    results = run(recordings, ffs(2, 1), file=tmp_path / "r.jsonl", seats=2, concurrency=1)
    assert [r.usage.seconds / 0.02 for r in results.values()] == pytest.approx([7, 5])
    assert [r.usage.engine_steps for r in results.values()] == [7, 5]


def test_a_budget_stops_at_its_token(tmp_path):
    mapping = {"problem": {"tokens": 50}}
    write_recordings(tmp_path / "r.jsonl", [Recording("q", (sample(40), sample(100)), gold="1")])
    file = str(tmp_path / "r.jsonl")
    pipeline = Pipeline(
        "majority",
        engine={"use": "replay", "path": file},
        task={"use": "recorded", "path": file},
        budget=mapping,
        n=2,
    )
    [result] = pipeline.run().results
    assert result.usage.decoded == 50
    assert result.outcome == "truncated"


@pytest.mark.parametrize("strategy", ["majority", "ffs", "esc", "adaptive_consistency", "recipe"])
def test_more_samples_than_recorded_are_refused_before_anything_runs(strategy, tmp_path):
    chosen = ["engine=replay", "task=recorded", f"strategy={strategy}", "strategy.n=9"]
    with pytest.raises(ConfigError, match=r"up to 9 samples .* has 8 of each; set strategy\.n=8"):
        run_config(compose(chosen), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_stages_that_ask_for_too_many_together_end_the_run_with_the_reason(tmp_path):
    stages = {"first": {"use": "generate", "n": 8}, "more": {"use": "generate", "n": 1}}
    mapping = {**compose(["engine=replay", "task=recorded", "limit=1"]), "strategy": {"use": "sequence"}}
    mapping["strategy"]["stages"] = stages
    with pytest.raises(ConfigError, match=r"engine\.path: sample 9 of .* 8 are recorded .* All stages"):
        run_config(mapping, tmp_path / "run")


def test_another_task_whose_problems_are_not_recorded(tmp_path):
    with pytest.raises(ConfigError, match="Engine and task must be of one file"):
        run_config(compose(["engine=replay", "limit=1"]), tmp_path / "run")


def test_the_shipped_recordings_just_work(tmp_path):
    chosen = ["engine=replay", "task=recorded", "task.model=R1", "task.dataset=aime2024"]
    summary = run_config(compose([*chosen, "strategy=majority", "strategy.n=8"]), tmp_path / "run")
    assert (summary.status, summary.problems, summary.accuracy) == ("complete", 30, pytest.approx(26 / 30))


@pytest.mark.parametrize(
    ("chosen", "name", "most"),
    [
        (["engine=replay"], "recorded", 1_000_000),
        (["engine=replay", "sampling=greedy"], "greedy", 512),
        (["engine=replay", "sampling.max_tokens=9"], "recorded", 9),
        (["engine=fake"], "default", 512),
        (["engine=replay", "strategy=ffs", "sampling=default"], "default", 512),
    ],
)
def test_the_engine_brings_its_sampling_and_ones_own_wins(chosen, name, most):
    mapping = compose(chosen)
    assert (mapping["choices"]["sampling"], mapping["sampling"]["max_tokens"]) == (name, most)


@pytest.mark.slow
def test_the_published_table_of_first_finish_search(data_file):
    file = str(data_file("traces/sampled_answers.jsonl.gz"))
    # R1 on AIME 2024 as printed: accuracy, mean of all decoded tokens, mean serial tokens.
    for k, accuracy, decoded, serial in ((1, 0.8667, 49940.7667, 6270.9), (4, 0.9, 65439.7, 8950.5333)):
        task = Recorded(file, model="R1", dataset="aime2024")
        results = run_fake(ffs(8, k), engine=Replay(file).open(), task=task, sampling=ENDLESS).values()
        assert sum(bool(r.correct) for r in results) / 30 == pytest.approx(accuracy, abs=1e-4)
        assert sum(r.usage.decoded for r in results) / 30 == pytest.approx(decoded, abs=1e-4)
        assert sum(r.usage.serial for r in results) / 30 == pytest.approx(serial, abs=1e-4)


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    path = tmp_path / "samples.jsonl"
    settings = {"use": "replay", "path": str(path)}, {"use": "recorded", "path": str(path)}

    def decoded(tokens):
        samples = [{"pred": 3, "tokens": tokens}] * 2
        path.write_text(json.dumps({"problem": 1, "answer": 3, "samples": samples}))
        os.utime(path, ns=(tokens, tokens))
        pipeline = Pipeline("majority", engine=settings[0], task=settings[1], sampling="recorded", n=2)
        return pipeline.run().summary.usage["decoded_tokens"]

    assert [decoded(5), decoded(1000)] == [10, 2000]


@pytest.mark.parametrize("part", ["task", "verifier"])
def test_parts_that_read_another_file_are_refused(tmp_path, part):
    for name in ("a", "b"):
        sample = {"pred": 3, "tokens": 5, "score": 0.5}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"problem": 1, "answer": 3, "samples": [sample]}))
    words = ["engine=replay", "task=recorded", "verifier=recorded", "strategy=best_of_n", "strategy.n=1"]
    words += [f"engine.path={tmp_path}/a.jsonl"]
    assert assemble(compose(words))
    with pytest.raises(ConfigError, match="path and count must be equal") as caught:
        assemble(compose([*words, f"{part}.path={tmp_path}/b.jsonl"]))
    assert caught.value.path == f"{part}.path"
