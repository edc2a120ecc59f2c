import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.protocols import Task
from ttsflow.tasks.arithmetic import Arithmetic, worked


def test_it_is_a_task():
    assert isinstance(Arithmetic(), Task)


def test_a_smaller_set_is_the_beginning_of_a_larger_one():
    assert Arithmetic(size=30).problems() == Arithmetic(size=60).problems()[:30]
    assert Arithmetic(size=30, seed=1).problems() != Arithmetic(size=30).problems()


def test_problems_are_distinct_while_there_are_enough():
    problems = Arithmetic(terms=2, size=77).problems()
    assert len({problem.data["terms"] for problem in problems}) == 77
    assert {digit for problem in problems for digit in problem.data["terms"]} == set(range(1, 10))


def test_ids_stay_unique_when_problems_repeat():
    problems = Arithmetic(terms=2, size=200).problems()
    assert len({problem.id for problem in problems}) == 200
    assert sum(problem.id.endswith("-3") for problem in problems) == 200 - 2 * 77


def test_ids_are_readable():
    problem = Arithmetic().problems()[0]
    assert problem.id == "arithmetic-" + "+".join(map(str, problem.data["terms"]))


def test_examples_are_the_same_for_all_and_none_of_the_problems():
    problems = Arithmetic(terms=2, size=77).problems() + Arithmetic(terms=2, size=20, seed=5).problems()
    heads = {problem.prompt.rpartition("Add ")[0] for problem in problems}
    assert len(heads) == 1
    for problem in problems:
        asked = problem.prompt.rpartition("Add ")[2]
        assert f"Add {asked}" not in heads.copy().pop()


def test_number_of_examples():
    for examples in (0, 1, 4):
        prompt = Arithmetic(examples=examples, size=1).problems()[0].prompt
        assert prompt.count("Answer:") == examples
        assert prompt.count("Add ") == examples + 1


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.integers(2, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_the_worked_solution_gives_the_gold_answer(terms, digits, seed):
    task = Arithmetic(terms=terms, digits=digits, size=3, seed=seed)
    for problem in task.problems():
        answer = task.answer(worked(problem.data["terms"]), problem)
        assert answer.key == problem.gold
        assert task.correct(answer, problem) is True


def test_a_stop_string_ends_the_worked_solution_and_never_comes_earlier():
    task = Arithmetic()
    text = worked((3, 4, 5)) + "."
    assert all(stop not in text[:-1] for stop in task.stop)
    assert text.endswith(task.stop[0])
    assert text.count(task.separator) == 2


@pytest.mark.parametrize("text", ["", "I do not know.", "Answer:", "Answer: twelve", "Answer: 1 + 2"])
def test_what_states_no_number_gives_no_answer(text):
    task = Arithmetic()
    problem = task.problems()[0]
    assert task.answer(text, problem) is None
    assert task.correct(None, problem) is False


def test_the_last_answer_line_counts_and_zero_is_an_answer():
    task = Arithmetic()
    problem = task.problems()[0]
    assert task.answer("Answer: 3\nAnswer: 0.", problem).key == "0"
    assert task.answer("Answer: 1,200", problem).key == "1200"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"terms": 1}, "terms"),
        ({"digits": 0}, "digits"),
        ({"size": 0}, "size"),
        ({"examples": -1}, "examples"),
    ],
)
def test_settings_are_checked(settings, field):
    with pytest.raises(ConfigError) as caught:
        Arithmetic(**settings)
    assert caught.value.path == field


def test_without_an_answer_line_the_last_addition_answers():
    task = Arithmetic()
    problem = task.problems()[0]
    assert task.answer("3 + 4 = 7\n7 + 5 = 12", problem).key == "12"
    assert task.answer("3 + 4 = 7\n7 + 5 = 12\n", problem).key == "12"
    assert task.answer("3 + 4 = 7\nand then", problem) is None
    assert task.answer("Answer: 9\n7 + 5 = 12", problem).key == "9"
