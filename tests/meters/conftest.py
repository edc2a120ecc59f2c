"""A driver with two GPUs, a sysfs tree of RAPL, and a clock, all of them made up."""

import sys
import threading
from types import SimpleNamespace

import pytest


class NVML:
    """Stands for the module ``pynvml``: GPU 0 and 1 with ``energy`` in mJ and ``power`` in mW.

    ``broken`` names the calls that fail; ``open`` counts who has started it and not let go.
    """

    class NVMLError(Exception):
        pass

    def __init__(self):
        self.broken = set()
        self.energy = [1_000_000, 5_000_000]
        self.power = [100_000, 50_000]
        self.count = 2
        self.open = self.looks = 0

    def _call(self, name):
        if name in self.broken:
            raise self.NVMLError(f"{name} is out of order")

    def nvmlInit(self):  # noqa: N802
        self._call("init")
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        self._call("count")
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        self._call("handle")
        return index

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        self._call("energy")
        return self.energy[handle]

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        self._call("power")
        self.looks += 1
        return self.power[handle]


@pytest.fixture
def nvml(monkeypatch):
    made = NVML()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert "ttsflow-power-meter" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture
def rapl(tmp_path):
    """Return a tree with two packages, a part of one, the platform, and the same package by another door."""
    root = tmp_path / "powercap"

    def zone(name, kind, value, span=1_000_000_000):
        folder = root / name
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{kind}\n")
        (folder / "max_energy_range_uj").write_text(f"{span}\n")
        (folder / "energy_uj").write_text(f"{value}\n")

    zone("intel-rapl:0", "package-0", 5_000_000)
    zone("intel-rapl:1", "package-1", 900_000_000)
    zone("intel-rapl:2", "psys", 1)
    zone("intel-rapl:0:0", "core", 1)
    zone("intel-rapl-mmio:0", "package-0", 1)
    (root / "intel-rapl").mkdir()

    def set_(name, value):
        (root / name / "energy_uj").write_text(str(value))

    return SimpleNamespace(root=root, path=str(root), set=set_, zone=zone)
