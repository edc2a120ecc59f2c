"""Grading: what is equal, and that a failure is never a wrong answer."""

import sys
import threading

import pytest

from ttsflow.errors import MissingExtra
from ttsflow.tasks import grade
from ttsflow.tasks.extract import extract
from ttsflow.tasks.grade import GradingError, MathVerify, correct, gold_text
from ttsflow.tasks.keys import key_of
from ttsflow.types import Answer

FIVE = tuple((letter, f"text {letter}") for letter in "ABCDE")


def said(text, kind="math"):
    return Answer(text, key_of(text, kind))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gold", "answer", "wanted"),
    [
        ("29", "$29.00", True),
        ("1000", "1,000", True),
        ("12", "1,2", False),
        ("(1,2)", "[1,2]", False),
        (r"1/2^{99}", r"1/2^{98}", False),
        (r"\dfrac{9}{7}", "9/7", True),
        ("1/3", "0.333", False),
        (r"\text{east}", "west", False),
        # these need math-verify
        (r"2\sqrt{3}", r"\sqrt{12}", True),
        (r"(-\infty,3)", "x<3", True),
        ("x<3", r"(-\infty,3)", True),
        ("p - q", "-q + p", True),
        ("p - q", "q - p", False),
        ("(x+1)^2", "x^2+2x+1", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)", True),
    ],
)
def test_math(gold, answer, wanted):
    assert correct(said(answer), gold, "math") is wanted


def test_no_answer_is_wrong_and_no_gold_is_unknown():
    assert correct(None, "5", "number") is False
    assert correct(None, None, "number") is None
    assert correct(said("5"), None, "number") is None
    assert correct(said("5"), "nothing to parse", "number") is None


def test_a_bare_letter_is_gold_of_a_choice():
    assert correct(said("A", "choice"), "A", "choice", FIVE) is True
    assert correct(said("A", "choice"), "(B)", "choice", FIVE) is False
    assert correct(said("C", "choice"), "text C", "choice", FIVE) is True


def test_tolerance():
    assert correct(said("0.333", "number"), "1/3", "number") is False
    assert correct(said("0.333", "number"), "1/3", "number", tolerance=0.01) is True


@pytest.mark.parametrize(
    ("gold", "wanted"),
    [
        ("She has 7 <<5+2=7>> of 10,000\n#### 70000", "70000"),
        ("#### 1,200", "1,200"),
        ("18", "18"),
        ("none", ""),
    ],
)
def test_gold_of_a_worked_solution_is_its_result(gold, wanted):
    assert gold_text(gold, "number") == wanted


def test_gold_of_kind_math_may_be_boxed():
    assert gold_text(r"So it is \boxed{\frac{1}{2}}.", "math") == r"\frac{1}{2}"
    assert gold_text("p - q", "math") == "p - q"


def fake(body):
    """A worker in place of math-verify: fast, and it misbehaves on request."""
    ready = "import json, sys, time\nprint(json.dumps(dict(ready=True)), flush=True)"
    code = f"{ready}\nfor line in sys.stdin:\n    {body}"
    return lambda: [sys.executable, "-c", code]


@pytest.fixture
def worker():
    made = []

    def make(body, **settings):
        made.append(MathVerify(command=fake(body), **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.slow
def test_a_hanging_comparison_is_an_error_and_the_worker_is_replaced(worker):
    verify = worker(
        "time.sleep(60 if 'slow' in line else 0); print(json.dumps(dict(equal=True)), flush=True)",
        deadline=2.0,
    )
    assert verify.equal("a", "b") is True
    first = verify.pid
    with pytest.raises(GradingError, match="within 2 s"):
        verify.equal("slow", "b")
    assert verify.equal("c", "d") is True
    assert verify.pid != first


def test_a_worker_that_dies_is_an_error(worker):
    verify = worker("sys.exit(3)")
    with pytest.raises(GradingError, match="died"):
        verify.equal("a", "b")


def test_an_error_in_the_comparison_is_no_verdict(worker, monkeypatch):
    verify = worker("print(json.dumps(dict(error='TypeError: boom')), flush=True)")
    monkeypatch.setattr(grade, "_worker", verify)
    monkeypatch.setattr(grade, "failures", [])
    assert correct(said("y^2"), "x^2", "math") is None
    assert "boom" in grade.failures[0]
    assert correct(None, "x^2", "math") is False


def test_answers_are_remembered(worker):
    verify = worker("print(json.dumps(dict(equal=True)), flush=True); sys.exit()")
    assert verify.equal("a", "b") is verify.equal("a", "b") is True


def test_threads_share_one_worker(worker):
    verify = worker("print(json.dumps(dict(equal=json.loads(line)[0] == json.loads(line)[1])), flush=True)")
    replies = {}

    def ask(number):
        replies[number] = verify.equal(str(number), str(number % 5))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == {number: number < 5 for number in range(10)}


def test_math_without_its_extra_says_what_to_install(monkeypatch):
    monkeypatch.setattr(grade.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"ttsflow\[math\]"):
        grade.need_math_verify()


NO_NUMBERS = ["1/0", "0/0", r"\boxed{5/0}", "#### 1/0", r"\boxed{\frac{1}{0}}", f"\\boxed{{{'9' * 5000}}}"]


@pytest.mark.parametrize("kind", ["number", "math"])
@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: text[:15])
def test_an_answer_without_a_value_is_wrong_and_no_gold(text, kind, monkeypatch):
    monkeypatch.setattr(grade, "failures", [])
    for gold in ("0", "5", "1/3", r"\{1,2\}"):
        assert correct(extract(text, kind), gold, kind) is False
    assert gold_text(text, kind) == ""
    assert grade.failures == []


@pytest.mark.parametrize("gold", ["5/0.0", "1/(2-2)", "0^{-1}"])
def test_a_gold_answer_that_divides_by_zero_is_not_read_by_its_digits(gold):
    assert gold_text(gold, "number") == gold_text(gold, "math") == ""
    assert gold_text(gold, "text") == gold
