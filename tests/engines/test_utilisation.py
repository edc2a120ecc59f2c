"""How busy a device was: the process's CPU seconds, and what NVML says of a GPU."""

import sys
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from ttsflow.engines import utilisation, warm
from ttsflow.engines.shared import share
from ttsflow.engines.utilisation import CPUMeter, GPUMeter, gpu_meter
from ttsflow.pipeline import Pipeline
from ttsflow.session import Session
from ttsflow.testing import FakeEngine, FakeEnginePart
from ttsflow.testing.boards import Boards


@pytest.fixture
def nvml(monkeypatch):
    def install(*broken):
        made = Boards(*broken)
        monkeypatch.setitem(sys.modules, "pynvml", made)
        return made

    return install


def test_the_cpus_are_as_busy_as_the_process_was(monkeypatch):
    monkeypatch.setattr(utilisation.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    clock = {"perf_counter": 10.0, "process_time": 5.0}
    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(utilisation.time, name, lambda name=name: clock[name])
    meter = CPUMeter()
    clock.update(perf_counter=20.0, process_time=15.0)
    assert meter.stop() == {"cpu_utilisation": 0.25}
    assert CPUMeter().stop() == {}, "no time has passed"


def test_the_mean_of_all_gpus_and_looks(nvml):
    made = nvml()
    meter = gpu_meter(["GPU-a", "GPU-b"])
    assert meter.stop() == {"gpu_utilisation": 0.5}
    assert (made.looks, made.open) == (2, 0), "even a short run is looked at once"
    made.nvmlInit()
    longer = GPUMeter(made, [0], every=0.001)
    while made.looks < 5:
        time.sleep(0.001)
    assert longer.stop() == {"gpu_utilisation": pytest.approx(0.8)}
    assert not longer._thread.is_alive()


@pytest.mark.parametrize("broken", ["init", "handle", "rates"])
def test_a_gpu_that_does_not_tell_ends_no_run(nvml, broken):
    made = nvml(broken)
    meter = gpu_meter(["GPU-a"])
    if broken == "rates":
        assert meter.stop() == {}
    else:
        assert meter is None
    assert made.open == 0


def test_without_the_package_nothing_is_said(monkeypatch, nvml):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_meter(["GPU-a"]) is None
    nvml()
    assert gpu_meter([]) is None


class Metered(FakeEngine):
    """A fake engine on a device that tells."""

    def meter(self):
        return SimpleNamespace(stop=lambda: {"cpu_utilisation": 0.75})

    def counters(self):
        return {"iterations": 3}


@dataclass(frozen=True)
class Part(FakeEnginePart):
    def open(self):
        return Metered()


def test_a_run_tells_how_busy_its_device_was(monkeypatch):
    monkeypatch.setattr(warm, "_held", [])
    made = Pipeline("majority", engine={"use": "fake"}, task={"use": "simulated", "size": 2}).setup
    for engine, said in ((Part(), 0.75), (FakeEnginePart(), None)):
        with Session(replace(made, engine=engine)) as session:
            list(session.run(made.task.problems()))
        assert session.work.get("cpu_utilisation") == said


def test_an_engine_that_is_shared_tells_it_all_the_same():
    for port in share(Metered()):
        assert port.meter().stop() == {"cpu_utilisation": 0.75}
        assert port.counters() == {"iterations": 3}
    (host, _) = share(FakeEngine())
    assert (host.meter(), host.counters()) == (None, {})
