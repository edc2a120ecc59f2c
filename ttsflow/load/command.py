"""The command ``ttsflow load``: keeps this machine busy, for experiments with others' load."""

# ruff: noqa: T201 - it prints

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence

from ttsflow import interrupt
from ttsflow.errors import ConfigError
from ttsflow.load.injector import PERIOD, Injector, Stretch, check_level

__all__ = ["main", "plan"]

Plan = tuple[tuple[float, float], ...]


def main(argv: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Make the load and say what was reached; returns the exit code. Raises ``ConfigError``."""
    parser.add_argument("--level", type=float, help="share of the time that is spent computing, from 0 to 1")
    parser.add_argument("--seconds", type=float, help="how long, with --level; without it until Ctrl-C")
    parser.add_argument("--levels", metavar="A,B,...", help="levels one after another")
    parser.add_argument("--each", type=float, metavar="SECONDS", help="how long each of --levels lasts")
    parser.add_argument("--period", type=float, default=PERIOD, help="seconds of a duty cycle (%(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (cpu)")
    parser.add_argument("--threads", type=int, metavar="N", help="cores to use (all), on cpu")
    args = parser.parse_args(argv)
    schedule = plan(args.level, args.seconds, args.levels, args.each)
    with interrupt.handled():
        try:
            injector = Injector(schedule[0][0], period=args.period, device=args.device, threads=args.threads)
        except ConfigError as error:
            raise ConfigError(error.message, f"--{error.path}") from error
        try:
            with injector:
                _play(injector, schedule)
        finally:
            for stretch in injector.stretches[-1:]:
                _reached(stretch)
    return 0


def plan(level: float | None, seconds: float | None, levels: str | None, each: float | None) -> Plan:
    """Return (level, seconds) in turn for the arguments of the command. Raises ``ConfigError``."""
    if (level is None) == (levels is None):
        raise ConfigError(
            "give --level with --seconds, such as --level 0.55 --seconds 60, or --levels with --each, such "
            "as --levels 0,0.25,0.55,0.85 --each 15."
        )
    if level is not None:
        if each is not None:
            raise ConfigError("it belongs to --levels; with --level it is --seconds.", "--each")
        check_level(level, "--level")
        return ((level, math.inf if seconds is None else _seconds(seconds, "--seconds")),)
    if seconds is not None:
        raise ConfigError("it belongs to --level; with --levels it is --each.", "--seconds")
    if each is None:
        raise ConfigError("is missing: how many seconds each of --levels lasts.", "--each")
    lasts = _seconds(each, "--each")
    return tuple((one, lasts) for one in _numbers(levels or ""))


def _numbers(text: str) -> list[float]:
    found = []
    for word in text.split(","):
        try:
            found.append(float(word))
        except ValueError as error:
            raise ConfigError(
                f"numbers from 0 to 1 with commas between, such as 0,0.25,0.85; {word!r} is none.", "--levels"
            ) from error
        check_level(found[-1], "--levels")
    return found


def _seconds(value: float, option: str) -> float:
    if not 0 < value <= 1e7:
        raise ConfigError(f"seconds are above 0 and up to 10,000,000, got {value:g}.", option)
    return value


def _play(injector: Injector, schedule: Plan) -> None:
    """Go through the levels and say each; what was reached with the last one is said at the end."""
    where = (
        f"{injector.threads} core{'s' * (injector.threads > 1)}" if injector.device == "cpu" else "the GPU"
    )
    begun = until = time.monotonic()
    for place, (level, seconds) in enumerate(schedule):
        if place:
            _reached(injector.set(level))
        lasts = "until Ctrl-C" if math.isinf(seconds) else f"for {seconds:g} s"
        print(
            f"{time.monotonic() - begun:7.1f} s: level {level:g} on {where}, "
            f"period {injector.period:g} s, {lasts}",
            flush=True,
        )
        until += seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
            interrupt.check()
            injector.check()


def _reached(stretch: Stretch) -> None:
    print(f"           reached {stretch.achieved:.3f} in {stretch.seconds:.1f} s", flush=True)
