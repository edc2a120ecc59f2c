"""The load of the CPUs: own work leaves no trace, and no counter makes it anything but a share."""

import math
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.load import cpu, own
from ttsflow.load.cpu import CPULoad, CPUMonitor, Spent, spent
from ttsflow.load.own import Family
from ttsflow.load.smooth import Smooth


class Machine:
    """Two cores with a clock, others' work and our own."""

    def __init__(self, smooth=0.5):
        self.now, self.busy, self.total, self.own = 100.0, 50.0, 200.0, 20.0
        self.monitor = CPUMonitor(
            smooth, clock=lambda: self.now, all=lambda: Spent(self.busy, self.total), own=lambda: self.own
        )

    def run(self, seconds, others=0.0, own=0.0):
        """Let time pass in which others and we use so much of the cores; return what is read then."""
        self.now += seconds
        self.total += 2 * seconds
        self.busy += 2 * seconds * (others + own)
        self.own += 2 * seconds * own
        return self.monitor.read(self.now, 0)


def test_others_count_and_own_work_does_not():
    machine = Machine()
    assert machine.monitor.read(0.0, 0) == 0
    assert machine.run(1, others=0.5, own=0.5) == pytest.approx(0.5)
    assert machine.run(0.5, others=0.0, own=1.0) == pytest.approx(0.5 / math.e)
    assert machine.run(30, own=1.0) == pytest.approx(0, abs=1e-9)


def test_many_short_looks_are_one_long_one():
    one, many = Machine(), Machine()
    for machine in (one, many):
        machine.run(1, others=1.0)
    for _ in range(20):
        found = many.run(0.05001, others=0.25)
    assert found == pytest.approx(one.run(20 * 0.05001, others=0.25), abs=1e-6)


def test_looks_are_50_ms_apart():
    machine = Machine(smooth=0)
    assert machine.run(0.04, others=1.0) == 0
    assert machine.run(0.02, others=0.0) == pytest.approx(0.04 / 0.06), "nothing is missed"


def test_own_time_that_is_counted_early_or_late_leaves_no_trace():
    machine = Machine()
    found = []
    for step in range(400):
        machine.own += (0.02, -0.02)[step % 2]  # the kernel's hundredths against microseconds
        found.append(machine.run(0.06, others=0.3, own=0.4))
    assert sum(found[50:]) / len(found[50:]) == pytest.approx(0.3, abs=0.01)


counters = st.lists(
    st.tuples(*[st.floats(allow_nan=False, allow_infinity=False, width=32) | st.just(0.0) for _ in range(4)]),
    max_size=20,
)


@pytest.mark.slow
@given(counters, st.floats(0, 10))
def test_always_a_share_whatever_clock_and_counters_do(steps, smooth):
    machine = Machine(smooth)
    for machine.now, machine.busy, machine.total, machine.own in steps:
        assert 0 <= machine.monitor.read(machine.now, 0) <= 1


def test_after_a_reset_it_goes_on():
    machine = Machine()
    machine.run(1, others=0.5)
    machine.busy = machine.total = machine.own = 0.0
    assert machine.run(1, others=1.0) == pytest.approx(0.5), "this stretch says nothing"
    assert machine.run(5, others=1.0) == pytest.approx(1.0, abs=1e-4)
    machine.now = 0.0
    machine.monitor.read(0.0, 0)
    assert machine.run(5, others=0.0) == pytest.approx(0.0, abs=1e-4)


def test_counters_that_cannot_be_read_leave_what_was_known():
    machine = Machine()
    machine.run(1, others=0.5)
    machine.monitor._all = lambda: 1 / int("x")
    assert machine.run(1, others=1.0) == pytest.approx(0.5)


def test_the_kernels_counters(tmp_path, monkeypatch):
    (tmp_path / "stat").write_text(
        "cpu  9 9 9 9 9 9 9 9 9 9\n"
        "cpu0 100 50 20 500 30 1 2 10 40 0\n"
        "cpu1 9999 0 0 0 0 0 0 0 0 0\n"
        "cpu12 100 50 20 500 30\n"
        "intr 5\n"
    )
    monkeypatch.setattr(cpu, "PROC", tmp_path)
    monkeypatch.setattr(cpu.os, "sched_getaffinity", lambda _: {0, 12})
    tick = os.sysconf("SC_CLK_TCK")
    found = spent()
    assert (found.busy * tick, found.total * tick) == (pytest.approx(353), pytest.approx(1413))
    monkeypatch.setattr(cpu.os, "sched_getaffinity", lambda _: {5})
    with pytest.raises(ConfigError, match="load=none does without") as caught:
        CPULoad().check()
    assert caught.value.path == "use"
    (tmp_path / "stat").unlink()
    with pytest.raises(ConfigError, match="cannot be read here"):
        CPULoad().open()


def test_this_machine_tells():
    part = CPULoad()
    part.check()
    monitor = part.open()
    assert 0 <= monitor.read(0.0, 0) <= 1
    assert isinstance(monitor._mean, Smooth)
    monitor.close()
    with pytest.raises(ConfigError, match="smoothing"):
        CPULoad(smooth=math.nan)


BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


@pytest.mark.slow
def test_the_family_are_children_and_theirs_but_no_strangers(monkeypatch):
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {'print(1); input()'!r}])"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    children = [subprocess.Popen([sys.executable, "-c", code], **pipes) for _ in range(2)]
    try:
        for child in children:
            child.stdout.readline()
        own.add_stranger(children[1].pid)
        found = Family().members()
        assert {os.getpid(), children[0].pid} < found
        assert children[1].pid not in found
    finally:
        for child in children:
            child.communicate(b"\n")
        own._strangers.clear()


@pytest.mark.slow
def test_work_of_children_is_own_before_and_after_they_end_and_that_of_strangers_is_not():
    family = Family()
    before = family.seconds()
    with subprocess.Popen(
        [sys.executable, "-c", BURN + "print(1, flush=True)\ninput()"], stdin=-1, stdout=-1
    ) as child:
        child.stdout.readline()
        time.sleep(0.6)  # until the family is looked at again
        alive = family.seconds() - before
        child.communicate(b"\n")
    assert alive > 0.25
    assert family.seconds() - before > 0.25
    before = family.seconds()
    stranger = subprocess.Popen([sys.executable, "-c", BURN])
    own.add_stranger(stranger.pid)
    os.waitid(os.P_PID, stranger.pid, os.WEXITED | os.WNOWAIT)
    own.remove_stranger(stranger.pid)
    stranger.wait()
    assert family.seconds() - before < 0.2


def test_a_process_that_is_gone_has_no_time():
    assert own.cpu_seconds(4_000_000) == 0
    own.remove_stranger(4_000_000)
