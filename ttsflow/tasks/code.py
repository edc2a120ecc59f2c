"""Programs to be written: functions that tests decide about, in the form of HumanEval."""

from __future__ import annotations

import logging
import random
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from ttsflow.errors import ConfigError, DataError
from ttsflow.lineage import derive
from ttsflow.sandbox.runs import Isolation, Job, Limits, isolation, run
from ttsflow.tasks.plain import unique
from ttsflow.tasks.programs import examples, identity, preamble, program_in
from ttsflow.tasks.rows import Row, Template, check_text_setting, named_rows, strings
from ttsflow.types import Answer, Message, Problem

__all__ = ["STOP", "Code", "Which", "failures", "job_of"]

#: What ends a function that a model continues as raw text: the next thing at the left margin.
STOP = ("\nclass ", "\ndef ", "\n#", "\nif __name__", "\nprint", "\n```")

_PROMPT = (
    "Complete this Python function. Reply with the whole function in one fenced code block.\n\n"
    "```python\n{prompt}\n```"
)
_PROBE = "\n\nThe complete function:\n\n```python\n"
_FIELDS = ("task_id", "prompt", "entry_point")

_log = logging.getLogger(__name__)

#: Visible tests stand in the prompt; the hidden ones are the gold.
Which = Literal["visible", "hidden"]

#: Reasons of gradings that failed in this process, the oldest first.
failures: list[str] = []


@dataclass(frozen=True, slots=True)
class Code:
    """Reads one function a row, from the file ``path`` or else from the hub data set ``hub``.

    A row has ``task_id``, ``prompt`` (imports, helpers and the function up to the end of its docstring),
    ``entry_point`` (its name) and, for grading, ``test``, which defines ``check(candidate)``;
    ``canonical_solution`` is the body the data gives. In a chat, ``prompt`` is a template over ``{prompt}``
    and the row's other fields; otherwise the model continues the row's prompt as it stands, up to one of
    ``stop``.

    The answer of a text is a whole program: see ``programs.program_in``. Programs that differ in layout,
    comments and docstrings alone are one answer. It is right when it passes the hidden tests in the
    sandbox, within ``timeout`` seconds and ``memory_mib``; a sandbox that fails says nothing, and the reason
    is logged and kept in ``failures``.

    A problem's data has the ``tests`` of the docstring's examples, which a strategy may use, and the
    ``hidden`` ones, which are the gold: choosing by them is an oracle. A step is a line: it is the
    smallest piece of a program that can be judged, and many functions have no blank line inside.

    Raises ``DataError`` for a file that is missing, broken or empty, and for a missing field.
    """

    gives_programs: ClassVar[bool] = True

    path: str | None = None
    hub: str | None = None
    subset: str | None = None
    split: str = "test"
    prompt: str = _PROMPT
    chat: bool = True
    system: str | None = None
    stop: tuple[str, ...] | None = None
    separator: str = "\n"
    probe: str = _PROBE
    timeout: float = 10.0
    memory_mib: int = 512
    isolation: Isolation = "auto"
    shuffle: int | None = None

    def __post_init__(self) -> None:
        stop = (() if self.chat else STOP) if self.stop is None else strings(self.stop, "stop")
        object.__setattr__(self, "stop", stop)
        check_text_setting([*stop, self.separator], "stop")
        if not self.separator:
            raise ConfigError("is empty; give the string that ends a step", "separator")
        if "prompt" not in Template(self.prompt, "prompt").names:
            raise ConfigError("must name {prompt}, the function to be completed", "prompt")
        if self.system is not None and not self.chat:
            raise ConfigError("needs chat: true; raw text has no system turn", "system")
        self._limits()

    def problems(self) -> list[Problem]:
        """Return all problems, in the order of the file or shuffled.

        Raises ``ConfigError`` when there are hidden tests and no sandbox to run them in.
        """
        problems = unique(
            [self._problem(row) for row in named_rows(self.path, self.hub, self.subset, self.split)]
        )
        if any("hidden" in problem.data for problem in problems):
            isolation(self.isolation)
        if self.shuffle is not None:
            random.Random(derive("shuffle", self.shuffle)).shuffle(problems)  # noqa: S311 - not for secrets
        return problems

    def answer(self, text: str, problem: Problem) -> Answer | None:
        """Return the program a finished text gives."""
        code = program_in(text, problem.data["prompt"], problem.data["entry"], chat=self.chat)
        return None if code is None else Answer(code, identity(code))

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Return whether the program passes the hidden tests; None without any, or when that failed."""
        if "hidden" not in problem.data:
            return None
        if answer is None:
            return False
        job = job_of(problem, answer.text, "hidden", self._limits())
        return None if job is None else _graded(job, self.isolation, problem.id)

    def _limits(self) -> Limits:
        return Limits(self.timeout, self.memory_mib)

    def _problem(self, row: Row) -> Problem:
        name, prompt, entry = (_text(row, field) for field in _FIELDS)
        if not re.search(rf"^def {re.escape(entry)}\b", prompt, re.MULTILINE):
            raise DataError(f"{row.place}: the prompt defines no function {entry!r}")
        data: dict[str, object] = {
            "entry": entry,
            "prompt": prompt,
            "setup": preamble(prompt, entry),
            "tests": examples(prompt, entry),
        }
        hidden = _text(row, "test") if row.has("test") else ""
        if hidden.strip():
            data["hidden"] = (f"{hidden}\n\ncheck(candidate)\n",)
        solution = _text(row, "canonical_solution") if row.has("canonical_solution") else ""
        system = () if self.system is None else (Message("system", self.system),)
        asked = Template(self.prompt, "prompt").fill(row)
        return Problem(
            prompt=(*system, Message("user", asked)) if self.chat else prompt,
            id=name,
            gold=prompt + solution if hidden.strip() else None,
            data=data,
        )


def job_of(
    problem: Problem, code: str, which: Which, limits: Limits, *, until_failure: bool = True
) -> Job | None:
    """Return the job that tests ``code``; None when the problem has no such tests.

    Without examples to parse, the visible tests are none: the job asks only whether the code loads.
    """
    tests = problem.data.get("tests" if which == "visible" else "hidden")
    if tests is None:
        return None
    data = problem.data
    return Job(code, data["entry"], tuple(tests), data.get("setup", ""), limits, until_failure)


@lru_cache(maxsize=10_000)
def _graded(job: Job, asked: Isolation, name: str) -> bool | None:
    ran = run(job, asked)
    if not ran.broken:
        return ran.passed
    reason = f"{name} cannot be graded: {ran.reason}"
    failures.append(reason)
    _log.warning(reason)
    return None


def _text(row: Row, field: str) -> str:
    """Return a field as it stands: white space is part of a program."""
    value = row.get(field)
    if not isinstance(value, str):
        raise DataError(f"{row.place}: field {field!r} holds {type(value).__name__}, expected text")
    return value
