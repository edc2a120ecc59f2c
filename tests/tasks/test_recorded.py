import importlib.util
import json

import pytest

from ttsflow.errors import ConfigError, DataError, MissingExtra
from ttsflow.protocols import Task
from ttsflow.recordings import Recording, Sample, write_recordings
from ttsflow.tasks import recorded
from ttsflow.tasks.recorded import Recorded
from ttsflow.testing.contracts import TaskContract
from ttsflow.types import Answer


def sample(answer, correct=None, **fields):
    return Sample(answer, 5, correct, **{"finish": "stop", **fields})


@pytest.fixture
def made(tmp_path):
    def make(*samples, gold="4", recordings=None, **settings):
        file = tmp_path / "r.jsonl"
        write_recordings(file, recordings or [Recording("q", samples, gold=gold)])
        return Recorded(str(file), **settings)

    return make


class TestContract(TaskContract):
    """Only recorded texts have an answer here."""

    @pytest.fixture
    def part(self, made):
        return made(sample("4", text="four"), sample("5"), sample(None))

    def test_answers(self, part):
        [problem] = part.problems()
        assert part.answer("four", problem) == Answer("4", "4")
        assert part.correct(part.answer("four", problem), problem) is True
        assert part.correct(None, problem) is False
        assert part.answer("", problem) is None
        assert part.answer("Answer: 4", problem) is None


def test_it_is_a_task(made):
    assert isinstance(made(sample("4")), Task)


def test_problems_are_the_recordings(made):
    task = made(
        recordings=[Recording("a", (sample("1"),)), Recording("m/d/7", (sample("2"),), "m", "d", "2")]
    )
    assert [(p.id, p.prompt, p.gold) for p in task.problems()] == [("a", "a", None), ("m/d/7", "m/d/7", "2")]


def test_the_shipped_ones_are_the_default():
    assert len(Recorded().problems()) == 516
    assert len(Recorded(model="R1", dataset="gpqa").problems()) == 198


@pytest.mark.parametrize(
    ("chosen", "path", "message"),
    [
        ({"model": "R2"}, "model", "a model 'R2'. Did you mean 'R1'? Known: R1, R1DistilQwen."),
        ({"model": "R1", "dataset": "aime"}, "dataset", "a data set 'aime'. Did you mean 'aime2024'?"),
    ],
)
def test_what_is_not_in_the_file(chosen, path, message):
    with pytest.raises(ConfigError) as caught:
        Recorded(**chosen).problems()
    assert (caught.value.path, message in caught.value.message) == (path, True)


def test_answers_are_those_recorded_never_read_again(made):
    task = made(sample("4", text="The answer is 5."), sample("7"))
    [problem] = task.problems()
    assert task.answer("The answer is 5.", problem) == Answer("4", "4")
    assert task.answer(r"\boxed{7}", problem) == Answer("7", "7")
    assert task.answer(r"\boxed{8}", problem) is None


def test_one_text_with_two_answers_is_refused(made):
    with pytest.raises(DataError, match="q: sample 1 has the text of an earlier one, but another answer"):
        made(sample("4", text="x"), sample("5", text="x")).problems()


def answers(task):
    [problem] = task.problems()
    return [(a.key, task.correct(a, problem)) for s in SAMPLES if (a := task.answer(s.said, problem))]


SAMPLES = [
    sample("1/2", correct=True),
    sample("0.5"),
    sample("0.50", correct=True),
    sample("3", correct=False),
]


def test_without_a_kind_answers_are_texts(made):
    assert answers(made(*SAMPLES, gold=r"\frac{1}{2}")) == [
        ("1/2", True),
        ("0.5", False),
        ("0.50", True),
        ("3", False),
    ]


def test_with_a_kind_equal_answers_are_one(made):
    assert answers(made(*SAMPLES, gold=r"\frac{1}{2}", kind="number")) == [
        ("1/2", True),
        ("1/2", True),
        ("1/2", True),
        ("3", False),
    ]


def test_verdicts_that_disagree_leave_it_to_the_gold_answer(made):
    samples = [sample("1/2", correct=True), sample("0.5", correct=False)]
    for gold, right in (("0.5", True), ("2", False), (None, None)):
        task = made(*samples, gold=gold, kind="number")
        [problem] = task.problems()
        assert task.correct(task.answer(r"\boxed{0.5}", problem), problem) is right


def test_choices_and_texts(made):
    task = made(sample("b"), gold=" B ", kind="choice")
    [problem] = task.problems()
    assert problem.gold == "B"
    assert task.correct(task.answer(r"\boxed{b}", problem), problem) is True
    task = made(sample("the  Sea"), gold="The sea.", kind="text")
    [problem] = task.problems()
    assert task.correct(task.answer(r"\boxed{the  Sea}", problem), problem) is True


def test_a_verdict_wins_over_the_gold_answer(made):
    task = made(sample("4", correct=False))
    [problem] = task.problems()
    assert task.correct(Answer("4", "4"), problem) is False


def test_nothing_known_is_no_verdict(made):
    task = made(sample("4"), gold=None)
    [problem] = task.problems()
    assert task.correct(Answer("4", "4"), problem) is None
    assert task.correct(None, problem) is None
    task = made(sample("4", correct=True), gold=None)
    [problem] = task.problems()
    assert task.correct(None, problem) is False


def test_gold_answers_of_another_kind(made):
    recordings = [
        Recording(name, (sample("1"),), gold=gold) for name, gold in (("a", "none"), ("b", "4"), ("c", None))
    ]
    with pytest.warns(UserWarning, match="1 of 3 gold answers are not of kind number .* that of a"):
        assert [p.gold for p in made(recordings=recordings, kind="number").problems()] == [None, "4", None]
    with pytest.raises(DataError, match="no gold answer of these 1 problems is of kind number"):
        made(sample("1"), gold="none", kind="number").problems()


def test_math_needs_its_package_only_to_compare(made, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert made(sample("x^2", correct=True), kind="math").problems()
    with pytest.raises(MissingExtra):
        made(sample("x^2"), kind="math").problems()


def test_words(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"problem": 1, "samples": [{"pred": 2, "text": "so 2"}]}) + "\n")
    [problem] = Recorded(str(path), count="words").problems()
    assert problem.data["answers"] == {"so 2": "2"}
    with pytest.raises(DataError, match="set `count: words`"):
        Recorded(str(path)).problems()


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"kind": "letter"}, "kind"),
        ({"count": "bytes"}, "count"),
        ({"separator": ""}, "separator"),
        ({"stop": "\\n"}, "stop"),
    ],
)
def test_bad_settings(settings, path):
    with pytest.raises(ConfigError) as caught:
        Recorded(**settings)
    assert caught.value.path == path


def test_module_names_its_part():
    assert recorded.__all__ == ["Recorded"]


def test_a_gold_choice_is_one_label(made):
    recordings = [
        Recording(gold, (sample("(b)"),), gold=gold) for gold in ("B", "(b)", "b.", "12", "abc", "-3")
    ]
    with pytest.warns(UserWarning, match="2 of 6 gold answers are not of kind choice .* that of abc"):
        problems = (task := made(recordings=recordings, kind="choice")).problems()
    assert [problem.gold for problem in problems] == ["B", "B", "B", "12", None, None]
    right = [task.correct(task.answer(r"\boxed{(b)}", problem), problem) for problem in problems]
    assert right == [True, True, True, False, None, None]
    with pytest.raises(DataError, match="no gold answer of these 1 problems is of kind choice"):
        made(sample("B"), gold="abc", kind="choice").problems()
