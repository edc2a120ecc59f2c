"""A load made on purpose: products of matrices for a share of every period, on CPU or GPU."""

from __future__ import annotations

import importlib.util
import math
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, Self

from ttsflow.errors import ConfigError, MissingExtra, TtsflowError, suggest
from ttsflow.load.own import add_stranger, remove_stranger

__all__ = ["PERIOD", "Injector", "Stretch", "check_level"]

#: Seconds of a duty cycle, as published experiments have it.
PERIOD = 0.2

_BURN = Path(__file__).with_name("burn.py")
_DEVICES = ("cpu", "cuda")
#: Seconds that a worker has to load its library, and to answer besides.
_LOADING, _ANSWER = 120.0, 10.0
#: Seconds after the end of its input in which a worker ends by itself.
_END = 0.8


class Stretch(NamedTuple):
    """A time with one level: what was asked for, what was reached, and its seconds."""

    level: float
    achieved: float
    seconds: float


def check_level(level: float, place: str = "level") -> None:
    """Refuse a level that is no share. Raises ``ConfigError``."""
    if not 0 <= level <= 1:
        raise ConfigError(f"a level lies between 0 (idle) and 1 (all of the time), got {level:g}.", place)


class Injector:
    """Keeps cores or a GPU busy for the share ``level`` of every ``period`` seconds, in a process of its own.

    On ``cpu`` it is ``threads`` threads, by default one for each core that this process may use, each for
    ``level`` of its time: the CPU time of a thread is what counts, so that one which waits for a core makes
    up for it as far as the period allows. On ``cuda`` it is one stream of large products, and time in them
    counts. What was reached is measured: CPU seconds / (seconds x threads), or seconds of products / seconds.

    Use it as a context manager. The process ends with it, or when this process is gone in whatever way.
    Though a child of this one, it counts as others' work in ``CPULoad`` and ``NVMLLoad``.
    Raises ``ConfigError`` for settings that are wrong, ``MissingExtra`` without the library.
    """

    def __init__(
        self,
        level: float = 0.0,
        *,
        period: float = PERIOD,
        device: Literal["cpu", "cuda"] = "cpu",
        threads: int | None = None,
    ) -> None:
        check_level(level)
        if not 0.01 <= period <= 60:
            raise ConfigError(f"a period lasts from 0.01 to 60 seconds, got {period:g}.", "period")
        if device not in _DEVICES:
            raise ConfigError(f"there is no device {device!r}. {suggest(device, _DEVICES)}", "device")
        cores = len(os.sched_getaffinity(0))
        if threads is not None and device == "cuda":
            raise ConfigError("a GPU is kept busy by one thread; leave threads out.", "threads")
        if threads is not None and not 1 <= threads <= cores:
            raise ConfigError(f"this process may use {cores} cores; asked for {threads} threads.", "threads")
        self.level, self.period, self.device = level, period, device
        self.threads = threads or (1 if device == "cuda" else cores)
        self.stretches: list[Stretch] = []
        """What was reached so far, one for each level that has ended."""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start the load; return when it is on."""
        if self.device == "cuda" and importlib.util.find_spec("torch") is None:
            raise MissingExtra("a load on a GPU needs torch: pip install 'ttsflow[cuda]'; or use device cpu.")
        settings = [self.device, str(self.threads), repr(self.period)]
        # In a process group of its own: what ends this process from the keyboard must not end it halfway.
        self._process = subprocess.Popen(  # noqa: S603 - this Python and a file of this package
            # Not its folder on the path, whose modules would stand before Python's own.
            [sys.executable, "-P", str(_BURN), *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            text=True,
            process_group=0,
        )
        add_stranger(self._process.pid)
        try:
            self._expect(_LOADING, "ready")
            self._tell(self.level)
            self._answer()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """End the load."""
        self.close()

    def set(self, level: float) -> Stretch:
        """Go on with another level, from now on; return what was reached with the one before.

        Raises ``ConfigError`` for no level, ``TtsflowError`` when the load has ended.
        """
        check_level(level)
        self._tell(level)
        stretch = self._stretch()
        self.level = level
        return stretch

    def check(self) -> None:
        """Raise ``TtsflowError`` when the load has ended by itself."""
        process = self._running()
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            raise self._gone()

    def close(self) -> Stretch | None:
        """End the load within a second; return what was reached with the last level. May be called twice."""
        process, last = self._process, None
        if process is None:
            return None
        try:
            assert process.stdin is not None
            process.stdin.close()
            last = self._stretch(_END)
        except (OSError, TtsflowError):
            last = None  # it has ended by itself, or does not end
        finally:
            self._process = None
            _end(process)
        return last

    def _tell(self, level: float) -> None:
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{level!r}\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            raise self._gone() from error

    def _stretch(self, within: float = _ANSWER) -> Stretch:
        busy, wall = self._answer(within)
        achieved = busy / (wall * self.threads) if wall > 0 else 0.0
        self.stretches.append(Stretch(self.level, achieved, wall))
        return self.stretches[-1]

    def _answer(self, within: float = _ANSWER) -> tuple[float, float]:
        busy, wall = map(float, self._line(within).split())
        return busy, wall

    def _expect(self, within: float, word: str) -> None:
        line = self._line(within).strip()
        if line != word:
            raise ConfigError(
                f"a load on {self.device} cannot be made: {line.removeprefix('error ')}.", "device"
            )

    def _line(self, within: float) -> str:
        process = self._running()
        assert process.stdout is not None
        # One line is there at a time, so nothing waits in the buffer of the stream.
        if not select.select([process.stdout], [], [], within)[0]:
            raise TtsflowError(f"the load on {self.device} has not answered for {within:g} seconds.")
        line = process.stdout.readline()
        if not line:
            raise self._gone()
        return line

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise TtsflowError("the load is not on: use the injector as a context manager.")
        return self._process

    def _gone(self) -> TtsflowError:
        return TtsflowError(f"the load on {self.device} has ended by itself; was its process killed?")


def _end(process: subprocess.Popen[str]) -> None:
    """Wait for a worker whose input has ended, kill one that does not end, and leave nothing behind."""
    until = time.monotonic() + _END
    flags = os.WEXITED | os.WNOWAIT
    while os.waitid(os.P_PID, process.pid, flags | os.WNOHANG) is None:
        if time.monotonic() > until:
            process.kill()
            until = math.inf
        time.sleep(0.005)
    # Its time must be read before it is waited for.
    remove_stranger(process.pid)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
