"""Which engine ``warm.acquire`` hands out, with engines that only remember what was done to them."""

from dataclasses import dataclass

import pytest

from ttsflow.engines import warm


class Engine:
    def __init__(self, size):
        self.size = size
        self.resets = 0
        self.dead = self.closed = self.stuck = False

    def reset(self):
        if self.stuck:
            raise RuntimeError("cannot")
        self.resets += 1

    def close(self):
        self.closed = True


@dataclass(frozen=True)
class Part:
    size: int = 1

    def open(self):
        return Engine(self.size)


@dataclass(frozen=True)
class Broken:
    def open(self):
        raise OSError("no model")


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setattr(warm, "_held", [])


def test_equal_settings_share_an_engine_that_is_reset_between():
    engine = warm.acquire(Part())
    assert engine.resets == 0
    assert warm.acquire(Part()) is engine
    assert engine.resets == 1


def test_other_settings_close_the_first():
    first, second = warm.acquire(Part(1)), warm.acquire(Part(2))
    assert first.closed
    assert not second.closed
    assert second.size == 2


@pytest.mark.parametrize("flaw", ["dead", "closed", "stuck"])
def test_an_engine_that_no_longer_works_is_replaced(flaw):
    engine = warm.acquire(Part())
    setattr(engine, flaw, True)
    assert warm.acquire(Part()) is not engine
    assert engine.closed


def test_a_failure_to_open_leaves_nothing_behind():
    engine = warm.acquire(Part())
    with pytest.raises(OSError, match="no model"):
        warm.acquire(Broken())
    assert engine.closed
    assert not warm.acquire(Part()).closed


def test_all_are_closed_once():
    engine = warm.acquire(Part())
    warm.close_all()
    warm.close_all()
    assert engine.closed
