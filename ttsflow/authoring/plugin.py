"""``ttsflow new plugin``: a package that works as it is, to be changed piece by piece."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from string import Template

from ttsflow.errors import ConfigError
from ttsflow.hookspecs import API_VERSION
from ttsflow.plugins import load

__all__ = ["write_plugin"]

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$dist"
version = "0.1.0"
description = "A plugin of ttsflow."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["ttsflow"]

[project.entry-points.ttsflow]
$part = "$package"

[tool.setuptools]
packages = ["$package", "$package.conf"]

[tool.setuptools.package-data]
"$package.conf" = ["**/*.yaml"]
""",
    "README.md": """\
# $dist

A plugin of ttsflow: the stage `$part` and the strategy `${part}_majority`.

```bash
pip install -e .
pytest
ttsflow plugins
ttsflow check ${part}_majority engine=fake
ttsflow run engine=fake strategy=${part}_majority strategy.n=4 limit=4
```
""",
    "$package/__init__.py": '''\
"""A plugin of ttsflow."""

from ttsflow import hookimpl

#: The plugin API that this was written for.
ttsflow_api = $api


@hookimpl
def ttsflow_register(registry):
    """Say what there is; a class is imported when a config first names it."""
    registry.add("stage", "$part", "$package.stage:Answered")
    registry.add_configs("$package.conf")
''',
    "$package/stage.py": '''\
"""A stage: a frozen dataclass that is called with a state and returns a new one."""

from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.types import State


@dataclass(frozen=True, slots=True)
class Answered:
    """Drops candidates without an answer, unless fewer than `least` have one."""

    least: int = 1

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ConfigError(f"must be at least 1, got {self.least}.", "least")

    def __call__(self, state: State) -> State:
        """Return the state with a smaller pool."""
        answered = tuple(candidate for candidate in state.pool if candidate.answer)
        return state if len(answered) < self.least else state.with_(pool=answered)
''',
    "$package/conf/__init__.py": '"""The config groups of this plugin."""\n',
    "$package/conf/strategy/${part}_majority.yaml": """\
# What: majority over the candidates that the stage `$part` leaves
# Source: $dist
# Cost: as majority
defaults: [majority, _self_]
least: 1
stages:
  $part: {use: $part, least: "$${strategy.least}", after: sample}
""",
    "tests/test_$package.py": """\
import pytest
from $package.stage import Answered

from ttsflow.config import compose
from ttsflow.plugins import load, problems
from ttsflow.run import run_config
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.testing.contracts import StageContract
from ttsflow.types import Answer, Candidate, Problem, State


class TestAnswered(StageContract):
    @pytest.fixture
    def part(self):
        return Sequence({"sample": GenerateStage(4), "keep": Answered(), "vote": Aggregate()})


def test_what_has_no_answer_goes():
    with_one, without = Candidate((0,), (), answer=Answer("7", "7")), Candidate((1,), ())
    state = State(Problem("?"), pool=(without, with_one))
    assert Answered()(state).pool == (with_one,)
    assert Answered(least=2)(state) is state


def test_it_is_found_and_runs(tmp_path):
    assert problems() == []
    assert load().find("strategy", "${part}_majority").provider == "$dist"
    settings = ["strategy=${part}_majority", "engine=fake", "strategy.n=4", "limit=2"]
    assert run_config(compose(settings), tmp_path / "run").status == "complete"
""",
}


def write_plugin(name: str, into: Path) -> Path:
    """Write a package below ``into`` and return its folder.

    ``name`` is that of the distribution, with or without "ttsflow-" in front; its stage is called as the rest
    of it. Raises ``ConfigError`` for a name that cannot be one or is taken, and for a folder that exists.
    """
    short = name.removeprefix("ttsflow-")
    if not _NAME.fullmatch(short):
        raise ConfigError(f"the name of a plugin has small letters, digits and single dashes, got '{name}'.")
    part = short.replace("-", "_")
    words = {"dist": f"ttsflow-{short}", "package": f"ttsflow_{part}", "part": part, "api": str(API_VERSION)}
    taken = {entry.name for entry in load().entries("stage")} | {"strategy"}
    if part in taken:
        raise ConfigError(f"there is a stage '{part}' already, and two may not share a name; choose another.")
    folder = into / words["dist"]
    if folder.exists():
        raise ConfigError(f"'{folder}' exists; nothing is overwritten.")
    try:
        for path, text in _FILES.items():
            file = folder / Template(path).substitute(words)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(Template(text).substitute(words), "utf-8")
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder
