"""The command ``ttsflow calibrate``: cost and accuracy by number of samples, measured into a profile."""

# ruff: noqa: T201 - it prints

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rich.table import Table

from ttsflow import interrupt
from ttsflow.analysis.calibrating import Measured, Plan, calibrate
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.errors import ConfigError, suggest
from ttsflow.listing import wide_console
from ttsflow.load.idle import NoLoad
from ttsflow.load.injector import check_level
from ttsflow.meters.plain import NoMeter
from ttsflow.runs.lines import replace_text
from ttsflow.setup import Setup
from ttsflow.strategies.rungs import check_rungs

__all__ = ["main", "parsed"]

_RUNGS = (1, 3, 4, 6, 8)

N = TypeVar("N", int, float)


def main(argv: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Measure, write the profile and say what was found; returns the exit code. Raises ``ConfigError``."""
    setup, plan, target = parsed(argv, parser)
    _check_target(target)
    with interrupt.handled():
        found = calibrate(setup, plan, (_model(setup), setup.names.get("task", "")))
    _write(target, found.profile.dumped())
    _show(found)
    print(f"profile: {target}")
    return 0


def parsed(argv: Sequence[str], parser: argparse.ArgumentParser) -> tuple[Setup, Plan, Path]:
    """Return what a command line asks for: the run, what to measure, and the file. Raises ``ConfigError``."""
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="engine, task, meter and load")
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with config groups of your own")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help="the profile, a JSON file"
    )
    parser.add_argument("--unit", help="joules, seconds, tokens ... (joules with a meter, else seconds)")
    parser.add_argument("--rungs", nargs="+", metavar="N", help="numbers of samples (1 3 4 6 8)")
    parser.add_argument("--loads", nargs="+", metavar="U", help="loads to make meanwhile, such as 0 0.55")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="where to make them (cpu)")
    parser.add_argument("--problems", type=int, default=20, metavar="N", help="questions of each kind (20)")
    args = parser.parse_intermixed_args(argv)
    # An option that takes several words also takes settings that follow it.
    overrides = [*args.overrides, *_settings(args.rungs), *_settings(args.loads)]
    rungs = _numbers(args.rungs, int, "--rungs") or _RUNGS
    loads = _numbers(args.loads, float, "--loads")
    try:
        check_rungs(rungs)
    except ConfigError as error:
        raise ConfigError(error.message, "--rungs") from error
    for load in loads:
        check_level(load, "--loads")
    if args.problems < 1:
        raise ConfigError(f"at least one question is needed, got {args.problems}.", "--problems")
    setup = _setup(overrides, args.config_dir)
    plan = Plan(_unit(setup, args.unit), rungs, args.problems, loads, args.device)
    _check_loads(setup, plan)
    if plan.unit == "seconds" and setup.concurrency > 1:
        raise ConfigError(
            f"with concurrency={setup.concurrency} questions share the clock; leave it at 1.", "concurrency"
        )
    return setup, plan, args.output


def _settings(words: Sequence[str] | None) -> list[str]:
    return [word for word in words or () if "=" in word]


def _numbers(words: Sequence[str] | None, kind: Callable[[str], N], option: str) -> tuple[N, ...]:
    found = []
    for word in (part for text in words or () if "=" not in text for part in text.split(",")):
        try:
            found.append(kind(word))
        except ValueError as error:
            raise ConfigError(f"numbers are needed, and {word!r} is none.", option) from error
    return tuple(found)


def _setup(overrides: Sequence[str], config_dir: str | None) -> Setup:
    """Return the run of the config, without what a calibration sets itself."""
    for word in overrides:
        group = word.lstrip("+~").partition("=")[0].partition(".")[0]
        if group in {"strategy", "budget"}:
            raise ConfigError(
                f"a calibration draws samples itself, without a budget; leave {group} out. Numbers of "
                "samples are set with --rungs.",
                group,
            )
    mapping: dict[str, Any] = compose([*overrides, "strategy=majority"], config_dir)
    setup = assemble(mapping, checked=False)
    alone = not any(word.partition("=")[0] == "concurrency" for word in overrides)
    return replace(setup, concurrency=1) if alone else setup


def _unit(setup: Setup, asked: str | None) -> str:
    if asked is not None:
        if asked == "joules" and "joules" not in setup.costs:
            raise ConfigError(
                "joules are counted by a meter, and this run has none. Choose one with meter=nvml, power, "
                "rapl or model.",
                "--unit",
            )
        if asked not in setup.costs:
            known = f"no cost model of this run measures '{asked}'. {suggest(asked, setup.costs)}"
            raise ConfigError(known, "--unit")
        return asked
    if not isinstance(setup.meter, NoMeter):
        return "joules"
    return "tokens" if getattr(setup.engine, "virtual", False) else "seconds"


def _check_loads(setup: Setup, plan: Plan) -> None:
    """Refuse loads that nobody would see, and those that slow no clock."""
    if not plan.loads:
        return
    if getattr(setup.engine, "virtual", False):
        raise ConfigError(
            "this engine's clock is virtual, and no load of this machine slows it; leave them out, or write "
            "loads down with load=trace.",
            "--loads",
        )
    if isinstance(setup.load, NoLoad):
        raise ConfigError(
            "a controller would not see these loads, as the run has no monitor; add load=cpu, or load=nvml "
            "with --device cuda.",
            "--loads",
        )


def _model(setup: Setup) -> str:
    named = getattr(setup.task, "model", None) or getattr(setup.engine, "model", None)
    name = str(named or setup.names.get("engine", ""))
    return Path(name).name if Path(name).is_absolute() else name


def _check_target(target: Path) -> None:
    if os.path.lexists(target):
        raise ConfigError(f"{str(target)!r} exists, and nothing is overwritten; choose another file.", "-o")
    if not target.parent.is_dir():
        raise ConfigError(f"there is no folder {str(target.parent)!r} to write to; make it first.", "-o")


def _write(target: Path, text: str) -> None:
    try:
        replace_text(target, text)
    except OSError as error:
        raise ConfigError(f"{str(target)!r} cannot be written: {error.strerror}.", "-o") from error


def _show(found: Measured) -> None:
    profile = found.profile
    costs = Table(title=f"cost in {profile.unit}", title_justify="left")
    for name in ("samples", "load", "measured", "fitted", "off"):
        costs.add_column(name, justify="right")
    for cell in found.cells:
        fitted = profile.price(cell.samples, cell.load)
        off = f"{fitted / cell.cost - 1:+.1%}"
        costs.add_row(str(cell.samples), f"{cell.load:.2f}", f"{cell.cost:.4g}", f"{fitted:.4g}", off)
    shares = Table(title="accuracy", title_justify="left")
    for name in ("samples", "measured", "fitted"):
        shares.add_column(name, justify="right")
    for rung, measured, fitted in zip(profile.rungs, profile.measured, profile.accuracy, strict=True):
        shares.add_row(str(rung), f"{measured:.3f}", f"{fitted:.3f}")
    console = wide_console()
    console.print(costs)
    a, b, c, d = profile.cost
    print(
        f"cost: {a:.4g} + {b:.4g} n + {c:.4g} u + {d:.4g} n u, off by {profile.error:.1%} (root mean square)"
    )
    console.print(shares)
    print(f"{profile.questions} questions, {profile.samples} samples, {profile.seconds:.1f} s")
