"""Reasoning Gym: settings and answers everywhere; problems and scores where the package is installed."""

import importlib.util
import subprocess
import sys

import pytest

from ttsflow import plugins
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.errors import ConfigError, DataError, MissingExtra
from ttsflow.tasks import gym_worker, reasoning_gym
from ttsflow.tasks.grade import GradingError, failures
from ttsflow.tasks.reasoning_gym import ReasoningGym
from ttsflow.testing.contracts import TaskContract
from ttsflow.types import Answer, Message, Problem

installed = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None,
    reason="needs reasoning-gym: pip install 'ttsflow[gym]'",
)
ANY = Problem("?", data={"entry": ""})


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": ""}, "name"),
        ({"size": 0}, "size"),
        ({"seed": -1}, "seed"),
        ({"settings": {"size": 3}}, "settings.size"),
        ({"settings": {"operators": {1, 2}}}, "settings"),
        ({"threshold": 0.0}, "threshold"),
        ({"prompt": "Answer!"}, "prompt"),
        ({"prompt": "{question"}, "prompt"),
        ({"system": "Be brief.", "chat": False}, "system"),
        ({"separator": ""}, "separator"),
        ({"stop": ("\\n",)}, "stop"),
    ],
)
def test_settings_are_checked(wrong, field):
    with pytest.raises(ConfigError) as caught:
        ReasoningGym(**{"name": "chain_sum", **wrong})
    assert caught.value.path == field


@pytest.mark.slow
def test_the_config_file_says_what_the_part_says():
    mapping = compose(["task=reasoning_gym", "engine=fake", "strategy=single"])["task"]
    assert build("task", mapping, "task", plugins.load()) == ReasoningGym("chain_sum")
    chosen = compose(["task=reasoning_gym", "task.settings.min_terms=3", "engine=fake"])["task"]
    assert build("task", chosen, "task", plugins.load()).settings == {"min_terms": 3}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("so <answer> 42 </answer>.", "42"),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("<answer>1 2\n3 4</answer>", "1 2\n3 4"),
        ("<answer>42", "42"),
        ("<answer></answer> Answer: 7", "7"),
        (r"so \boxed{42}", "42"),
        ("Answer: 42.", "42"),
        ("well,\n42", "42"),
        ("<think><answer>1</answer></think> <answer>2</answer>", "2"),
        ("", None),
        ("<think><answer>1</answer>", None),
    ],
)
def test_answers(text, wanted):
    answer = ReasoningGym("any").answer(text, ANY)
    assert (answer and answer.text) == wanted


def test_answers_that_differ_in_space_are_one_in_a_vote():
    task = ReasoningGym("any")
    one, other = (task.answer(f"<answer>{text}</answer>", ANY) for text in ("1 2\n3 4", "1 2 \n3  4"))
    assert one.key == other.key
    assert task.answer("<answer>A</answer>", ANY).key != task.answer("<answer>a</answer>", ANY).key


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(reasoning_gym.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'ttsflow\[gym\]'"):
        ReasoningGym("chain_sum").problems()


class Scripted:
    """Stands in for the worker."""

    def __init__(self, said):
        self.said = said

    def entries(self, source):
        return self._say()

    def score(self, source, entry, answer):
        return self._say()

    def _say(self):
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(reasoning_gym.importlib.util, "find_spec", lambda name: True)
    reasoning_gym._entries.cache_clear()

    def say(said):
        monkeypatch.setattr(reasoning_gym, "worker", Scripted(said))

    yield say
    reasoning_gym._entries.cache_clear()


@pytest.mark.parametrize(
    ("said", "kind", "path", "words"),
    [
        ([{"error": "name", "known": ["chain_sum", "gcd"]}], ConfigError, "name", "Did you mean 'chain_sum'"),
        (
            [{"error": "setting", "name": "min_term", "known": ["min_terms"]}],
            ConfigError,
            "settings.min_term",
            "'min_terms'",
        ),
        ([{"error": "settings", "message": "no"}], ConfigError, "settings", "refused its settings: no"),
        (GradingError("too slow"), DataError, "name", "too slow"),
    ],
)
def test_what_the_package_refuses(scripted, said, kind, path, words):
    scripted(said)
    with pytest.raises(kind, match=words) as caught:
        ReasoningGym("chain_sums").problems()
    assert caught.value.path == path


def test_problems_and_verdicts(scripted):
    entry = {"question": "1 + 1?", "answer": "2", "entry": "blob"}
    scripted([entry, {**entry, "answer": None}])
    task = ReasoningGym("sums", size=2, system="Be brief.", prompt="{question} Now.", threshold=0.5)
    first, second = task.problems()
    assert first.prompt == (Message("system", "Be brief."), Message("user", "1 + 1? Now."))
    assert (first.gold, second.gold) == ("2", None)
    assert second.id == f"{first.id}-2"
    for score, right in ((1.0, True), (0.5, True), (0.4, False), (float("nan"), False)):
        scripted(score)
        assert task.correct(Answer("2", "2"), first) is right
        assert task.correct(Answer("2", "2"), second) is right
    assert task.correct(None, second) is False
    before = len(failures)
    scripted(GradingError("no reply"))
    assert task.correct(Answer("2", "2"), first) is None
    assert "no reply" in failures[before]
    del failures[before:]


@pytest.mark.slow
def test_the_package_is_not_loaded_by_ours():
    code = "import ttsflow.tasks.reasoning_gym, sys; print('reasoning_gym' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@installed
class TestContract(TaskContract):
    @pytest.fixture
    def part(self):
        return ReasoningGym("chain_sum", size=4)


@installed
def test_scorers_decide():
    for name in ("chain_sum", "sudoku", "spell_backward", "ransom_note", "prime_factorization"):
        task = ReasoningGym(name, size=3)
        for problem in task.problems():
            right = task.answer(f"<answer>{problem.gold}</answer>", problem)
            wrong = task.answer("<answer>no such thing</answer>", problem)
            assert task.correct(right, problem) is True
            assert task.correct(wrong, problem) is False


@installed
def test_ids_do_not_depend_on_the_process():
    for name in ("isomorphic_strings", "polynomial_multiplication", "ransom_note"):
        ids = []
        for _ in range(2):
            gym_worker.worker.close()
            reasoning_gym._entries.cache_clear()
            ids.append([problem.id for problem in ReasoningGym(name, size=3).problems()])
        assert ids[0] == ids[1]


@installed
def test_what_the_package_really_refuses():
    for wrong, words in (
        ({"name": "chain_sums"}, "Did you mean 'chain_sum'"),
        ({"settings": {"min_term": 3}}, "Did you mean 'min_terms'"),
        ({"settings": {"min_terms": -3}}, "refused its settings"),
    ):
        with pytest.raises(ConfigError, match=words):
            ReasoningGym(**{"name": "chain_sum", **wrong}).problems()


@installed
def test_an_answer_that_computes_for_ever_gets_no_verdict(monkeypatch):
    task = ReasoningGym("countdown", size=1)
    (problem,) = task.problems()
    monkeypatch.setattr(gym_worker.worker, "_scoring", 1.0)
    before = len(failures)
    assert task.correct(Answer("9**9**9**9", "x"), problem) is None
    del failures[before:]
    monkeypatch.setattr(gym_worker.worker, "_scoring", 60.0)
    assert task.correct(task.answer(problem.gold, problem), problem) is True
