"""For those who write strategies and plugins: skeletons, a check without a model, schemas for editors."""

# ruff: noqa: T201, PLC0415 - it prints, and a command imports what it alone needs

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from ttsflow.commands import Parser, overridden, warn

__all__ = ["check", "describe", "new", "schema"]


def new(argv: Sequence[str]) -> int:
    """Write a new plugin, or a strategy file that begins as another one."""
    parser = Parser(prog="ttsflow new", description=new.__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="plugin|strategy", parser_class=Parser)
    plugin = kinds.add_parser("plugin", help="a package with a stage, a strategy, and tests that pass")
    plugin.add_argument("name", metavar="NAME", help="such as spelling, for the package ttsflow-spelling")
    plugin.add_argument(
        "--into", metavar="DIR", type=Path, default=Path(), help="the folder to write it in (.)"
    )
    strategy = kinds.add_parser("strategy", help="a YAML file below conf/strategy")
    strategy.add_argument("name", metavar="NAME", help="what strategy=NAME will be")
    strategy.add_argument("--from", dest="base", metavar="STRATEGY", default="majority", help="(majority)")
    strategy.add_argument("--config-dir", metavar="DIR", type=Path, default=Path("conf"), help="(conf)")
    how = "write only what differs, with `defaults`; changes of the other one are then followed"
    strategy.add_argument("--extend", action="store_true", help=how)
    args = parser.parse_args(argv)
    if args.kind == "plugin":
        from ttsflow.authoring.plugin import write_plugin

        folder = write_plugin(args.name, args.into)
        place = shlex.quote(str(folder))
        print(f"{folder}\nInstall it with `pip install -e {place}`, then `pytest {place}`.")
        return 0
    from ttsflow.authoring.strategy import trial_words, write_strategy

    file = write_strategy(args.name, args.base, args.config_dir, extend=args.extend)
    words = " ".join(["engine=fake", *trial_words(args.base), "limit=4"])
    print(f"{file}\nTry `ttsflow run --config-dir {args.config_dir} strategy={args.name} {words}`.")
    return 0


def check(argv: Sequence[str]) -> int:
    """Check a config without loading a model, and draw the stages of its strategy as a tree."""
    parser = Parser(prog="ttsflow check", description=check.__doc__)
    args = overridden(parser, argv)
    from ttsflow.authoring.check import check_config

    warn()
    check_config(args.overrides, args.config_dir)
    return 0


def describe(argv: Sequence[str]) -> int:
    """Say what a part is, from its class: its documentation, and settings with types and defaults."""
    parser = Parser(prog="ttsflow describe", description=describe.__doc__)
    parser.add_argument("kind", help="such as stage, verifier or strategy")
    parser.add_argument("name", nargs="?", help="as `ttsflow list KIND` shows it")
    args = parser.parse_args(argv)
    from ttsflow.authoring.reference import describe_part, only_named
    from ttsflow.plugins import load

    warn()
    registry = load()
    kind, name = (args.kind, args.name) if args.name else only_named(registry, args.kind)
    describe_part(registry, kind, name)
    return 0


def schema(argv: Sequence[str]) -> int:
    """Print the JSON schema of the config files of a group, or of a whole run, for editors."""
    from ttsflow.json_schema import GROUPS, file_schema
    from ttsflow.plugins import load

    parser = Parser(prog="ttsflow schema", description=schema.__doc__)
    parser.add_argument("group", nargs="?", help=f"one of {', '.join(GROUPS)}; without it, a whole run")
    args = parser.parse_args(argv)
    warn()
    print(json.dumps(file_schema(args.group, load()), indent=1))
    return 0
