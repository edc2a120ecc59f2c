"""Sums of a few numbers, made up on the spot: a task that needs no data and suits a tiny model."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.lineage import derive
from ttsflow.tasks.keys import key_of
from ttsflow.types import Answer, Problem

__all__ = ["Arithmetic"]

_ANSWER = re.compile(r"^[ \t]*Answer:[ \t]*(-?\d[\d,]*)[ \t]*\.?[ \t]*$", re.MULTILINE)

_RESULT = re.compile(r"=[ \t]*(-?\d[\d,]*)\s*\Z")


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Problems such as ``Add 3, 4, 5``, worked out one addition a line, then ``Answer: 12.``.

    ``terms`` numbers of ``digits`` digits (one digit: 1 to 9), ``size`` problems, ``examples`` worked
    examples in the prompt. A problem set is a pure function of the settings, a larger ``size`` only
    appends to it; problems are distinct as long as there are enough. The examples depend on ``terms``
    and ``digits`` alone and are never among the problems.

    A line is a step. The full stop behind the answer ends a trajectory, so that a search ends with the
    step that answers instead of one more that is empty. A trajectory without an answer line answers
    with the result of its last addition, if it ends with one. ``data["terms"]`` holds the numbers, for
    verifiers.
    """

    terms: int = 3
    digits: int = 1
    size: int = 40
    seed: int = 0
    examples: int = 4

    steps: ClassVar[str] = "sums"

    def __post_init__(self) -> None:
        for name, low, high in (("terms", 2, 50), ("digits", 1, 15), ("size", 1, 10**6), ("examples", 0, 32)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"must lie between {low} and {high}, got {value}", name)

    @property
    def stop(self) -> tuple[str, ...]:
        """A full stop, which no correct line has before its end, or the gap between two problems."""
        return (".", "\n\n", "Add ")

    @property
    def separator(self) -> str:
        """A line is a step."""
        return "\n"

    @property
    def probe(self) -> str:
        """What stands before the answer in the worked examples."""
        return "\nAnswer:"

    def problems(self) -> list[Problem]:
        """Return all problems."""
        examples = self._examples()
        shots = "".join(f"{_asked(terms)}{worked(terms)}.\n\n" for terms in examples)
        drawn = self._drawn(random.Random(derive("arithmetic", self.seed, self.terms, self.digits)), examples)  # noqa: S311
        return [
            Problem(
                prompt=f"{shots}{_asked(terms)}",
                id=f"arithmetic-{'+'.join(map(str, terms))}" + (f"-{turn}" if turn > 1 else ""),
                gold=str(sum(terms)),
                data={"terms": terms},
            )
            for (terms, turn), _ in zip(drawn, range(self.size), strict=False)
        ]

    def answer(self, text: str, problem: Problem) -> Answer | None:  # noqa: ARG002 - the protocol's signature
        """Return the number on the last answer line; without one, what the last line has computed."""
        found = _ANSWER.findall(text) or _RESULT.findall(text)
        return Answer(found[-1], key_of(found[-1], "number")) if found else None

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Return whether the answer is the sum."""
        if problem.gold is None:
            return None
        return answer is not None and answer.key == problem.gold

    def _examples(self) -> list[tuple[int, ...]]:
        rng = random.Random(derive("arithmetic examples", self.terms, self.digits))  # noqa: S311
        drawn = self._drawn(rng, [])
        return [terms for (terms, _), _ in zip(drawn, range(self.examples), strict=False)]

    def _drawn(
        self, rng: random.Random, refused: list[tuple[int, ...]]
    ) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield (terms, turn) without end; each problem comes once a turn."""
        low, high = 10 ** (self.digits - 1), 10**self.digits - 1
        available = (high - low + 1) ** self.terms - len(refused)
        turn, seen = 1, set(refused)
        while True:
            if len(seen) - len(refused) == available:
                turn, seen = turn + 1, set(refused)
            terms = tuple(rng.randint(low, high) for _ in range(self.terms))
            if terms not in seen:
                seen.add(terms)
                yield terms, turn


def worked(terms: tuple[int, ...]) -> str:
    """Return the solution of a sum as the examples show it, without the final full stop."""
    lines, total = [], terms[0]
    for term in terms[1:]:
        lines.append(f"{total} + {term} = {total + term}")
        total += term
    return "\n".join([*lines, f"Answer: {total}"])


def _asked(terms: tuple[int, ...]) -> str:
    # Put as a list, a tiny model gets 0.53 of its samples right; put as a sum to be continued, 0.38
    # (SmolLM2-135M-Instruct, three digits, temperature 0.8): it must not look like the first step.
    return f"Add {', '.join(map(str, terms))}\n"
