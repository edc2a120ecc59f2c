"""Each case is a kind of text on which answer extraction commonly goes wrong."""

import time

import pytest

from ttsflow.tasks.extract import after_thinking, extract, last_box

FIVE = tuple((letter, f"text {letter}") for letter in "ABCDE")
TEN = tuple((letter, f"text {letter}") for letter in "ABCDEFGHIJ")


def key(text, kind, choices=()):
    answer = extract(text, kind, choices)
    return None if answer is None else answer.key


@pytest.mark.parametrize("kind", ["number", "math"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # boxes
        (r"\boxed{\frac{1}{2}}", "1/2"),
        (r"\fbox{\frac{\frac{1}{2}}{3}}", "1/6"),
        (r"so the value is \boxed{12", None),
        (r"The answer is 12, that is \boxed{12", None),
        (r"\boxed{1} ... Note: always use boxed", "1"),
        ("Mark your solution with \\boxed \nIt is \\boxed{7}. Mark your solution with \\boxed ", "7"),
        (r"It is \boxed{7}. Remember to fill \boxed{}.", "7"),
        (r"The answer is \boxed{4}. wait, \boxed{5}", "5"),
        (r"\boxed{840} and again \boxed{840}", "840"),
        (r"\boxed{4}, or rather \boxed{5", "4"),
        (r"\boxed{ 42 }", "42"),
        (r"\boxed{1234}", "1234"),
        (r"\boxed{\text{73}}", "73"),
        (r"\boxed{-3}", "-3"),
        (r"\boxed{0}", "0"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed 5", "5"),
        (r"\boxed{18 \text{ dollars}}", "18"),
        (r"\boxed{x = 5}", "5"),
        (r"\boxed{1,2}", "{1, 2}"),
        ("### Step 1: add\n2+2\n### Step 2: check\n\\boxed{4}", "4"),
        # thinking
        ("<think>maybe the answer is 9\nstill going", None),
        ("<think>maybe the answer is 9</think>\nThe answer is 8.", "8"),
        ("maybe the answer is 9</think>\nThe answer is 8.", "8"),
        ("<think>the answer is 9</think>", None),
        ("<think>a</think> 3 <think>the answer is 9", None),
        (r"<Thinking>\boxed{1}</Thinking>\boxed{2}", "2"),
        # statements
        (r"The answer is $\boxed{4}$.", "4"),
        ("The answer is 4.", "4"),
        ("The answer is 0.", "0"),
        ("The answer is 3.50.", "7/2"),
        ("The answer is \u22125", "-5"),
        ("Final Answer: **73**", "73"),
        ("**Final Answer:** 73", "73"),
        ("## Final Answer\n\n73", "73"),
        ("The answer is 50%", "50"),
        ("The answer is 18 dollars per day.", "18"),
        (r"The answer is $\frac{3}{4}$ cup.", "3/4"),
        ("Die Antwort lautet 12.", "12"),
        ("a line\n#### 70000", "70000"),
        ("a line\n#### 70,000", "70000"),
        ("a line\n#### $18", "18"),
        # nothing but numbers
        ("1,234", "1234"),
        ("-1/2", "-1/2"),
        ("$29.00", "29"),
        (r"It costs \$3.50", "7/2"),
        ("so 10 - 3 = 7", "7"),
        (r"we get $x = \frac{1}{2}$.", "1/2"),
        ("", None),
        (" \n ", None),
        ("I do not know.", None),
    ],
)
def test_numbers_in_either_kind(text, wanted, kind):
    assert key(text, kind) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The answer is 12 (3 more than 9).", "12"),
        ("The answer is 3 * 4 = 12.", "12"),
        ("The answer is 2 times 6, or 12", "12"),
        ("We have 10-3 left", "3"),
        ("### Step 1\nthat makes 4\n### Step 2", "4"),
        ("#### 2. Check the sum\nIt is 9", "9"),
        ("it takes 2 1/2 hours", "5/2"),
        ("from 5 to 1,234,567", "1234567"),
        (r"\boxed{Both}", None),
        (r"\boxed{3\sqrt{2}}", None),
        (r"\boxed{about 10 apples}", "10"),
    ],
)
def test_number(text, wanted):
    assert key(text, "number") == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"The domain is \boxed{[2,5)}", "[2, 5)"),
        (r"\boxed{\text{east}}", "east"),
        (r"\boxed{\{1,2\}}", "{1, 2}"),
        (r"\boxed{\left\{ 1, 2 \right\}}", "{1, 2}"),
        (r"\boxed{3\sqrt{2}}", r"3\sqrt{2}"),
        (r"We find \(y = 2\pi\).", r"2\pi"),
        (r"The answer is \frac{1}{2}", "1/2"),
    ],
)
def test_math(text, wanted):
    assert key(text, "math") == wanted


@pytest.mark.parametrize(
    ("text", "wanted", "choices"),
    [
        ("The answer is B because a car moves.", "B", FIVE),
        ("Antwort:\n\nAntwort: C", "C", FIVE),
        ("Answer seems to be A.\n\nAnswer: A", "A", FIVE),
        ("So it is option J. Dog is not an answer", "J", TEN),
        ("It is not B, the answer is D", "D", FIVE),
        ("The answer is not B but D", "D", FIVE),
        (r"\boxed{Both}", None, FIVE),
        (r"\boxed{A}", "A", FIVE),
        (r"\boxed{\text{B}}", "B", FIVE),
        (r"\boxed{B) text B}", "B", FIVE),
        ("**Answer: (C)**", "C", FIVE),
        ("The answer is (d).", "D", FIVE),
        ("The correct option is E.", "E", FIVE),
        ("C is correct.", "C", FIVE),
        ("Option A is not right. Option C is", "C", FIVE),
        ("B", "B", FIVE),
        ("(B)", "B", FIVE),
        ("b) text B", "B", FIVE),
        ("I looked at all.\n**D**", "D", FIVE),
        ("The answer is text C.", "C", FIVE),
        ("The answer is a library.", "B", (("A", "bank"), ("B", "library"))),
        ("It comes to 61. Answer: 61", "A", (("A", "$61"), ("B", "$65"))),
        ("The answer is 2.", "2", (("1", "x"), ("2", "y"))),
        ("The answer is A or B", None, FIVE),
        ("Answer: F", None, FIVE),
        ("The answer is a car", None, FIVE),
        ("I am sure A Car moves. Dogs Can Eat", None, FIVE),
        ("<think>the answer is B", None, FIVE),
        ("The answer is A", None, ()),
    ],
)
def test_choice(text, wanted, choices):
    assert key(text, "choice", choices) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("Answer: New York.", "new york"), ("a line\nParis", "paris"), (r"\boxed{Oslo}", "oslo")],
)
def test_text(text, wanted):
    assert key(text, "text") == wanted


def test_the_answer_keeps_what_was_written():
    assert extract(r"So \boxed{\frac{1}{2}}", "math").text == r"\frac{1}{2}"


def test_escaped_braces_do_not_close_a_box():
    assert last_box(r"\boxed{\{1\}}") == (r"\{1\}", False)
    assert last_box(r"\boxed{\}") == (None, True)


def test_text_without_thinking_is_all_visible():
    assert after_thinking("plain") == "plain"


@pytest.mark.parametrize("kind", ["number", "math", "choice", "text"])
@pytest.mark.parametrize(
    "piece", ["\\boxed{", "$x = 1$ ", "The answer is ", "**", "1,000 ", "\\(", "<think>", "(A) ", "- "]
)
def test_degenerate_repetition_is_read_in_no_time(piece, kind):
    started = time.perf_counter()
    extract(piece * 4000, kind, FIVE)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("kind", ["number", "math"])
@pytest.mark.parametrize("said", ["5/0", "0/0", "5/0.0", r"\frac{5}{0}", "1/(2-2)", "1, 1/0"])
def test_a_division_by_zero_is_the_answer_and_none_of_its_digits(said, kind):
    assert extract(rf"So it is \boxed{{{said}}}", kind).text == said


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "\n" * 100_000 + "5",
        "answer" + " " * 100_000 + "5",
        "answer" + "*" * 100_000 + "5",
        r"\(a" * 30_000 + "\n5",
        r"\[a" * 30_000 + "\n5",
        "1" + ",000" * 30_000 + "0",
    ],
    ids=["lines", "spaces", "stars", "brackets", "displays", "thousands"],
)
@pytest.mark.parametrize("kind", ["number", "math", "text"])
def test_long_runs_take_no_longer_than_their_length(text, kind):
    """A bound against another order of complexity: it takes a tenth of a second, and took minutes."""
    begun = time.perf_counter()
    assert extract(text, kind)
    assert time.perf_counter() - begun < 10


@pytest.mark.parametrize(
    "text", ["option" + " " * 50_000 + "x", "A" + " " * 50_000 + "x", "choice is" + "(" * 50_000]
)
def test_long_runs_of_a_character_take_no_long_time(text):
    began = time.process_time()
    extract(text, "choice", (("A", "one"), ("B", "two")))
    assert time.process_time() - began < 2
