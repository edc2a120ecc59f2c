import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.protocols import VerifierPart
from ttsflow.tasks.arithmetic import Arithmetic, worked
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.equations import Equations
from ttsflow.verifiers.reading import equations_in

ANY = Problem("p", id="p")
SUM = Problem("3 + 4 + 5", id="s", gold=None, data={"terms": (3, 4, 5)})


def scores(text, problem=SUM, **settings):
    verifier = Equations(**settings).open()
    verifier.submit("x", problem, Candidate((0,), (), text=text))
    (verdict,) = verifier.step()
    assert verdict.reason == ""
    return list(verdict.scores)


def holds(text):
    return [equation.holds for equation in equations_in(text)]


def test_it_is_a_verifier_part():
    assert isinstance(Equations(), VerifierPart)


@pytest.mark.parametrize(
    "text",
    [
        "3 + 4 = 7",
        "so 3 + 4 = 7.",
        "1) 3+4=7",
        "2. 3 + 4 = 7",
        "Step 1: 3 + 4 = 7",
        "12 = 7 + 5",
        "3 + 4 + 5 = 7 + 5 = 12",
        "1,000 + 234 = 1,234",
        "0.1 + 0.2 = 0.3",
        "10 / 3 = 3.33",
        "20 / 3 \u2248 6.7",
        "2 x 3 = 6",
        "2 \u00d7 3 = 6",
        r"$2 \times 3 = 6$",
        "7 \u2212 4 = 3",
        "(1 + 2) * 3 = 9",
        "$9 * 2 = $18",
        "-3 + 5 = 2",
        r"\frac{1}{2} + \frac{1}{2} = 1",
        "3 apples + 4 apples = 7 apples",
        "x = 3 + 4 = 7",
    ],
)
def test_true_equations(text):
    assert holds(text) == [True]


@pytest.mark.parametrize(
    "text",
    [
        "3 + 4 = 8",
        "so 3 + 4 = 8.",
        "3 + 4 + 5 = 7 + 5 = 13",
        "3 + 4 = 6 + 1 = 8",
        "1,000 + 1 = 1,002",
        "10 / 3 = 3.34",
        "7 / 2 = 3",
        "2 x 3 = 7",
    ],
)
def test_false_equations(text):
    assert holds(text) == [False]


@pytest.mark.parametrize(
    "text",
    [
        "2x + 3 = 7",
        "x^2 + 3 = 5",
        "a + 3 = 5",
        "5% of 20 = 1",
        "half of 20 = 10",
        "5 = 2 + y",
        "1 + 1 = 2y",
        "3 + 4 =",
        "= 7",
        "2^3 = 8",
        "5! = 120",
        "10 / 0 = 3",
        "no numbers",
        "3 + 4 = 7 " * 1000,
        "3 4 + 5 = 9 9",
    ],
)
def test_what_cannot_be_read_for_sure_is_not_judged(text):
    assert holds(text) == []


def test_several_equations_in_one_step():
    assert holds("16 - 3 = <<16-3=13>>13, then 13 + 1 = 15") == [True, False]


def test_the_worked_solution_is_right_throughout():
    assert scores(worked((3, 4, 5))) == [1.0, 1.0, 1.0]
    assert scores("3 + 4 = 7\n") == [1.0]
    assert scores("") == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3 + 4 = 8", [0.0]),
        ("3 + 4 = 8\n8 + 5 = 13\nAnswer: 13", [0.0, 0.0, 0.0]),
        ("3 + 4 = 8\n3 + 4 = 7\n7 + 5 = 12\nAnswer: 12", [0.0, 1.0, 1.0, 1.0]),
        ("3 + 4 = 7\n7 + 5 = 12\nAnswer: 13", [1.0, 1.0, 0.0]),
        ("3 + 4 = 7\nAnswer: 7", [1.0, 0.0]),
        ("Answer: 12", [0.0]),
        ("3 + 6 = 9", [0.0]),
        ("3 + 3 = 6", [0.0]),
        ("3 + 4 = 7\n7 + 4 = 11", [1.0, 0.0]),
        ("3 * 4 = 12\nAnswer: 12", [0.0, 0.0]),
        ("5 + 4 = 9\n3 + 9 = 12\nAnswer: 12", [1.0, 1.0, 1.0]),
        ("3 + 4 + 5 = 12\nAnswer: 12.", [1.0, 1.0]),
        ("Let me add.\n3 + 4 = 7", [0.5, 1.0]),
    ],
)
def test_steps_of_a_sum_must_use_its_terms(text, wanted):
    assert scores(text) == wanted


def test_other_problems_are_judged_step_by_step():
    text = "3 * 4 = 12\nThat is 12 a day.\n12 - 2 = 11\n12 - 2 = 10\nThe answer is 10."
    assert scores(text, ANY) == [1.0, 0.5, 0.0, 1.0, 1.0]
    assert scores("3 * 4 = 12\n#### 13", ANY) == [1.0, 0.0]
    assert scores("The answer is 13.", ANY) == [0.5]


def test_the_score_of_unchecked_steps_is_a_setting():
    assert scores("Hello", unchecked=None) == [None]
    assert scores("Hello", unchecked=0.0) == [0.0]
    assert scores("a; b; 3 + 4 = 7", separator=";") == [0.5, 0.5, 1.0]
    with pytest.raises(ConfigError):
        Equations(unchecked=2.0)
    with pytest.raises(ConfigError):
        Equations(separator="")


def test_the_gold_answer_is_never_read():
    class Sealed:
        id, prompt, data = "s", "3 + 4 + 5", {"terms": (3, 4, 5)}

    assert scores(worked((3, 4, 5)), Sealed()) == [1.0, 1.0, 1.0]


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.integers(2, 8), st.integers(1, 4), st.integers(0, 10**6), st.data())
def test_right_sums_pass_and_a_changed_result_does_not(terms, digits, seed, data):
    problem = Arithmetic(terms=terms, digits=digits, size=1, seed=seed).problems()[0]
    lines = worked(problem.data["terms"]).split("\n")
    assert scores("\n".join(lines), problem) == [1.0] * len(lines)
    place = data.draw(st.integers(0, len(lines) - 1))
    head, _, number = lines[place].rpartition(" ")
    off = data.draw(st.integers(-20, 20).filter(bool))
    lines[place] = f"{head} {int(number) + off}"
    assert scores("\n".join(lines), problem)[place] == 0.0


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(-5, 5))
def test_an_equation_holds_exactly_when_it_is_true(left, right, off):
    text = f"{left:,} + {right} = {left + right + off}"
    if left + right + off >= 0:
        assert holds(text) == [off == 0]


def test_a_sum_that_ends_before_all_terms_are_used_ends_with_a_wrong_step():
    problem = Problem("?", data={"terms": (3, 4, 5)})
    texts = {"3 + 4 = 7": [0.0], "3 + 4 = 7\n7 + 5 = 12": [1.0, 1.0], "3 + 4 = 7\nAnswer: 7": [1.0, 0.0]}
    for text, scores in texts.items():
        ended = Candidate((0,), (), (1,), text, finish="stop")
        assert Equations().score([(problem, ended)]) == [scores]
    # One that can go on has left nothing undone.
    active = Candidate((0,), (), (1,), "3 + 4 = 7", finish="step")
    assert Equations().score([(problem, active)]) == [[1.0]]
