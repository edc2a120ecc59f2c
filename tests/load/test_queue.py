"""The queue of an engine: others' waiting requests, smoothed on its clock."""

import math
from types import SimpleNamespace

import pytest

from ttsflow.engines.decorated import Decorated
from ttsflow.engines.shared import share
from ttsflow.errors import ConfigError
from ttsflow.load.idle import NoLoad
from ttsflow.load.opening import open_load
from ttsflow.load.queued import QueueLoad
from ttsflow.load.written import TraceLoad
from ttsflow.testing import FakeEngine


class Busy(FakeEngine):
    """An engine that tells what it is busy with."""

    busy = SimpleNamespace(running=4, waiting=0, kv=0.0)

    def load(self):
        return self.busy


def engine(running=0, waiting=0):
    made = Busy(capacity=4)
    made.busy = SimpleNamespace(running=running, waiting=waiting, kv=0.5)
    return made


def test_waiting_against_seats_smoothed():
    made = engine(4, 4)
    monitor = QueueLoad().open_on(made)
    assert monitor.read(10.0, 0) == 0.5, "the first value stands"
    made.busy = SimpleNamespace(running=4, waiting=12, kv=0.5)
    assert monitor.read(10.0, 0) == 0.5, "no time has passed"
    assert monitor.read(10.5, 0) == pytest.approx(0.75 - 0.25 / math.e)
    assert monitor.read(3.0, 1) == pytest.approx(0.75 - 0.25 / math.e), "a clock that went back"
    made.busy = SimpleNamespace(running=0, waiting=0, kv=0.0)
    assert monitor.read(100.0, 1) == pytest.approx(0.0, abs=1e-9)
    monitor.close()
    monitor.close()


@pytest.mark.parametrize(
    ("running", "waiting", "own", "others"),
    [
        (4, 4, 8, 0),  # all are our own
        (4, 4, 6, 2),  # at most the two that are not
        (4, 4, 0, 4),
        (0, 0, 5, 0),  # ours, of which the engine does not know yet
    ],
)
def test_own_requests_do_not_count(running, waiting, own, others):
    monitor = QueueLoad(smooth=0).open_on(engine(running, waiting), lambda: own)
    assert monitor.read(0.0, 0) == others / (others + 4)


def test_through_what_stands_around_an_engine():
    made = engine(4, 4)
    for outer in (Decorated(made), Decorated(Decorated(made)), *share(made)):
        assert QueueLoad().open_on(outer).read(0.0, 0) == 0.5


@pytest.mark.parametrize("outer", [FakeEngine(), Decorated(FakeEngine()), share(FakeEngine())[0]])
def test_an_engine_that_does_not_tell_is_refused(outer):
    with pytest.raises(ConfigError, match=r"has none. Known: vllm"):
        QueueLoad().open_on(outer)


def test_a_run_opens_what_looks_at_its_engine_there():
    made = engine(4, 4)
    monitor = open_load(QueueLoad(smooth=0), made, lambda: 6)
    assert monitor.read(0.0, 0) == 2 / 6
    assert open_load(TraceLoad((0.3,)), made, lambda: 6).read(0.0, 0) == 0.3
    assert open_load(NoLoad(), FakeEngine(), lambda: 0).read(0.0, 0) == 0.0


def test_it_does_not_open_without_an_engine():
    QueueLoad().check()
    with pytest.raises(ConfigError, match="open_on"):
        QueueLoad().open()
    with pytest.raises(ConfigError, match="smoothing"):
        QueueLoad(smooth=-1)
