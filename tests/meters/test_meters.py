"""Meters on made-up devices: what they count, and that what is absent or broken is never a silent 0."""

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow import plugins
from ttsflow.build import build, explain
from ttsflow.errors import ConfigError, MeterDead, MissingExtra
from ttsflow.meters import model, power
from ttsflow.meters.counter import Counter
from ttsflow.meters.model import PowerModel
from ttsflow.meters.nvml import NVML
from ttsflow.meters.plain import NoMeter, joules_source
from ttsflow.meters.power import Power
from ttsflow.meters.rapl import RAPL

NAN = float("nan")


# --- counters -------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.integers(0, 499), max_size=30), st.integers(0, 999))
def test_a_counter_that_wraps_loses_nothing(gains, first):
    counter, true = Counter(2.0, 1000), first
    counter.take(first)
    for gain in gains:
        true += gain
        counter.take(true % 1000)
    assert counter.joules == 2 * (true - first)


@pytest.mark.slow
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True)), st.none() | st.floats(1, 1e9))
def test_a_counter_never_goes_back(values, span):
    counter, before = Counter(1e-3, span), 0.0
    for value in values:
        assert counter.take(value) >= before
        before = counter.joules


def test_a_counter_that_was_reset_begins_anew_and_is_never_negative():
    counter = Counter(1.0)
    assert [counter.take(value) for value in (100, 130, 5, 25)] == [0, 30, 30, 50]


def test_a_slip_back_is_no_way_around():
    counter = Counter(1.0, 1000)
    assert [counter.take(value) for value in (500, 499, 509)] == [0, 0, 10]


def test_what_is_no_number_is_made_up_for():
    counter = Counter(1.0)
    assert [counter.take(value) for value in (10, NAN, -1, float("inf"), 30)] == [0, 0, 0, 0, 20]


# --- nothing --------------------------------------------------------------------------------------------


def test_no_meter_is_no_number():
    part = NoMeter()
    part.check()
    assert part.open() is None
    assert joules_source(None) == "none"


# --- the energy counter of GPUs -------------------------------------------------------------------------


def test_nvml_counts_all_boards_from_when_it_was_opened(nvml):
    meter = NVML().open()
    assert meter.read(0.0) == 0
    nvml.energy = [1_002_000, 5_000_500]
    assert meter.read(0.0) == pytest.approx(2.5)
    assert joules_source(meter) == "nvml (window 0.1 s)"
    meter.close()
    meter.close()
    assert nvml.open == 0
    assert meter.read(9.0) == pytest.approx(2.5)


def test_nvml_counts_the_boards_it_is_told(nvml):
    meter = NVML((1,)).open()
    nvml.energy = [9_000_000, 5_003_000]
    assert meter.read(0.0) == 3
    meter.close()


def test_a_counter_of_a_board_that_went_back_is_no_negative_energy(nvml):
    meter = NVML((0,)).open()
    nvml.energy[0] = 1_004_000
    assert meter.read(1.0) == 4
    nvml.energy[0] = 10  # the driver was loaded again
    assert meter.read(2.0) == 4
    nvml.energy[0] = NAN
    assert meter.read(3.0) == 4
    nvml.energy[0] = 1_010
    assert meter.read(4.0) == 5
    meter.close()


@pytest.mark.parametrize("part", [NVML(), Power()], ids=["nvml", "power"])
def test_without_the_package_it_is_named(part, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for start in (part.check, part.open):
        with pytest.raises(MissingExtra, match="pip install nvidia-ml-py"):
            start()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("init", "NVML does not start on this machine: init is out of order.*meter=rapl"),
        ("count", "NVML names no GPU"),
        ("handle", "NVML names no GPU"),
        ("energy", "does not tell nvmlDeviceGetTotalEnergyConsumption .*meter=power"),
    ],
)
def test_a_machine_without_a_counter_is_refused_at_once(nvml, broken, message):
    nvml.broken.add(broken)
    for start in (NVML().check, NVML().open):
        with pytest.raises(ConfigError, match=message):
            start()
    assert nvml.open == 0


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(nvml):
    with pytest.raises(ConfigError, match="there is no GPU 2; this machine has 0, 1") as caught:
        NVML((0, 2)).check()
    assert caught.value.path == "devices"
    nvml.count = 0
    with pytest.raises(ConfigError, match="knows no GPU"):
        Power().check()
    assert nvml.open == 0


def test_a_counter_that_stops_telling_ends_the_run_and_not_the_counting(nvml):
    meter = NVML().open()
    nvml.broken.add("energy")
    with pytest.raises(MeterDead, match="no longer answers nvmlDeviceGetTotalEnergyConsumption"):
        meter.read(1.0)
    meter.close()
    assert nvml.open == 0


def test_a_check_leaves_nothing_open(nvml):
    NVML().check()
    Power().check()
    assert nvml.open == 0


# --- their power ----------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """Return the time of the meters, which stands still until it is set."""
    times = {"now": 100.0}
    monkeypatch.setattr(power.time, "perf_counter", lambda: times["now"])
    return times


@pytest.fixture
def integral(nvml, clock):
    """Return a function that opens the meter; its own thread is asleep, so that tests alone look."""
    opened = []

    def start(**settings):
        opened.append(Power(every=10, **settings).open())
        return opened[-1]

    yield start
    for meter in opened:
        meter.close()


def test_power_is_the_area_under_the_trapezoids(nvml, clock, integral):
    meter = integral()
    assert meter.read(0.0) == 0
    clock["now"] = 102.0
    nvml.power = [300_000, 50_000]
    assert meter.read(0.0) == pytest.approx(2 * (150 + 350) / 2)
    clock["now"] = 103.0
    assert meter.read(0.0) == pytest.approx(500 + 350)
    assert joules_source(meter) == "power (window 1 s)"


def test_idle_watts_are_taken_off_and_nothing_is_negative(nvml, clock, integral):
    meter = integral(devices=(0,), idle_watts=90.0)
    clock["now"] = 101.0
    assert meter.read(0.0) == pytest.approx(10)
    nvml.power[0] = 20_000
    clock["now"] = 103.0
    assert meter.read(0.0) == pytest.approx(10 + 2 * (10 + 0) / 2)
    clock["now"] = 110.0
    assert meter.read(0.0) == pytest.approx(20)
    assert joules_source(meter) == "power less 90 W idle (window 1 s)"


def test_a_look_that_says_nothing_is_bridged(nvml, clock, integral):
    meter = integral()
    clock["now"], nvml.power = 101.0, [NAN, 0]
    assert meter.read(0.0) == 0
    clock["now"], nvml.power = 102.0, [100_000, 50_000]
    assert meter.read(0.0) == pytest.approx(300)


def test_a_clock_that_goes_back_takes_nothing_away(clock, integral):
    meter = integral()
    clock["now"] = 101.0
    assert meter.read(0.0) == pytest.approx(150)
    clock["now"] = 50.0
    assert meter.read(0.0) == pytest.approx(150)
    clock["now"] = 51.0
    assert meter.read(0.0) == pytest.approx(300)


def test_the_thread_looks_by_itself_and_ends_with_the_meter(nvml):
    meter = Power(every=0.001).open()
    until = time.monotonic() + 10
    while nvml.looks < 20 and time.monotonic() < until:
        time.sleep(0.001)
    assert nvml.looks >= 20
    assert meter.read(0.0) > 0
    meter.close()
    meter.close()
    assert not meter._thread.is_alive()
    assert nvml.open == 0
    looks, before = nvml.looks, meter.read(0.0)
    assert (meter.read(1.0), nvml.looks) == (before, looks)


def test_a_board_that_stops_telling_is_an_error_and_the_thread_ends(nvml):
    meter = Power(every=0.001).open()
    nvml.broken.add("power")
    meter._thread.join(10)
    assert not meter._thread.is_alive()
    with pytest.raises(MeterDead, match="no longer answers nvmlDeviceGetPowerUsage"):
        meter.read(0.0)
    meter.close()
    assert nvml.open == 0


def test_a_board_without_power_starts_no_thread(nvml):
    nvml.broken.add("power")
    for start in (Power().check, Power().open):
        with pytest.raises(ConfigError, match="does not tell nvmlDeviceGetPowerUsage"):
            start()
    assert nvml.open == 0


# --- CPUs -----------------------------------------------------------------------------------------------


def test_rapl_counts_packages_alone(rapl):
    part = RAPL(rapl.path)
    part.check()
    meter = part.open()
    rapl.set("intel-rapl:0", 7_000_000)
    rapl.set("intel-rapl:0:0", 900)
    rapl.set("intel-rapl:2", 900)
    rapl.set("intel-rapl-mmio:0", 900)
    assert meter.read(0.0) == pytest.approx(2)
    rapl.set("intel-rapl:1", 1_000_000)  # around: 100 J to the end, 1 J from the start
    assert meter.read(0.0) == pytest.approx(2 + 101)
    assert joules_source(meter) == "rapl (window 0.01 s)"
    meter.close()
    rapl.set("intel-rapl:0", 8_000_000)
    assert meter.read(0.0) == pytest.approx(103)


@pytest.mark.parametrize("what", ["folder", "packages", "name"])
def test_a_machine_without_rapl_is_refused_with_what_to_do(rapl, tmp_path, what):
    path = rapl.path
    if what == "folder":
        path = str(tmp_path / "nowhere")
    for zone in rapl.root.glob("intel-rapl:[01]"):
        if what == "packages":
            (zone / "name").write_text("psys")
    if what == "name":
        (rapl.root / "intel-rapl:0" / "name").unlink()
    with pytest.raises(ConfigError, match=r"no package of RAPL below .*meter=model|cannot be read") as caught:
        RAPL(path).check()
    assert caught.value.path == "path"


def test_a_path_that_no_file_can_have():
    with pytest.raises(ConfigError, match="no package of RAPL"):
        RAPL("a\0b").check()


def test_counters_for_root_alone_say_so(rapl, monkeypatch):
    plain = Path.read_text

    def read_text(self, *args, **settings):
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return plain(self, *args, **settings)

    monkeypatch.setattr(Path, "read_text", read_text)
    for start in (RAPL(rapl.path).check, RAPL(rapl.path).open):
        with pytest.raises(ConfigError, match=r"by root only.*sudo chmod a.r .*intel-rapl:0/energy_uj"):
            start()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_counters_that_are_closed_say_so(rapl):
    (rapl.root / "intel-rapl:0" / "energy_uj").chmod(0)
    with pytest.raises(ConfigError, match="by root only"):
        RAPL(rapl.path).check()


@pytest.mark.parametrize("text", ["nan", "", "-5", "1e9", "watts"])
def test_a_counter_that_is_no_number_is_refused(rapl, text):
    rapl.set("intel-rapl:0", text)
    with pytest.raises(ConfigError, match="should hold microjoules, found"):
        RAPL(rapl.path).open()


def test_a_counter_that_goes_away_ends_the_run(rapl):
    meter = RAPL(rapl.path).open()
    (rapl.root / "intel-rapl:0" / "energy_uj").unlink()
    with pytest.raises(MeterDead, match=r"intel-rapl:0/energy_uj cannot be read"):
        meter.read(1.0)


# --- time x power ---------------------------------------------------------------------------------------


class CPUs:
    """What the process has worked, in seconds of all cores."""

    worked = 0.0

    def busy(self):
        return self.worked


@pytest.fixture
def real(monkeypatch):
    """Return the process's work, on a machine whose own clock starts at 100."""
    cpus = CPUs()
    monkeypatch.setattr(model, "CPUMeter", lambda: cpus)
    monkeypatch.setattr(model.time, "perf_counter", lambda: 100.0)
    return cpus


def test_on_this_machine_power_goes_with_the_share_of_cores_that_worked(real):
    meter = PowerModel(60.0, idle_watts=20.0).open()
    assert meter.read(100.0) == 0
    real.worked = 0.5
    assert meter.read(102.0) == pytest.approx(2 * 20 + 0.5 * 40)
    real.worked = 99.0  # never more than all cores
    assert meter.read(103.0) == pytest.approx(3 * 60)
    assert (meter.source, meter.window, joules_source(meter)) == ("model", 0.0, "model")


def test_a_device_that_is_waited_for_is_busy_all_the_time(real):
    meter = PowerModel(60.0, idle_watts=20.0, load="full").open()
    meter.read(100.0)
    assert meter.read(102.0) == pytest.approx(120)


@pytest.mark.parametrize("load", ["process", "full"])
def test_in_virtual_time_every_second_is_busy(real, load):
    meter = PowerModel(60.0, idle_watts=20.0, load=load).open()
    assert [meter.read(now) for now in (0.0, 1.0, 1.0, 1e6)] == pytest.approx([0, 60, 60, 60e6])


def test_the_model_counts_from_its_first_reading_and_never_back(real):
    meter = PowerModel(10.0).open()
    times = (5000.0, 5001.0, 4000.0, 4002.0, NAN, 4003.0)
    assert [meter.read(now) for now in times] == pytest.approx([0, 10, 10, 30, 30, 40])
    meter.close()
    meter.close()
    assert meter.read(9999.0) == pytest.approx(40)


def test_the_model_on_the_clock_of_this_machine():
    meter = PowerModel(10.0).open()
    meter.read(time.perf_counter())
    sum(range(10_000))
    after = meter.read(time.perf_counter())
    assert 0 <= after <= 10 * 60
    assert meter._cpus is not None


# --- settings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "settings", "field"),
    [
        (NVML, {"devices": (-1,)}, "devices"),
        (Power, {"devices": (1, 1)}, "devices"),
        (Power, {"every": 0.0}, "every"),
        (Power, {"every": NAN}, "every"),
        (Power, {"idle_watts": -1.0}, "idle_watts"),
        (Power, {"idle_watts": NAN}, "idle_watts"),
        (PowerModel, {"busy_watts": 0.0}, "busy_watts"),
        (PowerModel, {"busy_watts": NAN}, "busy_watts"),
        (PowerModel, {"busy_watts": 5.0, "idle_watts": 6.0}, "idle_watts"),
        (PowerModel, {"busy_watts": 5.0, "idle_watts": NAN}, "idle_watts"),
    ],
)
def test_settings_without_sense_are_refused(part, settings, field):
    with pytest.raises(ConfigError) as caught:
        part(**settings)
    assert caught.value.path == field


@pytest.mark.parametrize(
    "part", [NoMeter(), NVML((0,)), Power(), RAPL(), PowerModel(5.0)], ids=lambda part: type(part).__name__
)
def test_meters_are_parts_as_any_other(part):
    registry = plugins.load()
    assert build("meter", explain(part, registry), "meter", registry) == part
    if part == NoMeter():
        part.check()


def test_an_unknown_meter_and_a_missing_wattage_say_what_to_do():
    registry = plugins.load()
    with pytest.raises(ConfigError, match=r"there is no meter 'nvm'\. Did you mean 'nvml'\? Known: model"):
        build("meter", {"use": "nvm"}, "meter", registry)
    with pytest.raises(ConfigError, match=r"needs the setting 'busy_watts': .*data sheet") as caught:
        build("meter", {"use": "model"}, "meter", registry)
    assert caught.value.path == "meter.busy_watts"


def test_an_absent_meter_is_found_out_before_anything_heavy_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    before = set(sys.modules)
    for part in (NVML(), RAPL("/nowhere")):
        with pytest.raises((ConfigError, MissingExtra)):
            part.check()
    assert not {name.partition(".")[0] for name in set(sys.modules) - before} & {"numpy", "torch", "vllm"}
