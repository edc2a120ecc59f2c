"""The command line: ``ttsflow COMMAND``; what does not run anything is in ``commands``.

Exit codes: 0, 1 for a run that failed, 2 for a mistake in config, command or plugins, 130 for Ctrl-C and
143 for a polite kill. Everything heavy is imported by the command that needs it.
"""

# ruff: noqa: T201, PLC0415 - it prints, and a command imports what it alone needs

from __future__ import annotations

import argparse
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ttsflow import authoring, commands, interrupt
from ttsflow.commands import Parser, overridden, warn
from ttsflow.errors import ConfigError, TtsflowError, suggest

__all__ = ["main"]

_GO_ON = "to go on: the same words, and hydra.run.dir={} --resume"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    if sys.stdout is None:
        # Started with a closed output (`>&-`): the work is done all the same.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    parser = Parser(
        prog="ttsflow",
        description="Test-time scaling of language models as declarative pipelines.",
        epilog="commands:\n" + "".join(f"  {n:14}{c.__doc__}\n" for n, c in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="ttsflow COMMAND ...",
    )
    parser.add_argument("--version", action="version", version=f"ttsflow {_version()}")
    parser.add_argument("command", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help()
        return 2
    args = parser.parse_args(argv)
    if args.command not in COMMANDS:
        parser.error(f"there is no command '{args.command}'. {suggest(args.command, COMMANDS)[:-1]}")
    try:
        return COMMANDS[args.command](args.rest)
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - an interrupt may wear any coat
        number = interrupt.received() or (signal.SIGINT if isinstance(error, KeyboardInterrupt) else None)
        if number is not None:
            print("interrupted" if number == signal.SIGINT else "terminated", file=sys.stderr)
            return 128 + number
        return _failed(error)


def _failed(error: BaseException) -> int:
    """Say what went wrong and return the exit code; what nobody expected is raised on."""
    if isinstance(error, TtsflowError):
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, RecursionError):
        print("error: the config is nested too deeply, or a file of it includes itself.", file=sys.stderr)
        return 2
    if isinstance(error, BrokenPipeError):
        # The reader (`| head`) has seen enough; keep Python from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}:
        print(
            f"error: {error.strerror}: {error.filename or 'what was said could not be written'}.",
            file=sys.stderr,
        )
        return 1
    if isinstance(error, OSError) and error.errno in {errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP}:
        print(f"error: {error.strerror}: {str(error.filename)[:200]!r}.", file=sys.stderr)
        return 2
    raise error


def _version() -> str:
    try:
        return version("ttsflow")
    except PackageNotFoundError:
        return "(not installed)"


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for garbage less often: a large search keeps what it makes; looking took a third of its time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run(argv: Sequence[str]) -> int:
    """Run one config, or a sweep over many with -m."""
    parser = Parser(prog="ttsflow run", description=_run.__doc__)
    parser.add_argument(
        "-m",
        "--multirun",
        action="store_true",
        help="run every combination of values such as strategy.n=4,16",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in hydra.run.dir; a sweep always goes on with its folder",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress and no table of a run")
    args = overridden(parser, argv)
    _check_folder(args.overrides, multirun=args.multirun)
    warn()
    with interrupt.handled(), _seldom_collecting():
        if args.multirun:
            from ttsflow.runs.sweep import sweep

            ended = sweep(args.overrides, args.config_dir, show=not args.quiet)
            return int(any(job.status != "complete" for job in ended))
        from ttsflow.config import compose_run

        mapping, folder = compose_run(args.overrides, args.config_dir)
        from ttsflow.run import run_config

        try:
            summary = run_config(mapping, folder, show=not args.quiet, resume=args.resume)
        except KeyboardInterrupt:
            print(_GO_ON.format(folder))
            raise
        if summary.error:
            print(f"error: {summary.error}", file=sys.stderr)
        if not args.quiet:
            from ttsflow.display import print_summaries

            print_summaries([summary])
        print(f"results in {folder}")
        if summary.status != "complete":
            print(_GO_ON.format(folder))
        return int(summary.status == "failed")


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "run": _run,
    "status": commands.status,
    "report": commands.report,
    "compare": commands.compare,
    "show": commands.show,
    "timeline": commands.timeline,
    "doctor": commands.doctor,
    "record": commands.record,
    "pool": commands.pool,
    "profile": commands.profile,
    "replay-table": commands.replay_table,
    "plan": commands.plan,
    "load": commands.load,
    "calibrate": commands.calibrate,
    "list": commands.what,
    "explain": commands.explain,
    "plugins": commands.plugins,
    "describe": authoring.describe,
    "check": authoring.check,
    "schema": authoring.schema,
    "new": authoring.new,
}


def _check_folder(overrides: Sequence[str], *, multirun: bool) -> None:
    """Refuse the folder setting that would do nothing."""
    used, idle = ("sweep", "run") if multirun else ("run", "sweep")
    for line in overrides:
        if line.lstrip("+").startswith(f"hydra.{idle}."):
            kind = "a sweep" if multirun else "a single run"
            raise ConfigError(f"{kind} does not read it; set hydra.{used}.dir.", f"hydra.{idle}")


if __name__ == "__main__":
    sys.exit(main())
