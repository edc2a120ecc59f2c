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


def test_engines_of_one_run_are_open_side_by_side():
    first, second, again = warm.acquire_all([Part(1), Part(2), Part(1)])
    assert first is again
    assert not first.closed
    assert not second.closed
    assert warm.acquire_all([Part(2), Part(1)]) == [second, first]
    assert first.resets == second.resets == 1


def test_what_is_not_in_the_way_stays_open():
    first = warm.acquire(Part(1))
    assert warm.acquire_all([Part(1), Part(2)])[0] is first
    assert warm.acquire(Part(1)) is first
    (_, second) = warm.acquire_all([Part(1), Part(2)])
    assert not second.closed


def test_what_is_in_the_way_of_another_closes_all_together():
    first, second = warm.acquire_all([Part(1), Part(2)])
    third, fresh = warm.acquire_all([Part(3), Part(2)])
    assert first.closed
    assert second.closed
    assert fresh is not second
    assert not third.closed
    assert not fresh.closed


@pytest.mark.parametrize("flaw", ["dead", "closed", "stuck"])
def test_one_that_no_longer_works_takes_the_others_with_it(flaw):
    first, second = warm.acquire_all([Part(1), Part(2)])
    setattr(second, flaw, True)
    fresh = warm.acquire_all([Part(1), Part(2)])
    assert first.closed
    assert not {id(engine) for engine in fresh} & {id(first), id(second)}
    # One that nobody asks for is left alone until something has to be loaded.
    setattr(fresh[1], flaw, True)
    assert warm.acquire(Part(1)) is fresh[0]


def test_a_failure_to_open_the_second_closes_the_first():
    opened = []

    @dataclass(frozen=True)
    class Noting(Part):
        def open(self):
            opened.append(super().open())
            return opened[-1]

    with pytest.raises(OSError, match="no model"):
        warm.acquire_all([Noting(), Broken()])
    assert opened[0].closed
    assert warm.acquire(Noting()) is not opened[0]


def test_one_that_cannot_be_closed_does_not_keep_the_others_open():
    first, second = warm.acquire_all([Part(1), Part(2)])

    def close():
        raise RuntimeError("stuck")

    second.close = close
    with pytest.raises(RuntimeError, match="stuck"):
        warm.close_all()
    assert first.closed
    warm.close_all()


def test_all_are_closed_once():
    engine = warm.acquire(Part())
    warm.close_all()
    warm.close_all()
    assert engine.closed
