"""NVML's samples of processes: own ones left out, old ones forgotten, and machines that do not tell."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ttsflow.errors import ConfigError, MissingExtra
from ttsflow.load import gpu
from ttsflow.load.gpu import NVMLLoad, NVMLMonitor
from ttsflow.testing.boards import Boards

OTHER = 4_000_000  # above the highest id of a process


def sample(pid, share, when):
    return SimpleNamespace(pid=pid, smUtil=share, timeStamp=int(when * 1e6))


@pytest.fixture
def nvml(monkeypatch):
    monkeypatch.setattr(gpu, "_numbered_as_nvml_does", lambda: True)

    def install(*broken):
        made = Boards(*broken)
        monkeypatch.setitem(sys.modules, "pynvml", made)
        return made

    return install


def at(made, smooth=0.0, own=frozenset({7}), devices=(0,), **more):
    """Return a monitor on a clock that a test sets."""
    clock = SimpleNamespace(now=1000.0)
    return clock, NVMLMonitor(made, devices, smooth, clock=lambda: clock.now, own=lambda: own, **more)


def test_others_count_and_own_do_not():
    made = Boards()
    made.samples[0] = [sample(7, 60, 999.5), sample(8, 10, 999.4), sample(8, 30, 999.6), sample(9, 5, 999.5)]
    _, monitor = at(made)
    assert monitor.read(0.0, 0) == pytest.approx(0.35)
    _, both = at(made, devices=(0, 1))
    assert both.read(0.0, 0) == pytest.approx(0.175), "the mean of the boards"


def test_more_than_all_is_all_and_old_samples_are_idle():
    made = Boards()
    made.samples[0] = [sample(8, 90, 999.5), sample(9, 90, 999.5)]
    clock, monitor = at(made)
    assert monitor.read(0.0, 0) == 1.0
    clock.now += 0.01
    monitor.read(0.0, 0)
    assert made.looks == 1, "not before 50 ms"
    clock.now += 2
    assert monitor.read(0.0, 0) == 0.0
    clock.now = 5.0
    assert monitor.read(0.0, 0) == 1.0, "a clock that went back: all samples are news"


def test_what_was_known_stays_when_the_driver_fails():
    made = Boards()
    made.samples[0] = [sample(8, 40, 999.9)]
    clock, monitor = at(made)
    assert monitor.read(0.0, 0) == 0.4
    made.broken = {"processes"}
    clock.now += 1
    assert monitor.read(0.0, 0) == 0.4


def test_own_children_are_own(nvml, monkeypatch):
    made = nvml()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        monitor = NVMLLoad(smooth=0).open()
        clock = monitor._clock()
        made.samples[0] = [
            sample(os.getpid(), 50, clock),
            sample(child.pid, 20, clock),
            sample(OTHER, 10, clock),
        ]
        assert monitor.read(0.0, 0) == pytest.approx(0.1)
        monitor.close()
        monitor.close()
        assert made.open == 0
        assert monitor.read(0.0, 0) == pytest.approx(0.1), "closed"
    finally:
        child.communicate(b"\n")


def test_devices_by_number_and_uuid(nvml):
    made = nvml()
    NVMLLoad(devices=(1, "GPU-a")).check()
    assert made.open == 0
    with pytest.raises(ConfigError, match=r"no GPU 5 .* knows 2") as caught:
        NVMLLoad(devices=(0, 5)).check()
    assert caught.value.path == "devices.1"
    assert made.open == 0
    with pytest.raises(ConfigError):
        NVMLLoad(devices=())


def test_a_gpu_that_tells_no_processes_apart(nvml):
    made = nvml("processes")
    with pytest.raises(ConfigError, match="whole board") as caught:
        NVMLLoad().check()
    assert (caught.value.path, made.open) == ("otherwise", 0)
    part = NVMLLoad(devices=(0, 1), otherwise="board", smooth=0)
    part.check()
    monitor = part.open()
    assert monitor.read(0.0, 0) == 0.5
    monitor.close()
    assert made.open == 0


def test_in_a_container_processes_have_other_numbers(nvml, monkeypatch, tmp_path):
    made = nvml()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026532198]")
    monkeypatch.setattr(gpu, "PROC", tmp_path)
    with pytest.raises(ConfigError, match="--pid=host"):
        NVMLLoad().check()
    monitor = NVMLLoad(otherwise="board", smooth=0).open()
    assert monitor.read(0.0, 0) == 0.8
    monitor.close()
    (tmp_path / "self/ns/pid").unlink()
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026531836]")
    NVMLLoad().check()
    (tmp_path / "self/ns/pid").unlink()
    NVMLLoad().check()


def test_without_driver_or_package(nvml, monkeypatch):
    nvml("init")
    with pytest.raises(ConfigError, match="load=cpu"):
        NVMLLoad().check()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MissingExtra, match="nvidia-ml-py"):
        NVMLLoad().check()
