"""Candidates and replies to drive single stages with."""

from types import SimpleNamespace

import pytest

from ttsflow.ops import Generate, Generated, Note, Quotation, Quote, Score, Scored, Tally, Verdict
from ttsflow.testing import drive
from ttsflow.types import Answer, Candidate, Problem, State, Usage

PROBLEM = Problem("?", id="p")


def cand(path, answer=None, *, score=None, length=3, finish="stop", **changes):
    """Return a candidate; ``path`` may be one number."""
    return Candidate(
        path=path if isinstance(path, tuple) else (path,),
        prompt=(),
        tokens=(7,) * length,
        text="7" * length,
        finish=finish,
        answer=None if answer is None else Answer(answer, answer),
        score=score,
        **changes,
    )


def state(*pool, **changes):
    return State(PROBLEM, pool=tuple(pool), **changes)


class Driver:
    """Plays the driver: answers operations and remembers them.

    Every request gives one child; ``finish`` says how, ``grant`` how many are not refused.
    """

    def __init__(self, *, finish="stop", grant=None, stopped=None, scores=None, quotation=None):
        self.finish = finish
        self.grant = grant
        self.stopped = stopped
        self.scores = scores or {}
        self.quotation = quotation
        self.ops = []
        self.made = 0

    def __call__(self, op):
        self.ops.append(op)
        if isinstance(op, Generate):
            asked = op.requests[: self.grant]
            return Generated(tuple(map(self._child, asked)), Usage(output=len(asked)), self.stopped)
        if isinstance(op, Score):
            verdicts = [self.scores.get(c.path, Verdict("", (0.5,))) for c in op.candidates]
            return Scored(tuple(verdicts), Usage(verifier=len(verdicts)))
        if isinstance(op, Quote):
            return self.quotation
        assert isinstance(op, Note | Tally)
        return None

    def _child(self, request):
        self.made += 1
        path = (*(request.parent.path if request.parent else ()), 100 + self.made)
        finish = self.finish if request.unit == "step" else "stop"
        return cand(path, "1" if finish == "stop" else None, finish=finish)

    def run(self, stage, start):
        return drive(stage, start, self)

    def of(self, kind):
        return [op for op in self.ops if isinstance(op, kind)]

    def note(self):
        (note,) = self.of(Note)
        return note.data


def quotation(left, limit=None, price=None):
    return Quotation(price or {}, left, limit or dict.fromkeys(left, 100.0), Usage())


@pytest.fixture(scope="session")
def kit():
    return SimpleNamespace(cand=cand, state=state, Driver=Driver, quotation=quotation)
