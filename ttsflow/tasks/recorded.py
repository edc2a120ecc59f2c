"""The problems of a file of recordings, with the answers and verdicts that were recorded."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError, DataError, suggest
from ttsflow.library import check_count, library
from ttsflow.recordings import Count, Recording
from ttsflow.tasks import grade
from ttsflow.tasks.extract import PROBE
from ttsflow.tasks.keys import Kind, check_kind, key_of
from ttsflow.tasks.rows import check_text_setting, strings
from ttsflow.types import Answer, Problem

__all__ = ["Recorded"]

_LABEL = re.compile(r"\(?([A-Za-z]|\d{1,2})[).:]?")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Asks for what was recorded in ``path`` (None: the recordings of this package), on engine ``replay``.

    ``model`` and ``dataset`` choose a part of the file. A problem's prompt is its id: the question itself
    is not in the file. The answer of a text is the one that was recorded for it and is never read out of
    the text again; it is right when that was recorded, or else when it equals the gold answer.

    Without ``kind`` answers are one when their texts are equal, else when they have one key of that kind
    (number, math, choice, text); a choice is one letter or a number of up to two digits. ``count`` is
    that of the engine.

    Raises ``DataError`` for a file that is missing or broken, and when no gold answer is of that kind;
    single ones are warned about and count as unknown.
    """

    path: str | None = None
    model: str | None = None
    dataset: str | None = None
    kind: Kind | None = None
    count: Count = "tokens"
    stop: tuple[str, ...] = ()
    separator: str = "\n\n"
    probe: str = PROBE

    #: Its prompts are names of what was recorded, which only an engine that plays the recordings can answer.
    names_alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_kind(self.kind)
        check_count(self.count)
        object.__setattr__(self, "stop", strings(self.stop, "stop"))
        check_text_setting([*self.stop, self.separator], "stop")
        if not self.separator:
            raise ConfigError("is empty; give the string that ends a step", "separator")

    @property
    def source(self) -> tuple[str | None, str]:
        """The file it reads and how; the engine must read the same."""
        return self.path, self.count

    def problems(self) -> list[Problem]:
        """Return the problems, in the order of the file."""
        chosen: Sequence[Recording] = list(library(self.path, self.count).recordings.values())
        chosen = _only(chosen, "model", self.model)
        chosen = _only(chosen, "dataset", self.dataset)
        if self.kind == "math" and any(s.correct is None for r in chosen for s in r.samples if s.answer):
            grade.need_math_verify()
        problems = [self._problem(recording) for recording in chosen]
        self._check_gold(chosen, problems)
        return problems

    def answer(self, text: str, problem: Problem) -> Answer | None:
        """Return the answer that was recorded with this text."""
        said: str | None = problem.data["answers"].get(text)
        if said is None:
            return None
        key = self._key(said)
        return Answer(said, key) if key else None

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Return the recorded verdict, or whether the answer equals the gold one; None when neither is known.

        Where two texts of one key were graded differently, the gold answer decides.
        """
        verdicts = problem.data["verdicts"]
        if answer is None:
            return False if verdicts or problem.gold is not None else None
        known: bool | None = verdicts.get(answer.key)
        if known is not None or problem.gold is None:
            return known
        if self.kind in ("number", "math"):
            return grade.correct(answer, problem.gold, self.kind)
        return answer.key == self._key(problem.gold)

    def _problem(self, recording: Recording) -> Problem:
        answers: dict[str, str] = {}
        verdicts: dict[str, bool | None] = {}
        for number, sample in enumerate(recording.samples):
            if sample.answer is None:
                continue
            if answers.setdefault(sample.said, sample.answer) != sample.answer:
                raise DataError(
                    f"{recording.id}: sample {number} has the text of an earlier one, but another answer",
                    "path",
                )
            if sample.correct is not None:
                key = self._key(sample.answer)
                same = verdicts.setdefault(key, sample.correct) == sample.correct
                verdicts[key] = sample.correct if same else None
        gold = recording.gold
        if gold is not None and self.kind is not None:
            gold = _label(gold) if self.kind == "choice" else grade.gold_text(gold, self.kind)
        data = {"answers": answers, "verdicts": verdicts, "dataset": recording.dataset}
        return Problem(prompt=recording.id, id=recording.id, gold=gold or None, data=data)

    def _key(self, said: str) -> str:
        if self.kind is None:
            return said
        return (self.kind == "choice" and _label(said)) or key_of(said, self.kind)

    def _check_gold(self, recordings: Sequence[Recording], problems: Sequence[Problem]) -> None:
        """Say which gold answers are none of this kind."""
        bad = [
            r.id for r, p in zip(recordings, problems, strict=True) if r.gold is not None and p.gold is None
        ]
        if bad and len(bad) == len(problems):
            raise DataError(f"no gold answer of these {len(bad)} problems is of kind {self.kind}", "kind")
        if bad:
            warnings.warn(
                f"{len(bad)} of {len(problems)} gold answers are not of kind {self.kind} and count as "
                f"unknown; the first is that of {bad[0]}",
                stacklevel=3,
            )


def _label(said: str) -> str:
    """Return the label of an option in upper case, such as B of ``(b)``, empty when it is none."""
    found = _LABEL.fullmatch(said.strip())
    return found[1].upper() if found else ""


def _only(recordings: Sequence[Recording], field: str, wanted: str | None) -> Sequence[Recording]:
    """Return the recordings of one model or data set. Raises ``ConfigError`` when there are none."""
    if wanted is None:
        return recordings
    chosen = [recording for recording in recordings if getattr(recording, field) == wanted]
    if not chosen:
        known = _names(getattr(recording, field) for recording in recordings)
        what = "data set" if field == "dataset" else field
        raise ConfigError(f"no recordings of a {what} {wanted!r}. {suggest(wanted, known)}", field)
    return chosen


def _names(names: Iterable[str]) -> set[str]:
    return {name for name in names if name}
