"""Allocate: as many samples at once as a controller grants."""

from dataclasses import dataclass

import pytest

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note, Offer, Quotation, Quote
from ttsflow.strategies.allocate import Allocate
from ttsflow.testing import drive
from ttsflow.types import Candidate, Problem, State, Usage


@dataclass(frozen=True)
class Upto:
    """Grants so many samples."""

    most: int
    unit: str | None = None

    def open(self, unit):
        raise NotImplementedError


def run(most, state=None, **settings):
    asked, drawn, notes = [], [], []

    def reply(op):
        if isinstance(op, Quote):
            asked.append(op.samples)
            refused = None if op.samples <= most else f"not {op.samples}"
            return Quotation({}, {}, {}, Usage(), {op.samples: Offer("tokens", 1.0, refused=refused)})
        if isinstance(op, Generate):
            drawn.append(len(op.requests))
            pool = tuple(Candidate((n,), ()) for n in range(len(op.requests)))
            return Generated(pool, Usage())
        assert isinstance(op, Note)
        notes.append(op.data)
        return None

    end = drive(Allocate(Upto(most), **settings), state or State(Problem("?")), reply)
    return end, asked, drawn, notes


def test_the_largest_rung_that_is_granted_is_drawn_at_once():
    end, asked, drawn, _ = run(5)
    assert (asked, drawn) == ([8, 6, 4], [4])
    assert len(end.pool) == 4
    assert run(100)[2] == [8]
    assert run(100, n=5)[1:3] == ([5], [5])


def test_where_nothing_is_granted_the_question_is_deferred():
    end, asked, drawn, notes = run(0)
    assert (asked, drawn) == ([8, 6, 4, 3, 1], [])
    assert (end.stopped, end.pool) == ("not 1", ())
    assert notes == [{"reason": "not 1", "samples": 0}]


def test_one_that_has_samples_votes_with_these():
    state = State(Problem("?")).with_(pool=(Candidate((0,), ()),))
    end, *_ = run(0, state)
    assert (end.stopped, end.ended) == (None, "not 1")


def test_one_that_was_stopped_asks_nothing():
    end, asked, drawn, _ = run(8, State(Problem("?")).with_(stopped="enough"))
    assert (end.stopped, asked, drawn) == ("enough", [], [])


def test_a_controller_that_says_nothing_is_a_bug():
    with pytest.raises(RuntimeError, match="gave no offer"):
        drive(Allocate(Upto(1)), State(Problem("?")), lambda _: Quotation({}, {}, {}, Usage()))


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"n": 0}, "n"), ({"n": 10**6}, "n"), ({"rungs": ()}, "rungs"), ({"rungs": (3, 1)}, "rungs")],
)
def test_settings_that_cannot_be_name_their_field(settings, field):
    with pytest.raises(ConfigError) as caught:
        Allocate(Upto(1), **settings)
    assert caught.value.path == field
