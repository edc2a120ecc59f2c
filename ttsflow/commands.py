"""What the command line offers besides ``run``: of these ``calibrate`` alone runs a model.

Everything heavy is imported by the command that needs it.
"""

# ruff: noqa: T201, PLC0415 - it prints, and a command imports what it alone needs

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ttsflow.errors import ConfigError, suggest

__all__ = [
    "Parser",
    "calibrate",
    "compare",
    "doctor",
    "explain",
    "load",
    "overridden",
    "plan",
    "plugins",
    "pool",
    "profile",
    "record",
    "replay_table",
    "report",
    "show",
    "status",
    "timeline",
    "warn",
    "what",
]

_OVERRIDES = "settings as key=value, such as strategy=ffs strategy.n=16 engine.seats=64"


class Parser(argparse.ArgumentParser):
    """Says how settings are written when an option is unknown."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        hint = " Settings are written key=value, without dashes." if "unrecognized" in message else ""
        self.exit(2, f"error: {message}.{hint} See `{self.prog} --help`.\n")


def overridden(parser: argparse.ArgumentParser, argv: Sequence[str]) -> Any:
    """Add the arguments that stand for a config, and parse."""
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=_OVERRIDES)
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with config groups of your own")
    return parser.parse_intermixed_args(argv)


def compare(argv: Sequence[str]) -> int:
    """Compare two runs on the questions they share: a paired test, what each took, where settings differ."""
    from ttsflow.analysis.compare import main

    return main(argv, Parser(prog="ttsflow compare", description=compare.__doc__))


def record(argv: Sequence[str]) -> int:
    """Make a file of recorded samples from a finished run, for engine=replay."""
    parser = Parser(prog="ttsflow record", description=record.__doc__)
    parser.add_argument("folder", metavar="RUN_FOLDER", type=Path, help="the folder that a run wrote")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help=".jsonl or .jsonl.gz"
    )
    parser.add_argument(
        "--no-text", action="store_true", help="leave the texts out: answers and lengths only"
    )
    args = parser.parse_args(argv)
    from ttsflow.analysis.record import record as make

    done = make(args.folder, args.output, texts=not args.no_text)
    if done.left_out:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(done.left_out.items()))
        lean = "; what is left leans towards short samples" if "aborted" in done.left_out else ""
        print(f"warning: {sum(done.left_out.values())} samples are left out: {why}{lean}.", file=sys.stderr)
    print(f"{done.samples} samples of {done.problems} problems in {args.output}")
    return 0


def what(argv: Sequence[str]) -> int:
    """Show what is installed and can be named in a config, of one kind or of all."""
    parser = Parser(prog="ttsflow list", description=what.__doc__)
    parser.add_argument("kind", nargs="?", help="such as strategy, stage, verifier or task")
    kind = parser.parse_args(argv).kind
    from ttsflow.listing import show_parts
    from ttsflow.plugins import load

    kinds = {entry.kind for entry in load().choices()}
    if kind is not None and kind not in kinds:
        raise ConfigError(f"there is no kind of part '{kind}'. {suggest(kind, kinds)}")
    warn()
    show_parts(load(), kind)
    return 0


def explain(argv: Sequence[str]) -> int:
    """Print the strategy that would run, with all its settings, as YAML to paste and edit."""
    parser = Parser(prog="ttsflow explain", description=explain.__doc__)
    args = overridden(parser, argv)
    from ttsflow.build import build
    from ttsflow.build import explain as told
    from ttsflow.composing.origins import naming, with_variables
    from ttsflow.config import VARIABLES, compose_run, to_yaml
    from ttsflow.plugins import load

    warn()
    mapping = compose_run(args.overrides, args.config_dir).mapping
    with naming(mapping):
        stage = build("stage", mapping["strategy"], "strategy", load())
    print(to_yaml(with_variables(told(stage, load()), mapping[VARIABLES], mapping.origins)), end="")
    return 0


def doctor(argv: Sequence[str]) -> int:
    """Say what held a run back (memory, verifier, empty seats, wasted speculation) and what to change."""
    parser = Parser(prog="ttsflow doctor", description=doctor.__doc__)
    parser.add_argument("folder", metavar="RUN_FOLDER", type=Path, help="the folder that a run wrote")
    args = parser.parse_args(argv)
    from ttsflow.analysis.doctor import show_findings

    show_findings(args.folder)
    return 0


def calibrate(argv: Sequence[str]) -> int:
    """Measure cost and accuracy by number of samples once, for strategy=atest_calibrated."""
    from ttsflow.analysis.calibrate import main

    warn()
    return main(argv, Parser(prog="ttsflow calibrate", description=calibrate.__doc__))


def load(argv: Sequence[str]) -> int:
    """Keep cores or a GPU busy for a share of the time, for experiments with the load of others."""
    from ttsflow.load.command import main

    return main(argv, Parser(prog="ttsflow load", description=load.__doc__))


def plan(argv: Sequence[str]) -> int:
    """Show how a run would share the memory of its device between engine and verifier, and why."""
    parser = Parser(prog="ttsflow plan", description=plan.__doc__)
    args = overridden(parser, argv)
    from ttsflow.analysis.plan import show_memory_plan
    from ttsflow.config import compose

    warn()
    show_memory_plan(compose(args.overrides, args.config_dir))
    return 0


def plugins(argv: Sequence[str]) -> int:
    """Show the installed plugins, what they add, and what is wrong with them."""
    Parser(prog="ttsflow plugins", description=plugins.__doc__).parse_args(argv)
    from ttsflow.listing import show_plugins
    from ttsflow.plugins import plugins as installed
    from ttsflow.plugins import problems

    show_plugins(installed(), problems())
    return 0


def pool(argv: Sequence[str]) -> int:
    """Show what a pool of samples holds, export it, or remove a part of it."""
    from ttsflow.analysis.pool import main

    return main(argv, Parser(prog="ttsflow pool", description=pool.__doc__))


def profile(argv: Sequence[str]) -> int:
    """Say what kind of model recorded samples or a run come from, and which strategy suits it."""
    from ttsflow.analysis.profiling import main

    return main(argv, Parser(prog="ttsflow profile", description=profile.__doc__))


def replay_table(argv: Sequence[str]) -> int:
    """Print first- and last-finish search on recorded samples: accuracies, and the tokens they took."""
    parser = Parser(prog="ttsflow replay-table", description=replay_table.__doc__)
    parser.add_argument("file", nargs="?", help="recorded samples (default: those of this package)")
    parser.add_argument(
        "--profile",
        choices=["exact", "paper"],
        default="exact",
        help="exactly k samples vote, or also those as long as the k-th one, as in published tables",
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON list, one row per model and data set"
    )
    args = parser.parse_args(argv)
    from ttsflow.analysis.replay_table import show, table

    rows = table(args.file, args.profile)
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows)
    return 0


def report(argv: Sequence[str]) -> int:
    """Make one page of runs and sweeps: pictures, tables, every problem, search trees, comparisons."""
    from ttsflow.reporting.command import main

    return main(argv, Parser(prog="ttsflow report", description=report.__doc__))


def timeline(argv: Sequence[str]) -> int:
    """Draw what ran when on the engine of a run: batch, KV cache, evictions."""
    parser = Parser(prog="ttsflow timeline", description=timeline.__doc__)
    parser.add_argument("folder", metavar="RUN_FOLDER", type=Path, help="the folder that a run wrote")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help=".svg, .png or .pdf; timeline.svg in the folder"
    )
    args = parser.parse_args(argv)
    from ttsflow.analysis.timeline import show_timeline

    print(f"picture: {show_timeline(args.folder, args.output or args.folder / 'timeline.svg')}")
    return 0


def show(argv: Sequence[str]) -> int:
    """List the problems of a run, or draw one as a tree: who came from whom, scored what, was dropped why."""
    parser = Parser(prog="ttsflow show", description=show.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a run")
    parser.add_argument("--problem", metavar="ID", help="the problem to draw")
    parser.add_argument("--width", type=int, default=100, help="characters shown of every text (100)")
    args = parser.parse_args(argv)

    from ttsflow.analysis.show import show_problem, show_problems

    if args.problem is None:
        show_problems(args.folder)
    else:
        show_problem(args.folder, args.problem, width=max(1, args.width))
    return 0


def status(argv: Sequence[str]) -> int:
    """Say how far a sweep or a run is: jobs done, partial, failed and running, and what the rest may take."""
    parser = Parser(prog="ttsflow status", description=status.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a sweep, or of a run")
    args = parser.parse_args(argv)
    from ttsflow.analysis.status import show_status

    show_status(args.folder)
    return 0


def warn() -> None:
    """Say what is wrong with installed plugins; only what they provide is missing."""
    from ttsflow.plugins import problems

    for problem in problems():
        print(f"warning: {problem}", file=sys.stderr)
