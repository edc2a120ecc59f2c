"""The verifier of a set quality; its time on a device is tested with the simulated engine."""

import math
from dataclasses import replace
from statistics import NormalDist, fmean, stdev

import pytest

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.costs.hardware import Hardware
from ttsflow.engines.law import Law, LawPaths
from ttsflow.engines.sim import Sim
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ConfigError
from ttsflow.ops import EngineRequest
from ttsflow.protocols import Verifier, VerifierPart
from ttsflow.tasks.simulated import SimulatedTask
from ttsflow.testing import FakeEngine, FakeEnginePart
from ttsflow.testing.contracts import VerifierContract
from ttsflow.types import Candidate, Problem, Sampling
from ttsflow.verifiers.answer import GoldAnswer
from ttsflow.verifiers.constant import Constant
from ttsflow.verifiers.orm import ORM
from ttsflow.verifiers.simulated import Simulated

PROBLEM = Problem("?", id="p", gold="0")
READER = "skywork-prm-1.5b"


def scored(part, text, opened=None, answer=None):
    verifier = opened or part.open()
    verifier.submit("a", PROBLEM, Candidate((0,), (), (1,), text, finish="stop", answer=answer))
    [verdict] = verifier.step()
    assert verdict.tokens == 0
    return verdict.scores


class TestContract(VerifierContract):
    @pytest.fixture(
        params=[Simulated(), Simulated(quality=3.0, scores=Constant(0.5))], ids=["plain", "other"]
    )
    def part(self, request):
        return request.param

    def test_one_score_per_step(self, part):
        """Its steps are those of the law: the contract's own are lines."""
        verifier = part.open()
        texts = ["right 1\n\nwrong 2\n\n", "right 1\n\n\n\nwrong 2 Answer: 3", "right 1 Answer: 0"]
        for index, text in enumerate(texts):
            verifier.submit(str(index), PROBLEM, Candidate((index,), (), (1,), text, finish="stop"))
        verdicts = {verdict.id: verdict for verdict in verifier.step()}
        assert [len(verdicts[str(index)].scores) for index in range(3)] == [2, 2, 1]
        assert all(0 < score < 1 for verdict in verdicts.values() for score in verdict.scores)
        assert verifier.step() == []
        verifier.close()
        verifier.close()


def test_it_keeps_the_protocols():
    assert isinstance(Simulated(), VerifierPart)
    assert isinstance(Simulated().open(), Verifier)
    engine = Sim(Hardware(80, 1, 1)).open()
    assert isinstance(Simulated(model=READER).open_beside(engine, SimulatedTask()), Verifier)


def logits(quality, mark, count=2000):
    text = "\n\n".join(f"{mark} {number:08x}" for number in range(count))
    return [math.log(score / (1 - score)) for score in scored(Simulated(quality=quality), text)]


@pytest.mark.parametrize("quality", [0.0, 0.5, 2.0, 4.0])
def test_right_and_wrong_steps_are_so_far_apart(quality):
    right, wrong = logits(quality, "right"), logits(quality, "wrong")
    for values, mean in ((right, quality / 2), (wrong, -quality / 2)):
        assert fmean(values) == pytest.approx(mean, abs=4 / math.sqrt(len(values)))
        assert stdev(values) == pytest.approx(1.0, abs=4 / math.sqrt(2 * len(values)))
    # Of a right and a wrong step taken at random the right one has the higher score.
    pairs = list(zip(right, reversed(wrong), strict=True))
    expected = NormalDist().cdf(quality / math.sqrt(2))
    share = fmean(a > b for a, b in pairs)
    assert share == pytest.approx(expected, abs=4 * math.sqrt(0.25 / len(pairs)))


def test_without_quality_a_score_tells_nothing():
    assert logits(0.0, "right", 50) == pytest.approx(logits(0.0, "wrong", 50))


def test_a_score_is_a_pure_function_of_its_step():
    part = Simulated(quality=1.0)
    first = scored(part, "right 1\n\nwrong 2\n\n")
    assert scored(part, "right 1\n\nwrong 2\n\nwrong 3 Answer: 4")[:2] == first
    assert scored(part, "wrong 2\n\nright 1\n\n") == first[::-1]
    assert scored(Simulated(quality=1.0), "right 1\n\n") == first[:1]


def test_the_law_writes_what_it_reads():
    paths = LawPaths(Law(right=0.6, least=3))
    request = EngineRequest("a", (1, 2), Sampling(), 5, 10_000, problem="p")
    play = paths.play(request, 20_000)
    text = paths.decode(play.news(play.length, ended=True).tokens)
    scores = scored(Simulated(quality=100.0), text)
    marks = [step.split(" ")[0] for step in text.split("\n\n")]
    # At such a quality it is an oracle.
    assert [score > 0.5 for score in scores] == [mark == "right" for mark in marks]


@pytest.mark.parametrize("text", ["1 + 1 = 2", "right", "righteous 1", "Right 1", "The right 1"])
def test_other_texts_have_no_score(text):
    assert scored(Simulated(), f"{text}\n\nright 1") == (None, *scored(Simulated(), "right 1"))


def test_another_verifier_may_give_the_scores():
    task = SimulatedTask()
    text = "right 1\n\nright 2 Answer: 0"
    for inner, expected in ((Constant(0.25), (0.25,)), (GoldAnswer(evaluation=True), (1.0,))):
        verifier = Simulated(scores=inner).open_beside(FakeEngine(), task)
        assert set(scored(None, text, verifier, task.answer(text, PROBLEM))) == set(expected)


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"quality": -0.1}, "quality"),
        ({"quality": math.nan}, "quality"),
        ({"seats": 0}, "seats"),
        ({"batch_tokens": 0}, "batch_tokens"),
        ({"block_size": 0}, "block_size"),
        ({"reserve_gib": -1.0}, "reserve_gib"),
        ({"weight_bits": 7}, "weight_bits"),
        ({"kv_bits": 12}, "kv_bits"),
        ({"memory_share": 0.0}, "memory_share"),
        ({"model": "skywork-prm-15b"}, "model"),
        ({"scores": ORM(VLLM("some/model"))}, "scores"),
    ],
)
def test_bad_settings(changes, path):
    with pytest.raises(ConfigError) as caught:
        Simulated(**changes)
    assert caught.value.path == path


def test_its_time_needs_the_engine_of_the_run():
    part = Simulated(model=READER)
    with pytest.raises(ConfigError, match="needs the run's engine"):
        part.open()
    with pytest.raises(ConfigError, match="needs engine=sim"):
        part.open_beside(FakeEngine(), SimulatedTask())
    with pytest.raises(ConfigError, match="needs engine=sim"):
        Simulated(model=READER, scores=Constant(0.5)).check_beside(FakeEnginePart())
    with pytest.raises(ConfigError, match="another engine writes none"):
        Simulated().check_beside(FakeEnginePart())
    Simulated(scores=Constant(0.5)).check_beside(FakeEnginePart())


def test_shares_of_the_device_may_be_all_of_it_and_no_more():
    engine = Sim(Hardware(24, 1, 1), memory_share=0.6)
    Simulated(model=READER, memory_share=0.4).check_beside(engine)
    with pytest.raises(ConfigError, match="together want 101%") as caught:
        Simulated(model=READER, memory_share=0.41).check_beside(engine)
    assert caught.value.path == "memory_share"
    with pytest.raises(ConfigError, match=r"math-shepherd-7b has 13\.5 GiB of weights; 40% of 24 GiB"):
        Simulated(model="math-shepherd-7b", memory_share=0.4).check_beside(engine)
    Simulated(model="math-shepherd-7b", weight_bits=4, memory_share=0.4).check_beside(engine)
    # Without a model it has no place on the device.
    Simulated().check_beside(replace(engine, memory_share=1.0))


@pytest.mark.parametrize(
    ("words", "path", "message"),
    [
        (["engine=fake", "task=arithmetic", f"verifier.model={READER}"], "verifier", "engine=sim"),
        (["engine=fake", "task=arithmetic", "verifier.scores={use: equations}", f"verifier.model={READER}"],
         "verifier.model", "needs engine=sim"),
        (["engine=sim", "task=simulated", f"verifier.model={READER}"], "verifier.memory_share", "together"),
        (["engine=sim", "task=simulated", "verifier.weight_bits=7"], "verifier.weight_bits", "got 7"),
        (["engine=sim", "task=simulated", "verifier.model=skywork-prm"], "verifier.model", "Did you mean"),
    ],
    ids=["marks", "time", "shares", "bits", "model"],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_before_anything_runs(words, path, message):
    with pytest.raises(ConfigError, match=message) as caught:
        assemble(compose(["verifier=simulated", "strategy=best_of_n", *words]))
    assert caught.value.path.startswith(path)


# --- the task ---------------------------------------------------------------------------------------------


def test_problems_have_prompts_of_the_length_asked_for():
    task = SimulatedTask(size=12, prompt_tokens=17, seed=3)
    problems = task.problems()
    paths = LawPaths(Law())
    assert {len(paths.encode(problem.prompt)) for problem in problems} == {17}
    assert len({problem.prompt for problem in problems}) == 12
    others = SimulatedTask(size=12, prompt_tokens=17).problems()
    assert not {problem.id for problem in problems} & {problem.id for problem in others}


def test_only_the_answer_at_the_end_counts():
    task = SimulatedTask()
    problem = task.problems()[0]
    assert task.answer("right 1 Answer: 0", problem).key == "0"
    assert task.answer("wrong 1 Answer: 12\n", problem).key == "12"
    assert task.answer("wrong 1 Answer: 3\n\nwrong 2\n\n", problem) is None
    assert task.correct(task.answer("Answer: 0", problem), problem) is True
    assert task.correct(task.answer("Answer: 7", problem), problem) is False
    assert task.correct(None, problem) is False


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"size": 0}, "size"),
        ({"prompt_tokens": 4}, "prompt_tokens"),
        ({"prompt_tokens": 1 << 21}, "prompt_tokens"),
    ],
)
def test_bad_settings_of_the_task(changes, path):
    with pytest.raises(ConfigError) as caught:
        SimulatedTask(**changes)
    assert caught.value.path == path
