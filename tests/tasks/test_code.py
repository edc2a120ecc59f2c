import gzip
import json
import time
from pathlib import Path

import pytest
import yaml

from ttsflow.config import compose
from ttsflow.errors import ConfigError, DataError
from ttsflow.protocols import Task
from ttsflow.run import run_config
from ttsflow.sandbox import runs
from ttsflow.sandbox.runs import Limits, Sandbox
from ttsflow.tasks import code
from ttsflow.tasks.code import STOP, Code, job_of
from ttsflow.tasks.programs import examples, identity, program_in
from ttsflow.testing.contracts import TaskContract
from ttsflow.types import Answer, Message

ROOT = Path(__file__).parents[2]

PROMPT = '''from typing import List

def helper(x: int) -> int:
    """ Twice. >>> 1 / 0 """
    return 2 * x


def total(xs: List[int]) -> int:
    """ Return twice the sum.
    >>> total([1, 2])
    6
    >>> total([])
    0
    """
'''
BODY = "    # doubled\n    return helper(sum(xs))\n"
TEST = """METADATA = {}

def check(candidate):
    assert candidate([1, 2, 3]) == helper(6)
    assert candidate([-1]) == -2
"""
ROW = {"task_id": "T/0", "prompt": PROMPT, "entry_point": "total", "canonical_solution": BODY, "test": TEST}
WHOLE = "def total(xs):\n    return 2 * sum(xs)\n"


def write(folder, *rows, name="code.jsonl"):
    path = folder / name
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


@pytest.fixture
def path(tmp_path):
    return write(tmp_path, ROW, {**ROW, "task_id": "T/1"}, {**ROW, "task_id": "T/2", "test": ""})


class TestCode(TaskContract):
    @pytest.fixture
    def part(self, path):
        return Code(path)


class TestRawCode(TaskContract):
    @pytest.fixture
    def part(self, path):
        return Code(path, chat=False)


def fenced(text, language="python"):
    return f"```{language}\n{text}```\n"


# --- problems ------------------------------------------------------------------------------------------


def test_a_chat_shows_the_function_and_raw_text_is_the_prompt_itself(path, tmp_path):
    assert isinstance(Code(path), Task)
    chat = Code(path, system="Be brief.").problems()[0]
    assert chat.prompt[0] == Message("system", "Be brief.")
    assert f"```python\n{PROMPT.strip()}\n```" in chat.prompt[1].content
    assert Code(path, prompt="{task_id}: {prompt}").problems()[0].prompt[0].content.startswith("T/0: from")
    raw = Code(write(tmp_path, ROW, name="code.jsonl.gz"), chat=False).problems()[0]
    assert raw.prompt == PROMPT
    assert (raw.id, raw.gold) == ("T/0", PROMPT + BODY)


def test_stop_strings_end_raw_text_only(path):
    assert Code(path).stop == ()
    assert Code(path, chat=False).stop == STOP
    assert Code(path, chat=False, stop=["\nEND"]).stop == ("\nEND",)
    assert Code(path).separator == "\n"


def test_examples_are_visible_and_tests_are_hidden(path):
    first, _, last = Code(path).problems()
    assert first.data["tests"] == ("assert (total([1, 2])) == (6)\n", "assert (total([])) == (0)\n")
    assert TEST in first.data["hidden"][0]
    assert "helper" in first.data["setup"]
    assert "def total" not in first.data["setup"]
    assert "hidden" not in last.data
    assert last.gold is None


def test_which_examples_count():
    def of(docstring):
        return examples(f'def f(x):\n    """{docstring}"""\n', "f")

    assert of("\n    >>> x = [1]\n    >>> f(x)  # why\n    'a'\n") == ("x = [1]\nassert (f(x)) == ('a')\n",)
    assert of("\n    >>> f(1) == 2\n    >>> f(2) == 3\n    True\n") == (
        "assert f(1) == 2\n",
        "assert (f(2) == 3) == (True)\n",
    )
    assert of("\n    >>> f(0)\n    >>> f(1)\n    something\n    >>> g(1)\n    1\n") == (
        "assert (f(0)) == (None)\n",
    )
    assert of("\n    >>>broken\n") == of("f(1) -> 2") == of("\n    >>> f(\n    1\n") == ()
    assert examples("def f(:", "f") == examples("def g(): pass", "f") == ()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"task_id": "x"}, "there is no field 'prompt'"),
        ({**ROW, "prompt": 1}, "field 'prompt' holds int, expected text"),
        ({**ROW, "entry_point": "sum_of"}, "the prompt defines no function 'sum_of'"),
        ({**ROW, "test": 3}, "field 'test' holds int"),
    ],
)
def test_a_row_that_is_none_is_refused_with_its_place(tmp_path, row, message):
    with pytest.raises(DataError, match=message) as caught:
        Code(write(tmp_path, ROW, row)).problems()
    assert "code.jsonl:2" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({}, "task.path"),
        ({"prompt": "Write code."}, "prompt"),
        ({"system": "x", "chat": False}, "system"),
        ({"separator": ""}, "separator"),
        ({"stop": ["\\n"]}, "stop"),
        ({"timeout": 0}, "timeout"),
        ({"memory_mib": 1}, "memory_mib"),
    ],
)
def test_settings_are_checked(settings, path):
    with pytest.raises(ConfigError) as caught:
        Code(**settings).problems()
    assert caught.value.path == path


def test_without_a_sandbox_hidden_tests_are_refused(path, tmp_path):
    with pytest.raises(ConfigError) as caught:
        Code(path, isolation="strong").problems()
    assert caught.value.path == "isolation"
    assert Code(write(tmp_path, {**ROW, "test": ""}), isolation="strong").problems()


def test_order_can_be_shuffled(path):
    orders = {tuple(p.id for p in Code(path, shuffle=seed).problems()) for seed in range(9)}
    assert len(orders) > 1


# --- answers -------------------------------------------------------------------------------------------


@pytest.fixture
def problem(path):
    return Code(path).problems()[0]


@pytest.mark.parametrize(
    "text",
    [
        fenced(WHOLE),
        "<think>\n" + fenced("def total(xs): return 0") + "</think>\n" + fenced(WHOLE),
        "First:\n"
        + fenced("def total(xs):\n    return 1\n")
        + "Better:\n"
        + fenced(WHOLE)
        + "Use it:\n"
        + fenced("total([1])\n"),
        fenced(WHOLE, ""),
        fenced(WHOLE).removesuffix("```\n"),
        "1. So:\n" + "".join("   " + line + "\n" for line in fenced(WHOLE).splitlines()),
        WHOLE,
        f"Here it is.\n{WHOLE}\nIt adds up everything.",
        fenced(
            WHOLE + "\nprint(total([1]))\nassert total([]) == 0\nif __name__ == '__main__':\n    total([])\n"
        ),
        fenced("def total(xs):\n    '''Other words.'''\n    return (2 *\n      sum(xs))  # the sum\n"),
        fenced("def total(xs): return 0\n" + WHOLE),
    ],
)
def test_programs_are_found_in_a_chat(problem, path, text):
    answer = Code(path).answer(text, problem)
    assert answer.key == Code(path).answer(fenced(WHOLE), problem).key
    assert Code(path).correct(answer, problem) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "I do not know.",
        "Sorry",
        fenced("def other(xs): return 1\n"),
        fenced("def total(xs:\n"),
        "<think>" + fenced(WHOLE),
        fenced("def total(xs):\n    '''Only words.'''\n"),
        "x" * 30_000,
        fenced("def total(xs): return " + "-" * 5000 + "1\n"),
        "\0",
    ],
)
def test_what_is_no_program_is_no_answer(problem, path, text):
    assert Code(path).answer(text, problem) is None
    assert Code(path).correct(None, problem) is False


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        BODY + "\n\ndef other():\n    pass",
        BODY + "\nprint(total([1]))",
        BODY + "```\nThis adds.",
        BODY + "# Next\n!",
        "    return helper(sum(xs))",
        fenced(PROMPT + BODY),
        PROMPT + BODY,
        fenced(BODY),
    ],
)
def test_programs_are_found_in_raw_text(path, text):
    task = Code(path, chat=False)
    problem = task.problems()[0]
    answer = task.answer(text, problem)
    assert answer.key == task.answer(BODY, problem).key
    assert task.correct(answer, problem) is True


def test_the_two_modes_agree_on_one_program(path, problem):
    raw = Code(path, chat=False)
    whole = Code(path).answer(fenced(PROMPT + BODY), problem)
    assert whole.key == raw.answer(BODY, raw.problems()[0]).key


def test_programs_that_do_something_else_are_other_answers():
    programs = [
        "def f(x): return x",
        "def f(x): return x + 0",
        "def f(y): return y",
        "ONE = 1\ndef f(x): return x",
    ]
    assert len({identity(program) for program in programs}) == len(programs)
    assert identity("def f(x):\n    'a'\n    return x") == identity("def f(x): return x # same")
    assert identity("def f(x): return " + "1 + " * 900 + "1")


@pytest.mark.slow
def test_finding_a_program_takes_no_long_time():
    started = time.monotonic()
    for text in (
        "import x\n" * 2000,
        "```\n" * 5000,
        "def f(\n" * 2800,
        "(" * 20_000,
        "def f():\n  x\n@a(" * 1200,
    ):
        program_in(text, PROMPT, "total", chat=True)
    assert time.monotonic() - started < 20


# --- grading -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_hidden_tests_decide(path, problem):
    task = Code(path, timeout=20)
    special = "def total(xs):\n    return {(): 0, (1, 2): 6}[tuple(xs)]\n"
    for source, right in ((WHOLE, True), (special, False), ("import os\nos._exit(0)\n" + WHOLE, False)):
        assert task.correct(task.answer(fenced(source), problem), problem) is right
    assert (
        Code(path, timeout=0.3).correct(Answer("def total(xs):\n    while True: pass", "loop"), problem)
        is False
    )
    assert task.correct(Answer(WHOLE, "x"), task.problems()[2]) is None


def test_a_program_is_graded_once(path, problem, monkeypatch):
    task, answer = Code(path, timeout=21), Answer(WHOLE, "x")
    assert task.correct(answer, problem) is True
    monkeypatch.setattr(code, "run", None)
    assert task.correct(answer, problem) is True


def test_a_sandbox_that_fails_is_no_wrong_answer(path, problem, monkeypatch, caplog):
    monkeypatch.setattr(runs, "_BOOT", "import nowhere")
    assert Code(path, timeout=22).correct(Answer(WHOLE, "x"), problem) is None
    assert "T/0 cannot be graded: the sandbox failed" in code.failures[-1]
    assert "cannot be graded" in caplog.text


@pytest.mark.parametrize(
    ("settings", "field"), [({"memory_mib": 10**14}, "memory_mib"), ({"timeout": 1e9}, "timeout")]
)
def test_limits_that_do_not_fit_are_refused(path, settings, field):
    with pytest.raises(ConfigError, match=r"at most|lie between") as caught:
        Code(path, **settings)
    assert caught.value.path == field


def test_a_whole_run(path, tmp_path):
    """The fake engine writes no programs, so every problem with tests counts as wrong."""
    settings = [f"task.path={path}", "task=code", "verifier=tests", "strategy=best_of_n", "strategy.n=2"]
    summary = run_config(compose([*settings, "engine=fake"]), tmp_path / "run")
    assert (summary.status, summary.problems, summary.failed) == ("complete", 3, 0)
    results = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert {result["id"]: result["correct"] for result in results} == {
        "T/0": False,
        "T/1": False,
        "T/2": None,
    }


# --- shipped configs and published data ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["code", "humaneval"])
def test_configs_build_and_say_what_they_are(name):
    text = (ROOT / "conf" / "task" / f"{name}.yaml").read_text()
    assert text.startswith("# What: ")
    settings = yaml.safe_load(text)
    assert settings.pop("use") == "code"
    assert Code(**settings).separator == "\n"


@pytest.fixture(scope="module")
def humaneval(data_file):
    return str(data_file("datasets/HumanEval.jsonl.gz"))


@pytest.mark.slow
def test_the_published_file_reads_and_its_solutions_are_answers(humaneval):
    chat, raw = Code(humaneval), Code(humaneval, chat=False)
    pairs = list(zip(chat.problems(), raw.problems(), strict=True))
    assert len({problem.id for problem, _ in pairs}) == len(pairs) == 164
    assert sum(bool(problem.data["tests"]) for problem, _ in pairs) > 70
    for problem, same in pairs:
        body = problem.gold.removeprefix(same.prompt)
        answers = [raw.answer(body, same), chat.answer(f"So:\n{fenced(problem.gold)}", problem)]
        assert answers[0].key == answers[1].key
        assert answers[0].text.endswith(body.rstrip() + "\n") or body.rstrip() in answers[0].text


@pytest.mark.parametrize("every", [30, pytest.param(6, marks=pytest.mark.slow)])
def test_its_solutions_pass_and_empty_ones_fail(humaneval, every):
    """Some of the problems: all of them take half a minute."""
    problems = Code(humaneval, chat=False).problems()[::every]
    sandbox = Sandbox(workers=2)
    for problem in problems:
        for name, source in (("right", problem.gold), ("wrong", problem.prompt + "    return None\n")):
            sandbox.submit(f"{problem.id} {name}", job_of(problem, source, "hidden", Limits(30)))
    done = {}
    while len(done) < 2 * len(problems):
        done.update(sandbox.step())
        time.sleep(0.005)
    assert {name: ran.reason for name, ran in done.items() if ran.passed != name.endswith("right")} == {}
    sandbox.close()
