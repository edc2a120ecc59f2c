"""What is relied on in every part, in verifiers and in tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from ttsflow.build import fill
from ttsflow.errors import PluginError
from ttsflow.parts import settings
from ttsflow.plugins import load
from ttsflow.protocols import Task, Verifier, VerifierPart
from ttsflow.testing.parts import FakeTask
from ttsflow.types import Answer, Candidate, Problem

__all__ = ["PartContract", "TaskContract", "VerifierContract"]


class PartContract:
    """A part is a frozen dataclass of settings. Needs a fixture ``part``."""

    def test_is_a_frozen_dataclass(self, part: Any) -> None:
        """Settings cannot change under a run, and equal settings are one part."""
        assert is_dataclass(part)
        assert not isinstance(part, type)
        names = [item.name for item in fields(part)]
        # A frozen class with slots and without fields raises TypeError in Python 3.11.
        with pytest.raises((AttributeError, TypeError)):
            setattr(part, names[0] if names else "anything", None)
        assert part == type(part)(**{name: getattr(part, name) for name in names})

    def test_a_config_makes_an_equal_part(self, part: Any) -> None:
        """Every setting can be written in YAML, and what is written makes the same part again."""
        try:
            written = settings(part, load())
        except PluginError as error:
            pytest.skip(f"a part inside it has no name: {error}")
        assert fill(type(part), written, "", load()) == part


class VerifierContract(PartContract):
    """A verifier answers every candidate once. Needs a fixture ``part``.

    Set ``whole`` for one that scores a candidate as a whole: at most one score instead of one per step.
    """

    whole = False

    def opened(self, part: VerifierPart) -> Verifier:
        """Return the working verifier; one that must know the task is given a fake one."""
        open_for = getattr(part, "open_for", None)
        if open_for is None:
            return part.open()
        verifier: Verifier = open_for(FakeTask())
        return verifier

    def test_one_score_per_step(self, part: VerifierPart) -> None:
        """One verdict per candidate, one score per non-empty line, each a number or None."""
        verifier = self.opened(part)
        problem = Problem("What is 1 + 2 + 3?", gold="6")
        texts = ["1 + 2 = 3\n3 + 3 = 6\n", "1 + 2 = 4\n\n4 + 3 = 7", "6"]
        for index, text in enumerate(texts):
            tokens = tuple(text.encode())
            verifier.submit(str(index), problem, Candidate((index,), (), tokens, text, finish="stop"))
        verdicts = {}
        for _ in range(1000):
            for verdict in verifier.step():
                assert verdict.id not in verdicts
                verdicts[verdict.id] = verdict
            if len(verdicts) == len(texts):
                break
        assert sorted(verdicts) == ["0", "1", "2"]
        for index, text in enumerate(texts):
            scores = verdicts[str(index)].scores
            steps = sum(bool(line.strip()) for line in text.split("\n"))
            assert len(scores) <= 1 if self.whole else len(scores) == steps
            assert all(score is None or math.isfinite(score) for score in scores)
        verifier.close()
        verifier.close()

    def test_a_score_does_not_depend_on_what_is_scored_beside_it(self, part: VerifierPart) -> None:
        """Candidates of all problems in flight are one batch, and how many those are must not matter."""
        problem = Problem("What is 1 + 2 + 3?", gold="6")
        texts = ["1 + 2 = 3\n3 + 3 = 6\n", "1 + 2 = 4\n4 + 3 = 7", "6"]
        candidates = [
            Candidate((i,), (), tuple(text.encode()), text, finish="stop") for i, text in enumerate(texts)
        ]
        together = self.verdicts(part, problem, candidates)
        alone = [self.verdicts(part, problem, [candidate])[0] for candidate in candidates]
        for one, other in zip(together, alone, strict=True):
            assert one == pytest.approx(other)

    def verdicts(
        self, part: VerifierPart, problem: Problem, candidates: Sequence[Candidate]
    ) -> list[tuple[float | None, ...]]:
        """Return the scores of candidates that are given to a new verifier together."""
        verifier = self.opened(part)
        scores: dict[str, tuple[float | None, ...]] = {}
        for index, candidate in enumerate(candidates):
            verifier.submit(str(index), problem, candidate)
        for _ in range(1000):
            scores |= {verdict.id: verdict.scores for verdict in verifier.step()}
            if len(scores) == len(candidates):
                break
        verifier.close()
        return [scores[str(index)] for index in range(len(candidates))]

    def test_cancelled_is_silent(self, part: VerifierPart) -> None:
        """No verdict of a cancelled candidate follows."""
        verifier = self.opened(part)
        verifier.submit("gone", Problem("?"), Candidate((0,), (), (1,), "1 + 1 = 2", finish="stop"))
        verifier.cancel(["gone", "unknown"])
        assert not verifier.step()
        verifier.close()


class TaskContract(PartContract):
    """A task is a list of problems and what an answer is. Needs a fixture ``part``."""

    def test_problems_are_stable_and_distinct(self, part: Task) -> None:
        """Asked twice, the same problems; no id twice."""
        first, second = part.problems(), part.problems()
        assert list(first) == list(second)
        assert first
        assert len({problem.id for problem in first}) == len(first)

    def test_answers(self, part: Task) -> None:
        """The gold answer is right, no answer is not, and emptiness is no answer."""
        problem = next(problem for problem in part.problems() if problem.gold is not None)
        gold = part.answer(f"Answer: {problem.gold}", problem)
        assert isinstance(gold, Answer)
        assert part.correct(gold, problem) is True
        assert not part.correct(None, problem)
        assert part.answer("", problem) is None

    def test_borders(self, part: Task) -> None:
        """Steps end at a separator that is not also the end of everything."""
        assert part.separator
        assert part.separator not in part.stop
        assert all(part.stop), "an empty stop string would end every text at once"
        assert isinstance(part.probe, str)
