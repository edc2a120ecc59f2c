"""The injector: levels that are reached, measured and changed, and no process that stays behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ttsflow import cli
from ttsflow.errors import ConfigError, MissingExtra, TtsflowError
from ttsflow.load import injector as module
from ttsflow.load import own
from ttsflow.load.command import plan
from ttsflow.load.cpu import CPULoad, spent
from ttsflow.load.injector import Injector


def workers(process=None):
    """Return the processes of injectors below one process."""
    found = []
    for child in (process or psutil.Process()).children(recursive=True):
        try:
            if any(word.endswith("burn.py") for word in child.cmdline()):
                found.append(child)
        except psutil.NoSuchProcess:
            pass
    return found


def gone(process, within):
    """Wait until a process is gone; return whether it is."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
def test_it_reaches_a_level_says_so_and_ends_at_once():
    with Injector(0.0, threads=1) as load:
        (worker,) = workers()
        assert worker.pid in own._strangers
        time.sleep(0.3)
        idle = load.set(0.3)
        time.sleep(0.4)
        begun = time.monotonic()
    assert time.monotonic() - begun < 1
    assert not worker.is_running()
    assert not own._strangers
    assert idle.level == 0.0
    assert idle.achieved < 0.1
    assert [stretch.level for stretch in load.stretches] == [0.0, 0.3]
    assert load.stretches[1].seconds >= 0.4
    assert 0 < load.stretches[1].achieved < 0.6
    assert load.close() is None
    with pytest.raises(TtsflowError, match="context manager"):
        load.set(0.5)


@pytest.mark.slow
def test_half_a_core_is_half_a_core():
    left = 0.0
    for _ in range(3):
        with Injector(0.5, threads=1) as load:
            (worker,) = workers()
            machine, before, begun = spent(), sum(worker.cpu_times()[:2]), time.monotonic()
            time.sleep(2)
            reached = (sum(worker.cpu_times()[:2]) - before) / (time.monotonic() - begun)
            busy, total = (after - then for after, then in zip(spent(), machine, strict=True))
            assert load.set(0.0).achieved == pytest.approx(reached, abs=0.1)
        assert reached < 0.65
        left = 1 - busy / total
        if reached > 0.35:
            return
    if left < 0.2:
        pytest.skip(f"others leave {left:.0%} of this machine")
    pytest.fail(f"reached {reached:.2f} though {left:.0%} of the machine was left")


@pytest.mark.slow
def test_its_load_is_that_of_others_for_the_monitor_of_this_process():
    with Injector(0.0) as load:
        monitor = CPULoad(smooth=0.2).open()
        load.set(1.0)
        before = own.Family().seconds()
        time.sleep(1.0)
        busy = monitor.read(0.0, 0)
        mine = own.Family().seconds() - before
    assert mine < 0.3
    assert busy > 0.5, "all cores, less what this machine takes away"
    assert own.Family().seconds() - before < 0.5, "also when it has ended"


@pytest.mark.slow
def test_a_worker_ends_when_its_parent_is_killed():
    code = (
        "import sys, time\nfrom ttsflow.load.injector import Injector\n"
        "with Injector(0.2, threads=1) as load:\n    print(load._process.pid, flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    assert gone(worker, within=2)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_ends_on_a_signal_and_leaves_nothing(number, code):
    command = [sys.executable, "-m", "ttsflow", "load", "--level", "0.1", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        first = parent.stdout.readline()
        (worker,) = workers(psutil.Process(parent.pid))
        parent.send_signal(number)
        out, err = parent.communicate(timeout=10)
    assert "level 0.1 on 1 core, period 0.2 s, until Ctrl-C" in first
    assert "reached" in out
    assert (parent.returncode, err) == (code, "interrupted\n" if number == signal.SIGINT else "terminated\n")
    assert gone(worker, within=0.5)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_said_and_cleared_away():
    with Injector(0.0, threads=1) as load:
        os.kill(load._process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, load._process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(TtsflowError, match="ended by itself"):
            load.check()
        with pytest.raises(TtsflowError, match="ended by itself"):
            load.set(0.5)
    assert not own._strangers
    assert not workers()


def fake(monkeypatch, tmp_path, source):
    file = tmp_path / "burn.py"
    file.write_text(source)
    monkeypatch.setattr(module, "_BURN", file)


@pytest.mark.slow
def test_a_worker_that_does_not_end_is_killed(monkeypatch, tmp_path):
    stubborn = "print('ready', flush=True)\ninput()\nprint('0 1', flush=True)\nimport time\ntime.sleep(60)"
    fake(monkeypatch, tmp_path, stubborn)
    monkeypatch.setattr(module, "_END", 0.1)
    with Injector(0.0, threads=1):
        pass
    assert not workers()


def test_a_device_that_is_not_there(monkeypatch, tmp_path):
    fake(monkeypatch, tmp_path, "print('error RuntimeError: no CUDA device')")
    with pytest.raises(ConfigError, match="no CUDA device") as caught, Injector(0.0, device="cuda"):
        pass
    assert caught.value.path == "device"
    assert not workers()
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="needs torch"), Injector(0.0, device="cuda"):
        pass


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"level": 1.5}, "level"),
        ({"level": float("nan")}, "level"),
        ({"period": 0}, "period"),
        ({"device": "gpu"}, "device"),
        ({"threads": 0}, "threads"),
        ({"threads": 10_000}, "threads"),
        ({"device": "cuda", "threads": 1}, "threads"),
    ],
)
def test_bad_settings_start_nothing(settings, place):
    with pytest.raises(ConfigError) as caught:
        Injector(**settings)
    assert caught.value.path == place


# --- the command ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_schedule_is_played_and_said(capsys):
    assert cli.main(["load", "--levels", "0,0.1", "--each", "0.2", "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[-1] for line in lines[::2]] == [
        f" level {level} on 1 core, period 0.2 s, for 0.2 s" for level in ("0", "0.1")
    ]
    assert [line.split()[0] for line in lines[1::2]] == ["reached", "reached"]
    assert not workers()


def test_the_plan_of_the_command():
    assert plan(0.5, 3, None, None) == ((0.5, 3),)
    assert plan(0.5, None, None, None) == ((0.5, float("inf")),)
    assert plan(None, None, "0, .25,1", 15) == ((0, 15), (0.25, 15), (1, 15))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "give --level with --seconds"),
        ("--level 0.5 --levels 0,1", "give --level with --seconds"),
        (
            "--level 1.2 --seconds 1",
            "--level: a level lies between 0 (idle) and 1 (all of the time), got 1.2",
        ),
        ("--level -0.2", "--level: a level lies between 0"),
        ("--level nan", "got nan"),
        ("--level 0.5 --seconds 0", "--seconds: seconds are above 0"),
        ("--level 0.5 --seconds inf", "--seconds: seconds are above 0"),
        ("--level 0.5 --each 3", "--each: it belongs to --levels"),
        ("--levels 0,1", "--each: is missing"),
        ("--levels 0,1 --each -1", "--each: seconds are above 0"),
        ("--levels 0,1 --each 1 --seconds 5", "--seconds: it belongs to --level"),
        ("--levels 0,,1 --each 1", "--levels: numbers from 0 to 1"),
        ("--levels 0,2 --each 1", "--levels: a level lies between 0"),
        ("--level 0.5 --device gpu", "--device: there is no device 'gpu'. Did you mean 'cpu'?"),
        ("--level 0.5 --threads 0", "--threads: this process may use"),
        ("--level 0.5 --period 0", "--period: a period lasts from 0.01"),
    ],
)
def test_the_command_refuses(line, message, capsys):
    assert cli.main(["load", *line.split()]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_it_refuses_at_once():
    begun = time.monotonic()
    command = [sys.executable, "-m", "ttsflow", "load", "--level", "2"]
    run = subprocess.run(command, capture_output=True, check=False)
    assert run.returncode == 2
    assert time.monotonic() - begun < 3


def test_the_worker_stands_alone():
    """It is run as a file, so that nothing of ttsflow and nothing beside it is imported."""
    source = Path(module._BURN).read_text()
    assert "ttsflow" not in source.partition('"""')[2].partition('"""')[2]
    code = (
        f"import json, runpy, sys; runpy.run_path({str(module._BURN)!r})\n"
        "print(json.dumps([m for m in sys.modules if m.startswith('ttsflow') or m == 'numpy']))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == []
