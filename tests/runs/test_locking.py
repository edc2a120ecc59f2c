"""One process at a time on a folder, and what a killed one held is free."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ttsflow.runs.locking import LOCK, Holder, Locked, hold, holder

HOLDS = """
import sys, time
from pathlib import Path
from ttsflow.runs.locking import hold
with hold(Path(sys.argv[1]), "a run") as lock:
    lock.tell(3, 1, 2.5)
    {before}
    print("held", flush=True)
    time.sleep(100)
"""


def other(folder, before="pass"):
    """Start a process that holds a folder, and return it when it does."""
    command = [sys.executable, "-c", HOLDS.format(before=before), str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def ended(process):
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.slow
def test_the_second_is_told_at_once_who_holds_it(tmp_path):
    process = other(tmp_path)
    try:
        begun = time.monotonic()
        with pytest.raises(Locked) as caught, hold(tmp_path, "a run"):
            pass
        assert time.monotonic() - begun < 2
        assert f"in use by process {process.pid} on " in str(caught.value)
        assert ", at work since 2" in str(caught.value)
        assert caught.value.exit_code == 2
        found = holder(tmp_path)
        assert (found.pid, found.done, found.kept, found.seconds) == (process.pid, 3, 1, 2.5)
    finally:
        ended(process)


@pytest.mark.slow
def test_what_a_killed_process_held_is_taken_over(tmp_path):
    process = other(tmp_path)
    ended(process)
    assert (tmp_path / LOCK).exists()
    assert holder(tmp_path) is None
    with hold(tmp_path, "a run") as lock:
        assert (lock.before.pid, lock.before.seconds) == (process.pid, 2.5)
        # Known to be lost only when somebody writes it down.
        assert holder(tmp_path).seconds == 2.5
    assert not (tmp_path / LOCK).exists()


@pytest.mark.slow
def test_a_child_does_not_hold_on_when_its_parent_is_killed(tmp_path):
    fork = "import os; child = os.fork(); child or (time.sleep(30), os._exit(0)); print(child, flush=True)"
    command = [sys.executable, "-c", HOLDS.format(before=fork), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    assert process.stdout.readline() == "held\n"
    ended(process)
    os.kill(child, 0)  # it lives
    try:
        with hold(tmp_path, "a run"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.slow
def test_one_process_holds_a_folder_once(tmp_path):
    with (
        hold(tmp_path, "a run"),
        pytest.raises(Locked, match=f"process {os.getpid()} "),
        hold(tmp_path, "a run"),
    ):
        pass
    with hold(tmp_path, "a run") as lock:
        assert lock.before is None


def test_looking_keeps_nobody_out(tmp_path, monkeypatch):
    """A look takes the lock for a moment; one that takes it for good tries again."""
    import fcntl

    real, refused = fcntl.flock, []

    def busy(file, how):
        if how & fcntl.LOCK_EX and not refused:
            refused.append(file)
            raise BlockingIOError
        return real(file, how)

    monkeypatch.setattr(fcntl, "flock", busy)
    with hold(tmp_path, "a run"):
        assert refused


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"pid": 1}', "\xff"])
def test_a_lock_that_says_nothing_is_a_lock(tmp_path, text):
    (tmp_path / LOCK).write_text(text)
    with hold(tmp_path, "a run") as lock:
        assert lock.before is None
    assert str(Holder()) == "another process"


def test_a_file_system_without_locks_is_told_of(tmp_path, monkeypatch):
    import errno
    import fcntl

    def none(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.warns(UserWarning, match="without locks"), hold(tmp_path, "a run"):
        pass
