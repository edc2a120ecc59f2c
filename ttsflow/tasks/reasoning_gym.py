"""Problems of the package Reasoning Gym: a hundred procedural data sets, each with a scorer of its own."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ttsflow.errors import ConfigError, DataError, MissingExtra, suggest
from ttsflow.lineage import content_id
from ttsflow.tasks import grade
from ttsflow.tasks.extract import after_thinking, extract
from ttsflow.tasks.gym_worker import worker
from ttsflow.tasks.plain import unique
from ttsflow.tasks.rows import Row, Template, check_text_setting, strings
from ttsflow.types import Answer, Message, Problem

__all__ = ["ReasoningGym"]

_log = logging.getLogger(__name__)
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_PROMPT = "{question}\n\nReason step by step, then give the final answer between <answer> and </answer>."


@dataclass(frozen=True, slots=True)
class ReasoningGym:
    """Takes ``size`` problems of the data set ``name``; ``settings`` are those of its own config.

    An answer is what stands in the last ``<answer>`` tags, else in the last box, after "Answer:", or in
    the last line. The package's own scorer grades it: correct is a score of at least ``threshold``. An
    answer that the scorer cannot read is wrong; when it takes too long or fails at the right answer too,
    there is no verdict. Votes count answers that differ in white space alone as one.

    ``prompt`` is a template over ``{question}``, asked as a chat (with ``system``, when given) or
    continued as raw text. Gold is the answer the package gives; a few of its data sets give none and are
    graded all the same. A problem's id is a hash of data set and question.

    The package runs in a process of its own (see ``gym_worker``). Raises ``MissingExtra`` when it is not
    installed, ``ConfigError`` for a name or a setting it does not know, ``DataError`` when it makes no
    problems in time.
    """

    name: str
    size: int = 40
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    threshold: float = 1.0
    prompt: str = _PROMPT
    chat: bool = True
    system: str | None = None
    stop: tuple[str, ...] = ()
    separator: str = "\n\n"
    probe: str = "\n\n<answer>"

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("is empty; give the name of a data set, such as chain_sum", "name")
        if not 1 <= self.size <= 10**5:
            raise ConfigError(f"must lie between 1 and {10**5}, got {self.size}", "size")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"must lie between 0 and {2**32 - 1}, got {self.seed}", "seed")
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"must lie above 0 and up to 1, got {self.threshold}", "threshold")
        self._check_settings()
        self._check_texts()

    def _check_settings(self) -> None:
        for key in ("size", "seed"):
            if key in self.settings:
                raise ConfigError(f"is a setting of the task itself; write task.{key}", f"settings.{key}")
        try:
            json.dumps(dict(self.settings))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"must be what YAML can say: {error}", "settings") from error

    def _check_texts(self) -> None:
        if "question" not in Template(self.prompt, "prompt").names:
            raise ConfigError("names no {question}, so that all prompts would be equal", "prompt")
        if self.system is not None and not self.chat:
            raise ConfigError("needs chat: true; raw text has no system turn", "system")
        object.__setattr__(self, "stop", strings(self.stop, "stop"))
        check_text_setting(self.stop, "stop")
        check_text_setting([self.separator], "separator")
        if not self.separator:
            raise ConfigError("is empty; give the string that ends a step", "separator")

    def problems(self) -> list[Problem]:
        """Return all problems, in the order of the data set."""
        if importlib.util.find_spec("reasoning_gym") is None:
            raise MissingExtra(
                "the task reasoning_gym needs the package reasoning-gym, which is not installed; "
                "pip install 'ttsflow[gym]'"
            )
        template = Template(self.prompt, "prompt")
        system = () if self.system is None else (Message("system", self.system),)
        problems = []
        for number, (question, gold, entry) in enumerate(_entries(self.name, json.dumps(self._source))):
            prompt = template.fill(Row({"question": question}, f"{self.name}[{number}]"))
            problems.append(
                Problem(
                    prompt=(*system, Message("user", prompt)) if self.chat else prompt,
                    id=f"{self.name}-{content_id(question)}",
                    gold=gold,
                    data={"entry": entry},
                )
            )
        return unique(problems)

    def answer(self, text: str, problem: Problem) -> Answer | None:  # noqa: ARG002 - the protocol's signature
        """Return the answer a finished text gives."""
        rest = after_thinking(text)
        if rest is None:
            return None
        tagged = [said.strip() for said in _TAGGED.findall(rest) if said.strip()]
        if not tagged:
            found = extract(rest, "text")
            tagged = [] if found is None else [found.text]
        return Answer(tagged[-1], " ".join(tagged[-1].split())) if tagged else None

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Return whether the package's scorer is content; None when it gave no score."""
        if answer is None:
            return False
        try:
            return worker.score(self._source, problem.data["entry"], answer.text) >= self.threshold
        except grade.GradingError as error:
            reason = f"cannot score {answer.text!r} with {self.name} of reasoning_gym: {error}"
            if reason not in grade.failures:
                grade.failures.append(reason)
                _log.warning(reason)
            return None

    @property
    def _source(self) -> dict[str, Any]:
        return {"name": self.name, "size": self.size, "seed": self.seed, "settings": dict(self.settings)}


@lru_cache(maxsize=8)
def _entries(name: str, source: str) -> list[tuple[str, str | None, str]]:
    """Return question, answer and the package's own entry, which only its scorer reads."""
    try:
        made = worker.entries(json.loads(source))
    except grade.GradingError as error:
        raise DataError(f"{name} of reasoning_gym made no problems: {error}", "name") from error
    wrong = made[0] if "error" in made[0] else {}
    if wrong.get("error") == "name":
        raise ConfigError(f"reasoning_gym has no data set {name!r}. {suggest(name, wrong['known'])}", "name")
    if wrong.get("error") == "setting":
        raise ConfigError(
            f"{name} of reasoning_gym has no such setting. {suggest(wrong['name'], wrong['known'])}",
            f"settings.{wrong['name']}",
        )
    if wrong:
        raise ConfigError(f"{name} of reasoning_gym refused its settings: {wrong['message']}", "settings")
    return [(entry["question"], entry["answer"], entry["entry"]) for entry in made]
