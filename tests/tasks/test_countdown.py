"""Number games: generation, the exact search, reading expressions, their one form, and what is right."""

import random
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow import plugins
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.tasks.countdown import Countdown, worked
from ttsflow.tasks.countdown_answers import final_in
from ttsflow.tasks.expression import Negative, Operation, chains_in, evaluate, read, written
from ttsflow.tasks.reach import MOST, out_of_reach, solution
from ttsflow.testing.contracts import TaskContract
from ttsflow.types import Message, Problem

GAME24 = {"high": 13, "target": 24, "all": True}
LITTLE = {"numbers": 2, "low": 3, "high": 5, "target_low": 1, "target_high": 20, "shots": 1}


@pytest.mark.parametrize(
    "part",
    [
        Countdown(size=5),
        Countdown(**GAME24, size=5),
        Countdown(chat=True, size=5),
        Countdown(**LITTLE, size=60),
    ],
)
class TestContract(TaskContract):
    pass


# --- generation -----------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(st.integers(2, 4), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_every_problem_has_a_solution_which_is_right(numbers, every, drawn, seed):
    task = Countdown(numbers, high=9, target=None if drawn else 24, all=every, size=3, seed=seed, shots=1)
    for problem in task.problems():
        given = problem.data["numbers"]
        assert len(given) == numbers
        assert all(1 <= number <= 9 for number in given)
        assert 10 <= problem.data["target"] <= 100
        assert every or problem.data["target"] not in given
        tree = solution(given, problem.data["target"], every=every)
        for text in (problem.gold, worked(given, tree), worked(given, tree) + "."):
            answer = task.answer(f"Answer: {text}" if text == problem.gold else text, problem)
            assert task.correct(answer, problem) is True


@pytest.mark.slow
def test_a_smaller_set_is_the_beginning_of_a_larger_one():
    assert Countdown(size=10).problems() == Countdown(size=20).problems()[:10]
    assert Countdown(size=10, seed=1).problems() != Countdown(size=10).problems()


def test_problems_stay_what_they_are():
    """Published numbers depend on them, so they change neither with Python nor with this package."""
    assert [problem.id for problem in Countdown(size=3).problems()] == [
        "countdown-11,7,19,14-38",
        "countdown-4,21,25,21-28",
        "countdown-7,17,23,18-19",
    ]
    assert [problem.id for problem in Countdown(**GAME24, size=2).problems()] == [
        "countdown-all-7,4,7,7-24",
        "countdown-all-10,1,10,5-24",
    ]


def test_problems_that_run_out_come_again():
    problems = Countdown(**LITTLE, size=60).problems()
    ids = [problem.id for problem in problems]
    first = [name for name in ids if name.count("-") == 2]
    assert len(set(ids)) == 60
    assert ids[len(first) : 2 * len(first)] == [f"{name}-2" for name in first]
    games = {(*sorted(problem.data["numbers"]), problem.data["target"]) for problem in problems[: len(first)]}
    assert len(games) == len(first)


def test_the_examples_are_none_of_the_problems():
    problems = [*Countdown(**LITTLE, size=60).problems(), *Countdown(**LITTLE, size=60, seed=7).problems()]
    (shown,) = {problem.prompt.rpartition("Make ")[0] for problem in problems}
    assert shown.count("Answer:") == 1
    (line,) = [line for line in shown.splitlines() if line.startswith("Make ")]
    for problem in problems:
        left, right = sorted(problem.data["numbers"])
        for pair in ((left, right), (right, left)):
            assert not line.startswith(f"Make {problem.data['target']} from {pair[0]}, {pair[1]},")


def test_the_prompt_says_all_the_rules():
    raw = Countdown(shots=2, size=1).problems()[0].prompt
    assert raw.endswith("Make 38 from 11, 7, 19, 14, each number at most once\n")
    assert raw.count("Answer:") == 2
    chat = Countdown(**GAME24, shots=1, size=1, chat=True).problems()[0].prompt
    assert [turn.role for turn in chat] == ["user", "assistant", "user"]
    assert isinstance(chat[0], Message)
    assert "exactly once" in chat[-1].content
    assert Countdown(shots=0, size=1).problems()[0].prompt.count("Make") == 1


def test_a_stop_string_ends_a_worked_solution_and_never_comes_earlier():
    task = Countdown(size=10)
    for problem in task.problems():
        tree = solution(problem.data["numbers"], problem.data["target"], every=False)
        text = worked(problem.data["numbers"], tree) + "."
        assert not any(stop in text[:-1] for stop in task.stop)
        assert text.endswith(task.stop[0])
    assert task.separator == "\n"
    assert task.probe == "\nAnswer:"
    assert Countdown(chat=True).stop == ()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"numbers": 1}, "numbers"),
        ({"numbers": 7}, "numbers"),
        ({"low": 0}, "low"),
        ({"low": 30}, "low"),
        ({"high": 10**7}, "high"),
        ({"target": 0}, "target"),
        ({"target": 10**9}, "target"),
        ({"target_low": 50, "target_high": 40}, "target_low"),
        ({"target_low": 10**7, "target_high": 10**8}, "target_low"),
        ({"size": 0}, "size"),
        ({"shots": -1}, "shots"),
    ],
)
def test_settings_are_checked(wrong, field):
    with pytest.raises(ConfigError) as caught:
        Countdown(**wrong)
    assert caught.value.path == field


@pytest.mark.parametrize(
    ("impossible", "field"),
    [
        ({"low": 13, "high": 13, "target": 23, "all": True}, "target"),
        (
            {"numbers": 3, "low": 1000, "high": 1001, "target_low": 70, "target_high": 71, "shots": 0},
            "target_low",
        ),
        ({"numbers": 6, "low": 3, "high": 3, "target": 1931, "all": True}, "target"),
        ({"low": 6, "high": 6, "target": 24, "all": True, "shots": 1}, "target"),
    ],
)
def test_a_target_out_of_reach_is_an_error_and_no_endless_search(impossible, field):
    with pytest.raises(ConfigError, match="no problem was found") as caught:
        Countdown(**impossible).problems()
    assert caught.value.path == field


def test_the_config_files_say_what_the_part_says():
    for name, part in (("countdown", Countdown()), ("game24", Countdown(**GAME24))):
        mapping = compose([f"task={name}", "engine=fake", "strategy=single"])["task"]
        assert build("task", mapping, "task", plugins.load()) == part


# --- the search -----------------------------------------------------------------------------------------


def everything(numbers):
    """Return every value of all numbers, found in the plainest way: join any two, go on with the rest."""
    if len(numbers) == 1:
        return {numbers[0]}
    found = set()
    for one, other in combinations(range(len(numbers)), 2):
        a, b = numbers[one], numbers[other]
        rest = [number for place, number in enumerate(numbers) if place not in (one, other)]
        for value in {a + b, a - b, b - a, a * b, *([a / b] if b else []), *([b / a] if a else [])}:
            found |= everything([*rest, value])
    return found


def leaves_of(tree):
    return [tree] if isinstance(tree, Fraction) else leaves_of(tree.left) + leaves_of(tree.right)


small = st.fractions(min_value=-3, max_value=6, max_denominator=3)


@settings(deadline=None, max_examples=15)
@given(st.lists(small, min_size=1, max_size=4), st.data())
def test_the_search_finds_what_there_is_and_nothing_else(numbers, data):
    values = everything(numbers)
    goal = data.draw(st.one_of(st.sampled_from(sorted(values)), st.integers(-30, 30).map(Fraction)))
    tree = solution(numbers, goal, every=True)
    assert (tree is not None) == (goal in values)
    if tree is not None:
        assert evaluate(tree) == goal
        assert sorted(leaves_of(tree)) == sorted(numbers)
    if len(numbers) < 4:
        sets = (part for size in range(1, len(numbers) + 1) for part in combinations(numbers, size))
        some = set().union(*(everything(list(part)) for part in sets))
        assert (solution(numbers, goal, every=False) is not None) == (goal in some)


def test_known_games():
    assert evaluate(solution((3, 3, 8, 8), 24, every=True)) == 24
    assert solution((1, 1, 1, 1), 24, every=True) is None
    assert solution((24, 1), 24, every=False) == Fraction(24)
    assert evaluate(solution((1, 3, 7, 10, 25, 50), 765, every=False)) == 765
    assert solution((5, 5, 0), 0, every=True) is not None
    with pytest.raises(ValueError, match="at most"):
        solution((1,) * (MOST + 1), 2, every=True)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=3), st.data())
def test_what_is_out_of_reach_is_out_of_reach(numbers, data):
    goal = data.draw(st.sampled_from(sorted(v for v in everything([*map(Fraction, numbers)]) if v > 0)))
    assert not out_of_reach(numbers, goal)


# --- expressions ------------------------------------------------------------------------------------


def trees(leaves):
    return st.recursive(
        leaves.map(Fraction),
        lambda below: st.one_of(
            st.builds(Operation, st.sampled_from("+-*/"), below, below), st.builds(Negative, below)
        ),
        max_leaves=6,
    )


def parts(tree, signs):
    """Return the parts of a sum or a product, True where they are added or multiplied."""
    if isinstance(tree, Operation) and tree.sign in signs:
        right = parts(tree.right, signs)
        return parts(tree.left, signs) + [((tree.sign == signs[0]) == plus, part) for plus, part in right]
    return [(True, tree)]


def rearranged(tree, rng):
    """Return a tree that says the same in another order and with other brackets."""
    if isinstance(tree, Negative):
        return Negative(rearranged(tree.of, rng))
    if isinstance(tree, Fraction):
        return tree
    signs = "+-" if tree.sign in "+-" else "*/"
    pieces = [(plus, rearranged(part, rng)) for plus, part in parts(tree, signs)]
    rng.shuffle(pieces)
    pieces.sort(key=lambda piece: not piece[0])

    def build(pieces):
        if len(pieces) == 1:
            return pieces[0][1]
        cut = rng.randrange(1, len(pieces))
        head, tail = pieces[:cut], pieces[cut:]
        flip = not tail[0][0]
        inner = build(sorted(((plus != flip, part) for plus, part in tail), key=lambda piece: not piece[0]))
        return Operation(signs[1] if flip else signs[0], build(head), inner)

    return build(pieces)


@settings(deadline=None, max_examples=30)
@given(trees(st.integers(0, 12)), st.randoms(use_true_random=False))
def test_rearrangements_are_one_answer(tree, rng):
    one, other = read(written(tree)), read(written(rearranged(tree, rng)))
    assert one.value == evaluate(tree)
    assert one.key == other.key or None in (one.value, other.value)
    assert one.value == other.value or None in (one.value, other.value)
    assert sorted(one.numbers) == sorted(other.numbers)


@settings(deadline=None, max_examples=30)
@given(trees(st.integers(1, 4)), trees(st.integers(1, 4)))
def test_what_has_another_value_is_another_answer(one, other):
    left, right = read(written(one)), read(written(other))
    assert left.value == right.value or left.key != right.key


def test_what_divides_by_zero_has_no_value_and_a_key_of_its_own():
    one, other = read("0 / (1 / 0)"), read("0 * 0 / 1")
    assert one.value is None
    assert one.key != other.key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("8*3-2+1", "1 + (3*8 - 2)"),
        ("8 - (3 - 2)", "2 + 8 - 3"),
        ("8 / (3 / 2)", "2 * 8 / 3"),
        ("8 / 3 / 2", "8 / (2 * 3)"),
        ("(5 - 3) * (2 - 4)", "(3 - 5) * (4 - 2)"),
        ("-(3 - 5) * 2", "2 * (5 - 3)"),
        ("-3 + 5", "5 - 3"),
        ("5 - -3", "3 + 5"),
        ("8.0 * 3", "3 * 8"),
    ],
)
def test_keys_that_are_equal(one, other):
    assert read(one).key == read(other).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2 * (3 + 1)", "2 * 3 + 2 * 1"),
        ("3 * 8", "4 * 6"),
        ("8 / 2", "2 / 8"),
        ("8 - 3", "3 - 8"),
        ("2 + 2", "2 * 2"),
    ],
)
def test_keys_that_differ(one, other):
    assert read(one).key != read(other).key


@pytest.mark.parametrize(
    "text",
    [
        "2 ** 3",
        "2^3",
        "8 // 3",
        "8 % 3",
        "(8 - 5",
        "3 4 + 1",
        "2(3 + 4)",
        "+3 + 4",
        "3 +",
        "3 + 8 *",
        "abs(3) + 1",
        "__import__('os')",
        "1_000 + 1",
        "1e3 + 1",
        "3j + 1",
        "True + 1",
        "007 + 1",
        "",
        "()",
        "1 + " * 200 + "1",
        "-" * 60 + "1",
        "(" * 150 + "1 + 1" + ")" * 150,
        "9" * 400 + " + 1",
    ],
)
def test_what_is_no_expression(text):
    assert read(text) is None
    assert list(chains_in(text)) == []


def test_a_bracket_that_only_surrounds_is_dropped_within_a_line():
    assert read("8 - 5)") is None
    assert [side.text for chain in chains_in("(as 8 - 5)") for side in chain] == ["8 - 5"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3 * 8 = 24", "3*8"),
        ("**3 * 8** = 24", "3*8"),
        ("3 \u00d7 8", "3*8"),
        ("3 x 8", "3*8"),
        (r"$3 \times 8 = 24$", "3*8"),
        (r"3 \cdot 8", "3*8"),
        (r"\left(3\right) * 8", "3*8"),
        ("48 \u00f7 2", "48/2"),
        (r"\frac{48}{2}", "48/2"),
        (r"\dfrac{48}{\frac{4}{2}}", "48/(4/2)"),
        ("30 \u2212 6", "30-6"),
        ("[1 + 2] * {8}", "(1+2)*8"),
        ("1. 30 - 6 = 24", "30-6"),
        ("- 30 - 6 = 24", "30-6"),
        ("(so 30 - 6 = 24)", "30-6"),
        ("`3 * 8`", "3*8"),
        ("24 = 3 * 8.", "3*8"),
        ("1,000 - 976", "1000-976"),
    ],
)
def test_how_expressions_may_be_written(text, wanted):
    (chain,) = chains_in(text)
    (found,) = [side for side in chain if isinstance(side.tree, Operation)]
    assert found.key == read(wanted).key


@pytest.mark.parametrize("text", ["2x + 3", "2x - 3 * 2 = 7", "x2 * 3", "5 apples", "3 * 8kg", "f(3) * 2"])
def test_what_belongs_to_a_word_is_left_out(text):
    assert [
        side.text for chain in chains_in(text) for side in chain if "2" in side.text and "x" in text
    ] == []


# --- answers ----------------------------------------------------------------------------------------

GAME = Problem("?", id="g", gold="any", data={"numbers": (3, 3, 8, 8), "target": 24, "all": True})
SOME = Problem("?", id="s", gold="any", data={"numbers": (3, 3, 8, 8), "target": 24, "all": False})
RIGHT = "8 / (3 - 8 / 3)"


@pytest.mark.parametrize(
    "text",
    [
        f"Answer: {RIGHT}",
        f"Answer: {RIGHT} = 24.",
        f"Answer: **{RIGHT}**",
        f"The answer is {RIGHT}.",
        f"so \\boxed{{{RIGHT}}}",
        r"so \boxed{\frac{8}{3 - \frac{8}{3}}} is it",
        f"8 / 3 = 8/3 (left: 3, 8, 8/3)\n\n{RIGHT} = 24",
        f"24 = {RIGHT}\nDone",
        f"Answer: 1 + 1\nNo.\nAnswer: {RIGHT}",
        f"<think>3 * 8 = 24</think>\n{RIGHT}",
        "Answer:\n8 \u00f7 (3 \u2212 8 \u00f7 3)",
        f"**Answer:** `{RIGHT}`",
        f"Answer: **{RIGHT}** = 24",
        f"Answer: {RIGHT}\n= 24",
        f"Answer: {RIGHT} = 48 / 2",
        f"Answer: {RIGHT}\n\n---\nEach was used once.",
        f"Answer: {RIGHT}\n- uses all of them",
        f"<answer>{RIGHT} = 24</answer>",
        f"Step 3: {RIGHT} = 24 \u2713",
        f"The solution is given by:\n{RIGHT} = 24",
        rf"One possible solution is \(\boxed{{{RIGHT}}}\).",
        rf"24 = \boxed{{{RIGHT}}}",
        rf"\boxed{{{RIGHT}}} = 24. It uses 3, 3, 8 and 8.",
        rf"\text{{Answer: }} \boxed{{{RIGHT}}}",
        r"Answer: $8 \div (3 - \frac{8}{3})$",
    ],
)
def test_the_final_expression_is_found(text):
    task = Countdown()
    assert task.correct(task.answer(text, GAME), GAME) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I give up.",
        "Answer: 24",
        "3 * 8 = 24\nAnswer: 24",
        "3 * 8 = 24 (left: 24)",
        "3 * 8 = 24 (remaining: 24)",
        r"3 * 8, \boxed{24}",
        r"\boxed{8 / (3",
        "<think>8 / (3 - 8 / 3)",
        "Answer: 2 ** 3 * 3",
        "Answer: (8 - 5 * 8",
    ],
)
def test_what_gives_no_answer(text):
    assert Countdown().answer(text, GAME) is None


WRAPPED = ["Answer: {}", "**Answer: {}**", "so the answer is {}", "{}", "So {}", "The answer is ${}$"]
JOINED_BEHIND = [
    *(" : 7", ": 7", " mod 100", " minus 2", " over 2", " squared", " half", " divided by 2", " and 3", " x"),
    *(
        " \u00b1 3",
        " \u2797 2",
        " \u2796 3",
        " \u2a09 2",
        " \u2571 2",
        " \u2238 3",
        "\u00b2",
        " \u221a",
        " & 1",
    ),
    *(" << 2", " | 2", " ** 2", " ** -2", "!", " !", "%", ",5", ", 5", " 7", "(2)", "kg", r" \bmod 5"),
    *("\n- 3", "\n\n- 3", "\n+ 3", "\nminus 3", "\n- three", "\n\u00d7 2", " *\n2", " times\n2", " :\n7"),
    *(". - 3", ".*2", ". minus 3", ". Then minus 3", " " * 500 + "- 3"),
    *(
        " = 25",
        " \u2260 24",
        " \u2248 24",
        " = 24 = 25",
        " = 24 + 1",
        " = 24 mod 7",
        " =",
        f" = 24.{'0' * 30}1",
    ),
]
JOINED_BEFORE = [
    *(
        "- ",
        "-",
        "minus ",
        "half of ",
        "twice ",
        "not ",
        "the square of ",
        "the opposite of the number ",
        "2 ",
    ),
    *("\u221a", "\u221a ", r"\sqrt ", r"\log ", "~", "2 : ", "\u00bd ", "3^", "25 = ", "x = ", "| ", "a "),
    *("minus\n", "half of\n", "-\n", "2\n* "),
]


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_what_is_joined_to_an_expression_makes_it_another_one(wrapped):
    task = Countdown()
    joined = [
        *("8 * 3" + behind for behind in JOINED_BEHIND),
        *(before + "8 * 3" for before in JOINED_BEFORE),
    ]
    texts = [wrapped.format(text) for text in ["8 * 3", *joined]]
    assert [text for text in texts if task.correct(task.answer(text, SOME), SOME)] == texts[:1]


def test_what_is_joined_to_a_box_makes_it_another_one():
    box, task = r"\boxed{8 * 3}", Countdown()
    texts = [box, *(box + behind for behind in JOINED_BEHIND), *(before + box for before in JOINED_BEFORE)]
    texts += [
        rf"{box}\cdot 2",
        rf"\sqrt{{{box}}}",
        rf"\frac{{{box}}}{{2}}",
        f"7 and {box}",
        f"{box}, then minus 2",
    ]
    texts += [rf"\boxed{{8 * 3{behind}}}" for behind in JOINED_BEHIND]
    assert [text for text in texts if task.correct(task.answer(text, SOME), SOME)] == texts[:1]


def test_numbers_are_what_is_written_and_not_rounded():
    number = f"2.{'9' * 25}"
    assert read(f"8 * {number}").numbers == (8, Fraction(number))
    task = Countdown()
    assert task.correct(task.answer(f"Answer: 8 * {number}", SOME), SOME) is False
    assert task.answer("Answer: 8 * 3 = 24.0", SOME) is not None


def test_a_list_number_is_none_within_a_statement():
    assert final_in("2) 8 * 3") is not None
    assert final_in("Answer: 2) 8 * 3") is None
    assert final_in(r"\boxed{2) 8 * 3}") is None


@pytest.mark.parametrize(
    "step",
    [
        "8 - 3 : 5",
        "8 - 3 \u2797 5 = 1",
        "\u221a9 * 8 = 72",
        "half of 8 * 3 = 12",
        "8 * 3 \u2260 24",
        "8 * 3,5",
    ],
)
def test_a_part_of_something_else_is_no_chain(step):
    assert list(chains_in(step)) == []


@pytest.mark.parametrize(
    ("text", "every", "some"),
    [
        (RIGHT, True, True),
        ("3 * 8", False, True),
        ("3 * 8 * (3 - 8)", False, False),
        ("8 + 8 + 8", False, False),
        ("4 * 6", False, False),
        ("3 * 8 * 1", False, False),
        ("8 / (3 - 3)", False, False),
        ("3 * (8 + 8 / (3 - 3))", False, False),
        ("3 * 8.5", False, False),
        ("-(-3) * 8", False, True),
    ],
)
def test_numbers_and_value_must_both_be_right(text, every, some):
    task = Countdown()
    for problem, wanted in ((GAME, every), (SOME, some)):
        answer = task.answer(f"Answer: {text}", problem)
        assert answer is not None
        assert task.correct(answer, problem) is wanted
    assert task.correct(None, GAME) is False
    assert task.correct(answer, Problem("?")) is None


@settings(deadline=None, max_examples=40)
@given(st.text("0123456789+-*/()=. \n\\{}xboxedAnswer:", max_size=60))
def test_no_text_breaks_the_reader(text):
    task = Countdown()
    answer = task.answer(text, GAME)
    assert task.correct(answer, GAME) in (True, False)


@pytest.mark.slow
def test_long_texts_take_no_time():
    hostile = [
        "(" * 20000,
        "1+" * 20000,
        "Answer: " * 5000,
        "\\frac{1}{" * 3000,
        "- 1 " * 9000,
        "3*8=24\n" * 3000,
        "8*3 mod\n" * 3000,
        "-\n" * 5000,
        "so " * 9000,
        "8" + " " * 20000 + "*3",
        "Answer: 8*3" + ". *" * 9000,
        "\\boxed{8*3}" * 2000,
    ]
    for text in hostile:
        final_in(text)


def test_worked_solutions_keep_the_order_of_what_is_left():
    tree = read(RIGHT).tree
    assert worked((3, 3, 8, 8), tree).splitlines() == [
        "8 / 3 = 8/3 (left: 3, 8, 8/3)",
        "3 - (8/3) = 1/3 (left: 8, 1/3)",
        "8 / (1/3) = 24 (left: 24)",
        f"Answer: {RIGHT}",
    ]


def test_random_states_are_not_touched():
    random.seed(5)
    before = random.getstate()
    Countdown(size=2, seed=99).problems()
    assert random.getstate() == before
