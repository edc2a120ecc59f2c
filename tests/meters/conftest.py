"""A driver with two GPUs, a sysfs tree of RAPL, and a clock, all of them made up."""

import sys
import threading
from types import SimpleNamespace

import pytest

from ttsflow.testing.boards import Boards


@pytest.fixture
def nvml(monkeypatch):
    made = Boards()
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
