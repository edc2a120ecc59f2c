"""The step verifier of number games: equations, numbers that are left, final expressions, dead ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow import plugins
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.tasks.countdown import Countdown, worked
from ttsflow.tasks.reach import solution
from ttsflow.testing.contracts import VerifierContract
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.countdown import CountdownSteps

GAME = Problem("?", id="g", data={"numbers": (3, 3, 8, 8), "target": 24, "all": True})
EASY = Problem("?", id="e", data={"numbers": (1, 2, 3, 8), "target": 24, "all": False})
OTHER = Problem("?", id="o")
SOLVED = """8 / 3 = 8/3 (left: 3, 8, 8/3)
3 - (8/3) = 1/3 (left: 8, 1/3)
8 / (1/3) = 24 (left: 24)
Answer: 8 / (3 - 8 / 3)"""


@pytest.mark.parametrize("part", [CountdownSteps(), CountdownSteps(reachable=True, unchecked=0.25)])
class TestContract(VerifierContract):
    pass


def scores(text, problem=GAME, finish="step", **settings):
    verifier = CountdownSteps(**settings).open()
    verifier.submit("x", problem, Candidate((0,), (), text=text, finish=finish))
    (verdict,) = verifier.step()
    assert verdict.reason == ""
    return list(verdict.scores)


def test_a_worked_solution_is_right_throughout():
    for reachable in (False, True):
        assert scores(SOLVED, finish="stop", reachable=reachable) == [1.0] * 4


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("8 - 3 = 5 (left: 3, 8, 5)", [1.0]),
        ("8 - 3 = 5 (left: 8 5 3)", [1.0]),
        ("8 - 3 = 5 (remaining: 8, 5, 3)", [1.0]),
        ("8 - 3 = 5, numbers left: 8, 5, 3", [1.0]),
        ("Step 1: 8 - 3 = 5", [1.0]),
        ("1. 8 \u2212 3 = 5 (left: 3, 8, 5)", [1.0]),
        ("8 - 3 = 6", [0.0]),
        ("8 - 3 = 5 (left: 3, 5)", [0.0]),
        ("8 - 3 = 5 (left: 3, 3, 8, 5)", [0.0]),
        ("8 - 3 = 5 (left: 1/0)", [0.0]),
        ("8 - 4 = 4", [0.0]),
        ("8 * 8 = 64\n64 - 8 = 56", [1.0, 0.0]),
        ("3 * 3 = 9\n9 - 8 = 1\n8 * 1 = 8", [1.0, 1.0, 1.0]),
        ("8 - 3 = 6 (left: 3, 8, 6)\n6 * 3 = 18", [0.0, 0.0]),
        ("8 - 3 = 6\n8 - 3 = 5\n5 * 3 = 15", [0.0, 1.0, 1.0]),
        ("8 / 3 = 2.67", [0.0]),
        ("8 / (3 - 3) = 24", [0.0]),
        ("8 - 3 = 5 = 5 * 1", [1.0]),
        ("8 - 3 = 5, 5 + 3 = 8 (left: 8, 8)", [1.0]),
        ("8 - 3 = 5, 5 + 8 = 14", [0.0]),
        ("3 - 8 = -5 (left: 3, 8, -5)\n3 - (-5) = 8 (left: 8, 8)", [1.0, 1.0]),
        ("3 - 8 = -5\n-5 + 8 = 3", [1.0, 1.0]),
        ("8 / 3 = 8/3\n3 - 8/3 = 1/3", [1.0, 1.0]),
        ("8 / 3 - 3 = -1/3 (left: 8, -1/3)", [1.0]),
        ("Let me see.\n8 - 3 = 5", [0.5, 1.0]),
        ("3 * 8", [0.5]),
        ("left: 3, 3, 8, 8", [0.5]),
        ("8 / (3 - 8 / 3) = 25", [0.0]),
        ("8 / (3 - 8 / 3) = 24 (left: 1)", [0.0]),
        ("", []),
        ("\n\n8 - 3 = 5\n", [1.0]),
    ],
)
def test_steps(text, wanted):
    assert scores(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Answer: 8 / (3 - 8 / 3)", 1.0),
        ("Answer: 8 / (3 - 8 / 3) = 24.", 1.0),
        ("So 8 / (3 - 8 / 3) = 24", 1.0),
        (r"\boxed{\frac{8}{3 - 8 / 3}}", 1.0),
        ("Answer: 3 * 8", 0.0),
        ("Answer: 3 * 8 + 3 - 8", 0.0),
        ("Answer: 24", 0.0),
        ("Answer: 8 / (3 - 3)", 0.0),
        ("The answer is close.", 0.5),
    ],
)
def test_final_expressions_are_checked_exactly(text, wanted):
    assert scores(text) == [wanted]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Answer: 3 * 8 : 7",
            "Answer: 3 * 8 mod 100",
            "Answer: - 3 * 8",
            "Answer: 3 * 8 = 25",
            "3 * 8 minus 2",
        ),
        *(
            "Answer: 3 * 8\n- 3",
            "3 * 8 = 24\nminus 3",
            "minus\n3 * 8",
            "half of\n\\boxed{3 * 8}",
            "- 3 * 8 = 24",
        ),
        *("\\boxed{3 * 8}\\cdot 2", "\\sqrt 3 * 8", "3 * 8 \u2797 2"),
    ],
)
def test_a_final_expression_stands_alone(text):
    assert scores(text, EASY, "stop")[-1] == 0.0


def test_a_final_expression_may_go_on_in_the_next_line():
    assert scores("Answer: 3 * 8\n= 24", EASY, "stop") == [1.0, 1.0]
    assert scores("Answer: 3 * 8\n\nDone.", EASY, "stop") == [1.0, 0.5]


def test_where_not_all_numbers_are_needed():
    assert scores("3 * 8 = 24 (left: 1, 2, 24)\nAnswer: 3 * 8", EASY, "stop") == [1.0, 1.0]
    assert scores("Answer: 3 * 8 * 1", EASY, "stop") == [1.0]
    assert scores("Answer: 3 * 8 * 1 * 1", EASY, "stop") == [0.0]


def test_what_ends_unsolved_ends_with_a_wrong_step():
    assert scores("8 - 3 = 5", finish="stop") == [0.0]
    assert scores("8 - 3 = 5\nI give up.", finish="stop") == [1.0, 0.0]
    assert scores("8 - 3 = 5", finish="step") == [1.0]
    assert scores(f"{SOLVED}\nDone.", finish="stop") == [1.0, 1.0, 1.0, 1.0, 0.5]


def test_dead_ends_count_only_when_asked_for():
    dead, alive = "8 - 3 = 5 (left: 3, 8, 5)", "8 / 3 = 8/3 (left: 3, 8, 8/3)"
    assert scores(f"{dead}\n5 * 8 = 40") == [1.0, 1.0]
    assert scores(f"{dead}\n5 * 8 = 40", reachable=True) == [0.0, 0.0]
    assert scores(f"{dead}\n{alive}", reachable=True) == [0.0, 1.0]
    assert scores("2 - 1 = 1", EASY, reachable=True) == [1.0]
    assert scores("8 - 3 = 5", EASY, reachable=True) == [0.0]
    seven = Problem("?", data={"numbers": (1,) * 8, "target": 24, "all": True})
    assert scores("1 + 1 = 2", seven, reachable=True) == [1.0]


def test_problems_that_are_no_game_are_judged_by_their_equations_alone():
    assert scores("3 * 4 = 12\nwell\n12 - 2 = 11\nAnswer: 11", OTHER, "stop") == [1.0, 0.5, 0.0, 0.5]


def test_settings():
    assert scores("Hello", unchecked=None) == [None]
    assert scores("a; 8 - 3 = 5", separator=";") == [0.5, 1.0]
    assert scores("a\n8 - 3 = 5\n5 - 3 = 2\n\n8 * 8 = 64", separator="\n\n") == [1.0, 0.0]
    with pytest.raises(ConfigError):
        CountdownSteps(unchecked=2.0)
    with pytest.raises(ConfigError):
        CountdownSteps(separator="")
    mapping = compose(["verifier=countdown", "engine=fake", "strategy=best_of_n"])["verifier"]
    assert build("verifier", mapping, "verifier", plugins.load()) == CountdownSteps()


def test_the_gold_answer_is_never_read():
    class Sealed:
        id, prompt, data = "s", "?", GAME.data

    assert scores(SOLVED, Sealed(), "stop", reachable=True) == [1.0] * 4


def test_hostile_steps_take_no_time():
    many = Problem("?", data={"numbers": (1, 2, 3, 4, 5, 6), "target": 24, "all": True})
    for text in ("8/3+" * 70 + "1 = 5", "(" * 3000 + "= 3", "1/2+1/2=" * 400, "-" * 3000 + "1 = 1 + 1"):
        assert scores(text, many)[0] in (0.0, 0.5)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.integers(2, 4), st.booleans(), st.integers(0, 10**6), st.data())
def test_worked_solutions_pass_and_a_changed_result_does_not(numbers, every, seed, data):
    problem = Countdown(numbers, high=9, all=every, size=1, seed=seed, shots=0).problems()[0]
    given = problem.data["numbers"]
    lines = worked(given, solution(given, problem.data["target"], every=every)).split("\n")
    for reachable in (False, True):
        assert scores("\n".join(lines), problem, "stop", reachable=reachable) == [1.0] * len(lines)
    place = data.draw(st.integers(0, len(lines) - 2))
    head, _, rest = lines[place].partition(" = ")
    result, _, left = rest.partition(" (left:")
    lines[place] = f"{head} = {result}1 (left:{left}"
    assert scores("\n".join(lines), problem)[place] == 0.0
