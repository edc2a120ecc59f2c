"""Problems from a JSONL file or a hub data set."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttsflow.errors import ConfigError, DataError
from ttsflow.lineage import content_id, derive
from ttsflow.tasks import grade
from ttsflow.tasks.choices import Choices, gold_label, labelled, options_of, render
from ttsflow.tasks.extract import PROBE, extract
from ttsflow.tasks.keys import Kind, check_kind
from ttsflow.tasks.plain import unique
from ttsflow.tasks.rows import Row, Template, as_text, check_text_setting, named_rows, strings
from ttsflow.types import Answer, Message, Problem

__all__ = ["Jsonl"]


@dataclass(frozen=True, slots=True)
class Jsonl:
    """Reads one problem a row, from the file ``path`` or else from the hub data set ``hub``.

    ``question``, ``gold`` and ``choices`` are field names or dotted paths; of a list of them, the
    first that a row has is used. An entry of ``question`` may be a template such as
    ``"{Body} {Question}"``. ``prompt`` is a template over ``{question}``, ``{choices}`` and the row's
    own fields, asked as a chat (with ``system``, when given) or continued as raw text.

    ``kind`` says how answers are found and compared (see ``extract`` and ``grade``): number, math,
    choice, text. ``choices`` may hold ``["A) bank", ...]``, ``[{label, text}, ...]``,
    ``{label: [...], text: [...]}`` or plain texts. ``distractors`` are fields with wrong options that
    together with ``gold`` make up the options, in an order drawn from the question's text.
    ``tolerance`` is relative, for numbers; 0 compares exactly.

    ``id`` is a field, or null for a hash of the question; a repeated id gets ``-2``, ``-3``. ``shuffle``
    is a seed for the order of problems (null: as in the file).

    Raises ``DataError`` for a file that is missing, broken or empty, a missing field, and when no gold
    answer at all can be parsed; single ones are warned about once and count as having none.
    """

    path: str | None = None
    hub: str | None = None
    subset: str | None = None
    split: str = "test"
    question: str | tuple[str, ...] = "question"
    gold: str | tuple[str, ...] | None = "answer"
    id: str | None = None
    choices: str | tuple[str, ...] | None = None
    distractors: tuple[str, ...] = ()
    kind: Kind = "number"
    prompt: str = "{question}"
    chat: bool = True
    system: str | None = None
    stop: tuple[str, ...] = ()
    separator: str = "\n\n"
    probe: str = PROBE
    tolerance: float = 0.0
    shuffle: int | None = None

    def __post_init__(self) -> None:
        check_kind(self.kind)
        for name in ("question", "gold", "choices", "distractors", "stop"):
            object.__setattr__(self, name, strings(getattr(self, name), name))
        if not self.question:
            raise ConfigError("names no field", "question")
        check_text_setting(self.stop, "stop")
        check_text_setting([self.separator], "separator")
        if not self.separator:
            raise ConfigError("is empty; give the string that ends a step", "separator")
        for name in self.question:
            Template(name, "question")
        if not Template(self.prompt, "prompt").names:
            raise ConfigError("names no field, so that all prompts would be equal; use {question}", "prompt")
        self._check_choices()
        if self.system is not None and not self.chat:
            raise ConfigError("needs chat: true; raw text has no system turn", "system")
        if not 0 <= self.tolerance < 1:
            raise ConfigError(f"must lie in [0, 1), got {self.tolerance}", "tolerance")

    def _check_choices(self) -> None:
        has_options = bool(self.choices or self.distractors)
        if self.kind == "choice" and not has_options:
            raise ConfigError(
                "is choice, so set choices (or distractors) to the field of the options", "kind"
            )
        if self.kind != "choice" and has_options:
            raise ConfigError(f"has options, so kind must be choice, not {self.kind}", "choices")
        if self.choices and self.distractors:
            raise ConfigError("cannot stand beside choices: the options come from one of them", "distractors")
        if self.distractors and not self.gold:
            raise ConfigError("need gold, the field of the right option", "distractors")

    def problems(self) -> list[Problem]:
        """Return all problems, in the order of the file or shuffled."""
        if self.kind == "math":
            grade.need_math_verify()
        pairs = [
            (row, self._problem(row)) for row in named_rows(self.path, self.hub, self.subset, self.split)
        ]
        problems = unique(self._golden(pairs))
        if self.shuffle is not None:
            random.Random(derive("shuffle", self.shuffle)).shuffle(problems)  # noqa: S311 - not for secrets
        return problems

    def answer(self, text: str, problem: Problem) -> Answer | None:
        """Return the answer a finished text gives."""
        return extract(text, self.kind, problem.data.get("choices", ()))

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Return whether the answer equals the gold one; None without one or when grading failed."""
        return grade.correct(answer, problem.gold, self.kind, problem.data.get("choices", ()), self.tolerance)

    def _problem(self, row: Row) -> Problem:
        question = self._question(row)
        choices, gold = self._options(row, question)
        values = {"question": question, "choices": render(choices)}
        # The task's own names win over fields of the row that are called the same.
        prompt = Template(self.prompt, "prompt").fill(Row({**row.data, **values}, row.place))
        system = () if self.system is None else (Message("system", self.system),)
        hashed = content_id("\x1f".join(values.values()))
        return Problem(
            prompt=(*system, Message("user", prompt)) if self.chat else prompt,
            id=hashed if self.id is None else as_text(row.get(self.id), self.id, row.place),
            gold=gold,
            data={"choices": choices} if choices else {},
        )

    def _question(self, row: Row) -> str:
        """Return the first question that the row has the fields for, a template or a field."""
        names = strings(self.question, "question")
        for name in names:
            template = Template(name, "question")
            if template.names and all(row.has(field) for field in template.names):
                return template.fill(row)
            if not template.names and row.has(name) and not isinstance(row.get(name), dict):
                return as_text(row.get(name), name, row.place)
        wanted = Template(names[-1], "question").names or names[-1:]
        return as_text(
            row.first([name for name in wanted if not row.has(name)] or wanted), names[-1], row.place
        )

    def _options(self, row: Row, question: str) -> tuple[Choices, str | None]:
        """Return the options of a row, and its gold answer."""
        names = strings(self.gold, "gold")
        gold: Any = row.first(names) if names else None
        if self.distractors:
            texts = [as_text(gold, names[0], row.place)]
            texts += [as_text(row.get(name), name, row.place) for name in self.distractors]
            order = list(range(len(texts)))
            random.Random(derive("options", question)).shuffle(order)  # noqa: S311 - not for secrets
            choices = labelled([texts[number] for number in order])
            return choices, choices[order.index(0)][0]
        if self.choices:
            choices = options_of(row.first(strings(self.choices, "choices")), row.place)
            return choices, None if gold is None else gold_label(gold, choices) or ""
        return (), as_text(gold, names[0], row.place) if names and gold is not None else None

    def _golden(self, pairs: Sequence[tuple[Row, Problem]]) -> list[Problem]:
        """Reduce gold texts to gold answers; warn once about those that parse to nothing."""
        problems, bad = [], []
        for row, problem in pairs:
            gold = problem.gold
            if gold is not None:
                gold = grade.gold_text(gold, self.kind, problem.data.get("choices", ())) or None
                if gold is None:
                    bad.append(row.place)
            problems.append(replace(problem, gold=gold))
        if bad and len(bad) == len(problems):
            raise DataError(
                f"{bad[0]}: no gold answer of these {len(bad)} rows is of kind {self.kind}; "
                f"is gold: {', '.join(strings(self.gold, 'gold'))} the right field, and the kind?"
            )
        if bad:
            warnings.warn(
                f"{len(bad)} of {len(problems)} gold answers are not of kind {self.kind} and count as "
                f"unknown; the first is at {bad[0]}",
                stacklevel=3,
            )
        return problems
