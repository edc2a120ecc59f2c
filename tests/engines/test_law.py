"""Trajectories that no model decodes: drawn by a law, or played back from the trace of a run."""

import itertools
import json
import math
import os
from collections import Counter
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.build import build
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose, strategy
from ttsflow.costs.calibrated import Calibration
from ttsflow.costs.hardware import Hardware
from ttsflow.engines import segments, warm
from ttsflow.engines.law import Law, LawPaths
from ttsflow.engines.segments import FIRST_PIECE, Segments
from ttsflow.engines.sim import Sim
from ttsflow.engines.traced import Traced
from ttsflow.errors import ConfigError, DataError, EngineDead
from ttsflow.ops import EngineRequest
from ttsflow.paths import PathsPart
from ttsflow.plugins import load
from ttsflow.registry import config_folder
from ttsflow.run import run_config
from ttsflow.tasks.simulated import SimulatedTask
from ttsflow.testing import FakeTask, run_fake
from ttsflow.types import Message, Problem, Sampling

SHORT = Law(median=3, sigma=0.5, longest=10, end=0.2)
FAR = 10**6
HARDWARE = Hardware(80, 100, 1000)
PROMPT = (1, 2, 3)

_ids = itertools.count()


def request(prompt=PROMPT, *, seed=0, temperature=1.0, max_tokens=FAR, **changes):
    fields = {"sampling": Sampling(temperature=temperature), "seed": seed, "problem": "p"}
    return EngineRequest(f"r{next(_ids)}", tuple(prompt), max_tokens=max_tokens, **{**fields, **changes})


class Source:
    """Paths and what a request turns out to be on them."""

    def __init__(self, paths):
        self.paths = paths

    def __call__(self, prompt=PROMPT, **changes):
        """Return (tokens, text, finish, stop)."""
        play = self.paths.play(request(prompt, **changes), FAR)
        end = play.news(play.length, ended=True)
        assert len(end.tokens) == play.length
        return end.tokens, self.paths.decode(end.tokens), end.finish, end.stop


def law(**settings):
    return Source(LawPaths(Law(**settings)))


def near(values, expected):
    """Hold the mean of independent values to what is expected, within four standard errors."""
    assert abs(fmean(values) - expected) < 4 * stdev(values) / math.sqrt(len(values)), (
        fmean(values),
        expected,
    )


# --- the law ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("least", "end"), [(4, 0.25), (0, 0.5), (2, 1.0)])
def test_the_number_of_steps_is_geometric_behind_the_least(least, end):
    play = law(least=least, end=end, median=1, sigma=0)
    texts = [play(seed=seed)[1] for seed in range(1500)]
    steps = [text.count("\n\n") + 1 for text in texts]
    assert min(steps) == least + 1
    if end == 1:
        assert set(steps) == {least + 1}
        return
    near(steps, least + 1 / end)
    near([number == least + 1 for number in steps], end)
    near([(number - least) ** 2 for number in steps], (2 - end) / end**2)


@pytest.mark.slow
def test_the_tokens_of_a_step_are_log_normal():
    play = law(median=500, sigma=0.5, longest=100_000)
    logs = [math.log(len(play(seed=seed, stop=("\n\n", "Answer"))[0]) / 500) for seed in range(1500)]
    near(logs, 0.0)
    near([value**2 for value in logs], 0.25)
    near([value < 0.5 for value in logs], 0.8413)


def test_a_step_has_one_token_at_least_and_the_longest_at_most():
    play = law(least=0, end=1.0, median=2, sigma=3.0, longest=7)
    sizes = Counter(len(play(seed=seed)[0]) for seed in range(500))
    assert (min(sizes), max(sizes)) == (1, 7)
    assert sizes[7] > 50


@pytest.mark.slow
def test_steps_are_right_with_the_chance_of_their_problem():
    play = law(right=0.7, spread=0.0, least=2, end=1.0, median=1, sigma=0)
    texts = [play(seed=seed)[1].split("\n\n") for seed in range(1500)]
    first = [steps[0].startswith("right") for steps in texts]
    near(first, 0.7)
    near([steps[1].startswith("right") for steps, good in zip(texts, first, strict=True) if good], 0.7)
    # Nothing that follows a wrong step is right, and only what is right answers 0.
    assert not any("right" in text for steps in texts for text in steps[1:] if steps[0].startswith("wrong"))
    for steps in texts:
        assert steps[-1].endswith("Answer: 0") == steps[-1].startswith("right")


def test_wrong_answers_are_as_frequent_as_one_over_their_number():
    play = law(right=1e-9, least=0, end=1.0, median=1, sigma=0, answers=4)
    answers = [int(play(seed=seed)[1].rpartition(" ")[2]) for seed in range(1500)]
    assert set(answers) == {1, 2, 3, 4}
    for answer in range(1, 5):
        near([given == answer for given in answers], (1 / answer) / (1 + 1 / 2 + 1 / 3 + 1 / 4))


def test_problems_differ_in_how_hard_they_are():
    paths = LawPaths(Law(right=0.8, spread=1.5))
    logits = [math.log(c / (1 - c)) for c in (paths._chance(f"p{number}") for number in range(2000))]
    near(logits, math.log(4))
    near([(value - math.log(4)) ** 2 for value in logits], 1.5**2)
    assert paths._chance("p7") == LawPaths(Law(right=0.8, spread=1.5))._chance("p7")


def test_the_task_reads_the_answer_and_0_is_right():
    task = SimulatedTask(size=3, prompt_tokens=10)
    problem = task.problems()[0]
    texts = [law(right=0.5)(seed=seed)[1] for seed in range(40)]
    verdicts = [task.correct(task.answer(text, problem), problem) for text in texts]
    assert verdicts == [text.endswith(" 0") for text in texts]
    assert len(set(verdicts)) == 2
    # In the middle of a trajectory there is none.
    assert task.answer(texts[0].rpartition("\n\n")[0], problem) is None


# --- a pure function of prefix and seed -------------------------------------------------------------------


def test_order_and_reset_change_nothing():
    play = law()
    first = [play(seed=seed) for seed in range(20)]
    assert [play(seed=seed) for seed in reversed(range(20))] == first[::-1]
    play.paths.reset()
    assert [play(seed=seed) for seed in range(20)] == first
    assert [law()(seed=seed) for seed in range(20)] == first
    assert len({text for _, text, _, _ in first}) == 20


@pytest.mark.slow
@settings(max_examples=100)
@given(seed=st.integers(0, 10**9), most=st.integers(1, 60), cuts=st.lists(st.integers(1, 6), max_size=5))
def test_a_step_that_is_cut_and_continued_is_the_step_that_was_not_cut(seed, most, cuts):
    play = Source(LawPaths(SHORT))
    whole, text, _, _ = play(seed=seed)
    ends = [end for end, _ in play.paths.play(request(seed=seed), FAR).piece.parts]
    done, _, finish, _ = play(seed=seed, max_tokens=most)
    assert done == whole[:most]
    assert (finish == "stop") == (most >= len(whole))
    # What was begun under the first seed ends as it would have, whatever the seeds that follow.
    begun = next((end for end in ends if end > most), len(whole))
    for number, cut in enumerate([*cuts, begun], 1):
        if finish == "length":
            part, _, finish, _ = play(PROMPT + done, seed=-number, max_tokens=cut)
            done += part
    assert play.paths.decode(done[:begun]) == play.paths.decode(whole[:begun])
    assert play.paths.decode(done[: begun - 1]) == play.paths.decode(whole[: begun - 1])
    if begun == len(whole):
        assert (len(done), finish) == (len(whole), "stop")
        assert play.paths.decode(done) == text


def test_a_limit_just_behind_the_last_token_cuts_nothing():
    play = law(least=0, end=1.0, median=50, sigma=0)
    whole, text, finish, _ = play(seed=3)
    assert (len(whole), finish) == (50, "stop")
    assert play(seed=3, max_tokens=50) == (whole, text, "stop", None)
    cut = play(seed=3, max_tokens=49)
    assert cut == (whole[:49], "", "length", None)
    rest = play(PROMPT + cut[0], seed=4)
    assert (len(rest[0]), rest[1], rest[2]) == (1, text, "stop")
    assert play.paths.decode(cut[0] + rest[0]) == text


def test_both_lengths_of_a_seed_keep_their_text():
    play = law(least=1, end=1.0, median=10, sigma=0)
    for sizes in ((20, 10, 3), (3, 10, 20)):
        play.paths.reset()
        done = {most: play(seed=1, max_tokens=most) for most in sizes}
        texts = {most: play.paths.decode(done[most][0]) for most in sizes}
        assert [texts[most].count(" ") for most in (20, 10, 3)] == [4, 1, 0]
        assert texts[20].startswith(texts[10])
        # Each goes on where it stands.
        assert len(play(PROMPT + done[10][0], seed=2)[0]) == 10
        assert len(play(PROMPT + done[3][0], seed=2)[0]) == 7 + 10


def test_no_room_decodes_nothing():
    assert law()(max_tokens=0) == ((), "", "length", None)
    play = LawPaths(Law()).play(request(), context=3)
    assert (play.length, play.last) == (0, None)


@pytest.mark.slow
def test_step_by_step_is_the_same_law():
    play = law(least=2, end=0.5, median=4, sigma=0.5, right=0.7, spread=0.0)
    totals, steps, right = [], [], []
    for seed in range(1000):
        done, count = (), 0
        while True:
            part, text, _, stop = play(PROMPT + done, seed=seed * 100 + count, stop=("\n\n",))
            done, count = done + part, count + 1
            if stop is None:
                break
            assert stop == "\n\n"
            assert text.endswith("\n\n")
        totals.append(len(done))
        steps.append(count)
        right.append("right" in text)
        assert play.paths.decode(done).count("\n\n") == count - 1
    near(steps, 2 + 1 / 0.5)
    # E[0.7^N] of N = 2 + Geometric(1/2).
    near(right, 0.7**2 * (0.7 * 0.5) / (1 - 0.7 * 0.5))
    near(totals, fmean(len(play(seed=-seed)[0]) for seed in range(1, 2000)))


def test_at_temperature_0_the_prefix_alone_decides():
    play = law()
    same = [play(seed=seed, temperature=0) for seed in range(3)]
    assert same[0] == same[1] == same[2]
    assert play(seed=0, temperature=0, problem="q") != same[0]
    assert play((9, 9), seed=0, temperature=0) != same[0]
    first = play(seed=1, temperature=0, stop=("\n\n",))[0]
    assert first == same[0][0][: len(first)]
    children = [play(PROMPT + first, seed=seed, temperature=0) for seed in range(2)]
    assert children[0] == children[1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_one_that_is_asked_midway_answers_for_where_it_stands(temperature):
    play = law(right=0.6, spread=0.0, least=30, median=3)
    words = play.paths.tokenize("\nAnswer: ")
    answers = {"right": [], "wrong": []}
    for seed in range(600):
        begun, text, _, _ = play(seed=seed, stop=("\n\n",))
        tokens, said, finish, _ = play(PROMPT + begun + words, seed=-seed - 1, temperature=temperature)
        assert (len(tokens), finish) == (2, "stop")
        assert play.paths.decode(begun + words + tokens) == f"{text}\nAnswer: {said}"
        answers[text[:5]].append(int(said))
    assert 0 not in answers["wrong"]
    near([answer == 0 for answer in answers["right"]], 0.6)
    assert set(answers["wrong"]) <= set(range(1, 9))


# --- stop strings -----------------------------------------------------------------------------------------


def test_the_first_step_that_holds_a_stop_string_is_the_last():
    play = law(right=0.5)
    for seed in range(30):
        tokens, text, finish, stop = play(seed=seed)
        assert (finish, stop) == ("stop", None)
        assert play(seed=seed, stop=("no such words",)) == (tokens, text, "stop", None)
        part, begin, finish, stop = play(seed=seed, stop=("wrong", "\n\n"))
        assert (finish, tokens[: len(part)]) == ("stop", part)
        assert text.startswith(begin)
        assert stop == ("wrong" if begin.startswith("wrong") else "\n\n")
        part, begin, _, stop = play(seed=seed, stop=("wrong",))
        assert stop == ("wrong" if "wrong" in text else None)
        assert begin.count("wrong") == ("wrong" in text)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"least": -1}, "least"),
        ({"answers": 0}, "answers"),
        ({"end": 0}, "end"),
        ({"end": 1.5}, "end"),
        ({"median": 0.5}, "median"),
        ({"median": 2000}, "median"),
        ({"longest": 0}, "longest"),
        ({"longest": 10**6}, "longest"),
        ({"right": 1.0}, "right"),
        ({"sigma": -1}, "sigma"),
        ({"spread": math.nan}, "spread"),
    ],
)
def test_a_law_without_sense_is_refused(settings, path):
    with pytest.raises(ConfigError) as caught:
        Law(**settings)
    assert caught.value.path == path


# --- token ids --------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(text=st.text(max_size=60), count=st.integers(1, 80) | st.none())
def test_a_prompt_survives_a_round_trip(text, count):
    known = Segments()
    tokens = known.encode(text, count)
    assert known.decode(tokens) == text
    assert all(0 <= token < FIRST_PIECE for token in tokens)
    assert tokens == Segments().encode(text, count)
    if count is not None:
        assert len(tokens) == count
    else:
        assert bool(tokens) == bool(text)
        assert abs(len(tokens) - len(text) / 4) <= 1


@pytest.mark.slow
@given(same=st.text(min_size=8, max_size=30), ends=st.lists(st.text(max_size=9), min_size=2, max_size=2))
def test_prompts_that_begin_alike_have_ids_that_begin_alike(same, ends):
    known = Segments()
    first, second = (known.encode(same + end) for end in ends)
    # All but the one at the end may be longer or shorter.
    whole = len(same) // 4 - 1
    assert first[:whole] == second[:whole]


def test_a_chat_is_its_turns():
    known = Segments()
    tokens = known.encode((Message("system", "Think."), Message("user", "2 + 2?")))
    assert known.decode(tokens) == "system: Think.\nuser: 2 + 2?\n"


def test_chunks_whose_ids_would_be_one_get_two(monkeypatch):
    monkeypatch.setattr(segments, "crc32", lambda data: FIRST_PIECE - 1)
    known = Segments()
    tokens = known.encode("abcdefghijkl")
    assert (len(set(tokens)), known.decode(tokens)) == (3, "abcdefghijkl")


def test_seeds_whose_pieces_would_be_one_get_two(monkeypatch):
    monkeypatch.setattr(segments, "derive", lambda *parts: 5 << 20)
    known = Segments()
    first, second = (known.add(seed, 3, [(3, f"text {seed}")], None) for seed in (1, 2))
    assert known.add(1, 3, [(3, "text 1")], None) is first
    assert set(first.tokens(0, 3)).isdisjoint(second.tokens(0, 3))
    assert known.decode(first.tokens(0, 3) + second.tokens(0, 3)) == "text 1text 2"


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    early=st.integers(0, 3),
)
def test_text_comes_with_the_token_that_completes_it(sizes, cuts, early):
    known = Segments()
    ends = list(itertools.accumulate(sizes))
    piece = known.add(1, ends[-1] + 2, [(end, f"<{end}>") for end in ends], None)
    tokens = piece.tokens(0, piece.length)
    assert known.decode(tokens) == "".join(f"<{end}>" for end in ends)
    places = sorted({0, piece.length, *(cut for cut in cuts if cut <= piece.length)})
    parts = [tokens[a:b] for a, b in itertools.pairwise(places)]
    assert "".join(map(known.decode, parts)) == known.decode(tokens)
    # One that was ended early is followed by something else.
    begun = tokens[: max(0, len(tokens) - early)]
    words, other = known.encode("And so"), known.add(2, 4, [(4, "other")], None).tokens(0, 4)
    assert known.decode(begun + words + other + begun) == (
        known.decode(begun) + "And so" + "other" + known.decode(begun)
    )


# --- the trace of a run -----------------------------------------------------------------------------------


def made(folder, *words, engine="fake"):
    """Make a run on the fake engine and return its results by problem."""
    task = ["task=arithmetic", "limit=4"] if engine == "fake" else []
    summary = run_config(compose([f"engine={engine}", *task, *words]), folder)
    assert summary.status == "complete", summary.error
    return {row["id"]: row for row in read(folder / "results.jsonl")}


def read(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def told(result):
    fields = ("answer", "outcome", "correct", "text", "candidates", "truncated", "path_tokens")
    usage = ("prompt", "output", "aborted", "serial", "requests", "decoded", "verifier")
    return {name: result[name] for name in fields} | {name: result["usage"][name] for name in usage}


def played(tmp_path, *words, run="made", to="played"):
    paths = f"engine.paths={{use: trace, run: '{tmp_path / run}'}}"
    simulated = ["engine=sim", paths, "engine.model=smollm2-135m", "sampling=default"]
    return made(tmp_path / to, *simulated[1:], "task=arithmetic", "limit=4", *words, engine="sim")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["strategy=majority", "strategy.n=4"],
        ["strategy=self_consistency", "strategy.n=6", "strategy.batch=2"],
        ["strategy=beam_search", "strategy.n=4", "strategy.width=2", "verifier=fake"],
        ["strategy=dvts", "strategy.n=4", "strategy.width=2", "verifier=fake"],
    ],
    ids=lambda words: words[0],
)
def test_a_run_that_was_made_is_played_back_to_the_token(tmp_path, words):
    before, after = made(tmp_path / "made", *words), played(tmp_path, *words)
    assert {name: told(row) for name, row in before.items()} == {
        name: told(row) for name, row in after.items()
    }
    assert before.keys() == after.keys()
    assert len(before) == 4


def candidates(folder):
    """Return how the candidates of a run ended, by problem and path."""
    known = {}
    for event in read(folder / "trace.jsonl"):
        if event["event"] == "candidate":
            ended = (event["tokens"], event["text"], event["finish"], event.get("answer"))
            known.setdefault(event["problem"], {})[tuple(event["path"])] = ended
    return known


def test_what_a_search_ended_early_is_stood_in_for_and_the_rest_is_as_it_was(tmp_path):
    made(tmp_path / "made", "strategy=ffs", "strategy.n=6", "strategy.k=2")
    played(tmp_path, "strategy=majority", "strategy.n=6")
    before, after = candidates(tmp_path / "made"), candidates(tmp_path / "played")
    aborted = 0
    for problem, known in before.items():
        whole = {path: ended for path, ended in known.items() if ended[2] != "aborted"}
        aborted += len(known) - len(whole)
        assert {path: after[problem][path] for path in whole} == whole
        assert set(after[problem].values()) == set(whole.values())
    assert aborted > 4


@pytest.mark.slow
def test_of_a_larger_n_the_rest_is_drawn_from_the_same_problem(tmp_path):
    made(tmp_path / "made", "strategy=majority", "strategy.n=3")
    played(tmp_path, "strategy=majority", "strategy.n=12")
    before, after = candidates(tmp_path / "made"), candidates(tmp_path / "played")
    for problem, known in after.items():
        assert len(known) == 12
        donors = before[problem]
        assert {path: known[path] for path in donors} == donors
        assert set(known.values()) <= set(donors.values())
    assert any(len(set(known.values())) > 1 for known in after.values())
    # Which donor is a matter of the seed: not all problems draw in one order.
    orders = [
        [list(before[p].values()).index(known[(number,)]) for number in range(3, 12)]
        for p, known in after.items()
        if len(set(before[p].values())) == 3
    ]
    assert len({tuple(order) for order in orders}) == len(orders) >= 2


def event(path=(0,), problem="p", **changes):
    fields = {"tokens_new": 5, "text": "1 + 1 = 2\nAnswer: 2", "finish": "stop"}
    return {"event": "candidate", "problem": problem, "path": path, **fields, **changes}


def traced(tmp_path, *events):
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    return Traced(str(tmp_path))


def test_prompts_have_the_tokens_they_had(tmp_path):
    made(tmp_path / "made", "strategy=single")
    known = {
        e["problem"]: e["prompt_tokens"] for e in read(tmp_path / "made/trace.jsonl") if e["event"] == "start"
    }
    paths = Traced(str(tmp_path / "made")).open_paths()
    problems = assemble(compose(["engine=fake", "task=arithmetic"])).task.problems()[:4]
    assert {p.id: len(paths.encode(p.prompt)) for p in problems} == known
    assert paths.decode(paths.encode(problems[0].prompt)) == problems[0].prompt
    assert len(paths.encode("x" * 40)) == 10


def test_what_a_path_decoded_and_how_it_ended(tmp_path):
    play = Source(
        traced(
            tmp_path,
            event((0,), text="step\n", tokens_new=3, finish="step"),
            event((0, 0), text="step\nend", tokens_new=2),
            event((1,), text="cut", tokens_new=9, finish="length"),
            event((2,), text="nothing", tokens_new=0, finish="length"),
            event((3,), text="aborted", tokens_new=1, finish="aborted"),
            event((4,), finish="failed"),
        ).open_paths()
    )
    assert play(path=(0,), seed=1, stop=("\n",))[1:] == ("step\n", "stop", "\n")
    assert play(path=(0, 0), seed=2, stop=("\n",))[1:] == ("end", "stop", None)
    tokens, text, finish, _ = play(path=(1,), seed=3)
    assert (len(tokens), text, finish) == (9, "cut", "length")
    # A lower limit cuts it before its text is there.
    assert play(path=(1,), seed=3, max_tokens=4) == (tokens[:4], "", "length", None)
    assert len(play(path=(2,), seed=4)[0]) == 1
    # One that was ended early or failed says nothing of how long it would have been: others stand in for it.
    # None of them is shorter than what was seen of it.
    donors = [
        {play(path=(path,), seed=path * 100 + i, stop=("\n",))[1] for i in range(40)} for path in (3, 4)
    ]
    assert donors == [{"step\n", "cut"}, {"step\n", "cut", "nothing"}]
    # At a depth that the run did not reach the nearest one has to do.
    assert {play(path=(0, 0, 0, 7), seed=seed)[1] for seed in range(100, 140)} == {"end"}


def test_where_all_were_ended_early_they_are_all_there_is(tmp_path):
    play = Source(traced(tmp_path, event(finish="aborted", text="begun")).open_paths())
    assert play(path=(0,))[1] == "begun"


def test_what_was_asked_aside_is_no_part_of_the_search(tmp_path):
    step, greedy = "a step\n\n", "a step\n\ngreedy\n\n"
    play = Source(
        traced(
            tmp_path,
            event((0,), text=step, finish="step"),
            event((0, 0), aside="rollout", text=greedy, finish="step"),
            event((0, 0, 0), aside="rollout", text=f"{greedy}end"),
        ).open_paths()
    )
    asked = {"stop": ("\n\n",)}
    # Those of the search come from the search, at any depth, and rollouts from rollouts.
    assert play(path=(0, 1), seed=6, **asked)[1] == step
    assert play(path=(0, 0), seed=7, aside="rollout", **asked)[1:] == ("greedy\n\n", "stop", "\n\n")
    assert play(path=(0, 0, 0), seed=8, aside="rollout", **asked)[1] == "end"
    assert play(path=(0, 7, 0), seed=9, aside="rollout", **asked)[1] == "end"
    with pytest.raises(DataError, match="has no probes of problem 'p', which this strategy asks for"):
        play(path=(0, 0), aside="probe")


def test_a_probe_is_played_behind_the_words_it_was_asked_with(tmp_path):
    step = event((0,), text="a step", finish="step", tokens_new=2)
    paths = traced(
        tmp_path, step, event((0, 0), aside="probe", text="a step So: 7", tokens_new=1)
    ).open_paths()
    play = Source(paths)
    parent = play(path=(0,), seed=1, max_tokens=2)[0]
    words = paths.tokenize(" So: ")
    asked = {"path": (0, 0), "aside": "probe", "seed": 2}
    assert play(prompt=(*parent, *words), **asked)[1:] == ("7", "stop", None)
    with pytest.raises(DataError, match="did not ask it with the words 'Well: '"):
        play(prompt=(*parent, *paths.tokenize("Well: ")), **asked)


STEPS = (
    event((0,), text="step\n\n", finish="step"),
    event((1,), text="cut", finish="step", tokens_new=9),
    event((0, 0), text="step\n\nend"),
)


@pytest.mark.parametrize(
    ("events", "asked", "message"),
    [
        # A whole trajectory of a run that made steps, cut and uncut ones, and a step of longer ones.
        (STEPS, {"path": (0,)}, "0 of problem 'p' decodes: the run ended it as a step of 5 tokens"),
        (STEPS, {"path": (1,), "stop": ("\n\n",)}, "the run ended it as a step of 9 tokens"),
        (STEPS, {"path": (7,)}, "the run ended it as a step"),
        # A step of a run that made none, or longer ones.
        ([event(text="one\n\ntwo")], {"path": (0,), "stop": ("\n\n",)}, r"went on behind '\\n\\n'"),
        ([event(text="one\n\ntwo")], {"path": (3,), "stop": ("\n\n",)}, r"went on behind '\\n\\n'"),
        (
            [event(text="a line\nand another one of a step\n\n", finish="step")],
            {"path": (0,), "stop": ("\n",)},
            r"went on behind '\\n'",
        ),
    ],
)
def test_what_ends_elsewhere_than_in_the_run_is_refused(tmp_path, events, asked, message):
    play = Source(traced(tmp_path, *events).open_paths())
    with pytest.raises(DataError, match=message) as caught:
        play(**asked)
    assert "the separator and the limits of a step that the run was made with" in str(caught.value)
    assert caught.value.path == "engine.paths.run"


def test_a_step_that_its_limit_cut_is_played_under_that_limit(tmp_path):
    play = Source(traced(tmp_path, *STEPS).open_paths())
    tokens, text, finish, stop = play(path=(1,), stop=("\n\n",), max_tokens=9)
    assert (len(tokens), text, finish, stop) == (9, "cut", "length", None)


def test_a_character_that_a_border_has_cut_is_no_new_text(tmp_path):
    cut = event((0,), text="one\n\ntwo \ufffd", finish="step", tokens_new=4)
    play = Source(traced(tmp_path, cut, event((0, 0), text="one\n\ntwo \u00e9 end")).open_paths())
    assert play(path=(0, 0), seed=1, stop=("\n\n",))[1] == "\u00e9 end"


def test_a_separator_may_be_followed_by_what_its_token_reaches_beyond_it(tmp_path):
    play = Source(traced(tmp_path, event(text="step\n\n  ", finish="step")).open_paths())
    assert play(path=(0,), stop=("\n\n",))[1:] == ("step\n\n  ", "stop", "\n\n")


BAD_PATHS = (3, "abc", [], [[1]], ["a"], [7, "a"], [-1], [True], [1.5], {"0": 0})
BAD_COUNTS = (-1, True, 2.7, "many", [], 100_000_000, 10**400)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"trace\.jsonl:2: is no event of a trace: Expecting"),
        ("7", "is no event of a trace: must be an object, found 7"),
        ('{"event": "candidate"}', "is no event of a trace: `problem` must be text, found none"),
        (
            json.dumps(event(finish=None)).replace('"finish": null, ', "").replace(', "finish": null', ""),
            "`finish` must be one of step, stop, length, aborted, failed, found none",
        ),
        (json.dumps(event(finish="nonsense")), "`finish` must be one of"),
        (json.dumps(event(finish=["stop"])), "`finish` must be one of"),
        *((json.dumps(event(path=path)), "`path` must be a list of") for path in BAD_PATHS),
        *((json.dumps(event(tokens_new=count)), "`tokens_new` must be a whole") for count in BAD_COUNTS),
        (json.dumps(event(tokens_new=0)).replace(": 0", ": 1e999"), "`tokens_new` must be a whole"),
        *(
            (
                json.dumps({"event": "start", "problem": "p", "prompt": "", "prompt_tokens": count}),
                "`prompt_tok",
            )
            for count in BAD_COUNTS
        ),
        (json.dumps(event(text=None)), "`text` must be text"),
        (json.dumps(event(text="\ud800")), "surrogates not allowed"),
        (json.dumps(event(problem="\ud800")), "surrogates not allowed"),
        (json.dumps(event(aside=["probe"])), "`aside` must be text"),
        ("[" * 200_000, "is no event of a trace"),
        ("\udcff", "is no event of a trace"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_broken_line_is_named(tmp_path, line, message):
    traced(tmp_path, event())
    with (tmp_path / "trace.jsonl").open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    part = Traced(str(tmp_path))
    for refuse in (part.check, part.open_paths):
        with pytest.raises(DataError, match=message) as caught:
            refuse()
        assert caught.value.path == "run"
        assert "trace.jsonl:2" in str(caught.value)


@pytest.mark.slow
def test_a_folder_without_a_trace_is_refused(tmp_path):
    made(tmp_path / "made", "strategy=single", "trace=false")
    for folder, message in (
        (tmp_path / "made", "trace=true"),
        (tmp_path / "nowhere", "holds no trace.jsonl"),
    ):
        words = ["engine=sim", f"engine.paths={{use: trace, run: '{folder}'}}"]
        with pytest.raises(DataError, match=message) as caught:
            assemble(compose(words))
        assert caught.value.path == "engine.paths.run"
    with pytest.raises(DataError, match="has no candidates"):
        traced(tmp_path, {"event": "start", "problem": "p"}).check()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("~nouser/x", "cannot be read"),
        ("a\0b", "cannot be read"),
        ("x" * 300, "cannot be read: File name too"),
    ],
)
def test_a_run_that_no_folder_can_be_called(run, message):
    with pytest.raises(DataError, match=message) as caught:
        Traced(run).check()
    assert caught.value.path == "run"


def test_a_trace_that_is_a_folder_is_refused(tmp_path):
    (tmp_path / "trace.jsonl").mkdir()
    with pytest.raises(DataError, match=r"trace\.jsonl cannot be read: Is a directory"):
        Traced(str(tmp_path)).check()


def test_a_folder_of_runs_names_them(tmp_path):
    for name in "ab":
        traced(tmp_path / name, event())
    with pytest.raises(DataError, match=rf"Runs below it: {tmp_path}/a, {tmp_path}/b\."):
        Traced(str(tmp_path)).check()


@pytest.mark.slow
def test_a_problem_that_was_not_asked_ends_the_run_with_the_reason(tmp_path):
    made(tmp_path / "made", "strategy=single")
    words = [f"engine.paths={{use: trace, run: '{tmp_path / 'made'}'}}", "engine.model=smollm2-135m"]
    with pytest.raises(DataError, match=r"the trace has no problem '.*', but 4 others; .* `limit=4`"):
        run_config(compose(["engine=sim", *words, "task=arithmetic", "limit=6"]), tmp_path / "played")


def test_a_trace_that_was_written_anew_is_read_anew(tmp_path):
    texts = []
    for number, text in enumerate(("Answer: 1", "Answer: 2")):
        part = Sim(HARDWARE, "smollm2-135m", traced(tmp_path, event(text=text)))
        os.utime(tmp_path / "trace.jsonl", ns=(number, number))
        engine = warm.acquire(part)
        engine.submit(request(path=(0,)))
        news = []
        while not news:
            news = engine.step()
        texts.append(engine.decode(news[0].tokens))
    assert texts == ["Answer: 1", "Answer: 2"]
    traced(tmp_path, event())
    with pytest.raises(EngineDead, match="has changed"):
        engine.reset()
    warm.close_all()


def test_paths_are_parts():
    assert isinstance(Law(), PathsPart)
    assert isinstance(Traced("somewhere"), PathsPart)


@pytest.mark.slow
def test_a_law_of_a_run_may_be_played_back_as_well(tmp_path):
    """The simulator on its own trace: the same texts, now as pieces that are known."""
    words = [
        "strategy=beam_search",
        "strategy.n=4",
        "strategy.width=2",
        "verifier=simulated",
        "task=simulated",
    ]
    words += ["task.size=3", "engine.paths.median=10", "engine.paths.longest=30"]
    before = made(tmp_path / "made", *words, engine="sim")
    paths = f"engine.paths={{use: trace, run: '{tmp_path / 'made'}'}}"
    after = made(tmp_path / "played", *words[:6], paths, engine="sim")
    assert {name: told(row) for name, row in before.items()} == {
        name: told(row) for name, row in after.items()
    }


#: What ends candidates early: who would have been longer is drawn anew.
EARLY = {"auto", "ffs", "short_m_at_k"}


#: Nothing is known of single tokens, and there is one model.
REFUSED = {"cisc", "deepconf", "deepconf_online", "self_certainty", "model_cascade"}
SHIPPED = sorted(file.stem for file in config_folder("ttsflow.conf").joinpath("strategy").glob("*.yaml"))

#: One of each sort; all of them are slow.
SORTS = {"majority", "ffs", "self_consistency", "dynasor", "beam_search", "recipe"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SORTS else pytest.mark.slow)
        for name in SHIPPED
        if name not in REFUSED
    ],
)
@pytest.mark.slow
def test_every_strategy_that_the_simulator_runs_is_played_back_from_its_own_trace(tmp_path, name):
    """To the token, with probes, rollouts and what the cache found; and to the second."""
    words = [f"strategy={name}", "task=simulated", "task.size=3", "verifier=simulated"]
    words += [] if name in {"single", "recipe"} else ["strategy.n=8"]
    # Those that are steered by a budget for the run need one.
    words += ["budget.run.tokens=100000"] if name.startswith("atest") else []
    if name == "atest_calibrated":
        rungs, shares = (1, 3, 4, 6, 8), (0.5, 0.6, 0.65, 0.7, 0.7)
        known = Calibration(
            "sim", "t", "tokens", rungs, (0.0,), (0.0, 900.0, 0.0, 0.0), 0.0, shares, shares, 1, 22, 1.0
        )
        (tmp_path / "profile.json").write_text(known.dumped())
        words.append(f"strategy.profile='{tmp_path / 'profile.json'}'")
    before = made(tmp_path / "made", *words, engine="sim")
    paths = f"engine.paths={{use: trace, run: '{tmp_path / 'made'}'}}"
    after = made(tmp_path / "played", *words, paths, engine="sim")
    for problem, row in before.items():
        told_before, told_after = (
            told(one) | {field: one["usage"][field] for field in ("cached", "seconds")}
            for one in (row, after[problem])
        )
        for field in ("output", "aborted", "cached") if name in EARLY else ():
            del told_before[field], told_after[field]
        assert told_after == told_before
        assert told_before["decoded"] > 0


def test_steps_are_not_played_as_trajectories(tmp_path):
    """Regression: all were "cut by sampling.max_tokens", without an answer."""
    words = ["task=simulated", "task.size=2", "verifier=simulated", "strategy.n=4"]
    made(tmp_path / "made", "strategy=beam_search", *words, engine="sim")
    paths = f"engine.paths={{use: trace, run: '{tmp_path / 'made'}'}}"
    with pytest.raises(DataError, match="the run ended it as a step"):
        made(tmp_path / "played", "strategy=majority", *words, paths, engine="sim")


def test_greedy_samples_of_one_problem_are_equal_on_an_engine():
    mapping = strategy("majority", {"n": 4})
    engine = Sim(HARDWARE, "smollm2-135m", SHORT).open()
    task = SimulatedTask(size=3, prompt_tokens=10)
    stage = build("stage", mapping, "strategy", load())
    results = run_fake(stage, engine=engine, task=task, sampling=Sampling(temperature=0, max_tokens=4096))
    for result in results.values():
        assert result.usage.decoded == 4 * result.usage.serial
        assert result.usage.serial > 0


def test_a_task_whose_texts_the_law_does_not_write():
    problem = Problem("Question 1\n", id="fake-1")
    assert FakeTask().answer(law()(seed=1)[1], problem) is not None
    with pytest.raises(ConfigError, match="task=simulated") as caught:
        assemble(compose(["engine=sim", "task=arithmetic"]))
    assert caught.value.path == "task"
