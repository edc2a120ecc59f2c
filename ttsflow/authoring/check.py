"""``ttsflow check``: everything that is checked before a model loads, and the stages as a tree."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from rich.text import Text
from rich.tree import Tree

from ttsflow.composing.assemble import assemble
from ttsflow.config import VARIABLES, compose
from ttsflow.errors import ConfigError
from ttsflow.json_schema import GROUPS
from ttsflow.listing import wide_console
from ttsflow.parts import schema
from ttsflow.plugins import load
from ttsflow.registry import MOUNT, Registry
from ttsflow.setup import Setup

__all__ = ["check_config", "stage_tree"]

_SUFFIXES = (".yaml", ".yml")
_LONGEST = 60  # characters of a setting


def check_config(words: Sequence[str], config_dir: str | None) -> Setup:
    """Compose and check a run, print its stages, and return its parts.

    The first of ``words`` may be a strategy's name or a config file instead of an override. Raises
    ``ConfigError``, ``PluginError`` and ``MissingExtra``.
    """
    with _chosen(words, config_dir) as (overrides, folder):
        mapping = compose(overrides, folder)
    setup = assemble(mapping)
    console = wide_console()
    variables = " ".join(f"{key}={_brief(value)}" for key, value in mapping[VARIABLES].items())
    title = Text.assemble((setup.names["strategy"], "bold"), f"  {variables}")
    console.print(stage_tree(setup.strategy, load(), title))
    for key in ("engine", "task", "verifier"):
        console.print(Text(f"{key}: {setup.names[key]}"))
    for name, engine in mapping.get("engines", {}).items():
        console.print(Text(f"engine {name}: {_engine(engine)}"))
    limits = [
        f"{limit:g} {unit} per {scope}"
        for scope in ("problem", "run")
        for unit, limit in getattr(setup.budget, scope).items()
    ]
    console.print(Text(f"budget: {', '.join(limits) or 'none'}"))
    console.print(Text(f"nothing is wrong with it; fingerprint {setup.fingerprint}"))
    return setup


def _engine(settings: Mapping[str, Any]) -> str:
    """Return what an engine is called, and its model where it has one."""
    return " ".join([str(settings["use"]), *([str(settings["model"])] if "model" in settings else [])])


def stage_tree(stage: Any, registry: Registry, title: Text | str) -> Tree:
    """Return a strategy as a tree of its parts, with the settings that are not the default ones."""
    tree = Tree(title)
    _grow(tree, "", stage, registry)
    return tree


def _grow(tree: Tree, name: str, part: Any, registry: Registry) -> None:
    entry = registry.entry_of(type(part))
    use = (
        type(part).__name__
        if entry is None
        else f"{MOUNT} {entry.name}"
        if entry.kind == MOUNT
        else entry.name
    )
    inside: list[tuple[str, Any]] = []
    settings = []
    for key, (field, _) in schema(type(part)).items():
        value = getattr(part, field.name)
        if _is_part(value):
            inside.append((key, value))
        elif isinstance(value, Mapping) and value and all(map(_is_part, value.values())):
            inside += value.items()
        elif value != _default(field):
            settings.append(f"{key}={_brief(value)}")
    label = Text.assemble(
        (f"{name}: " if name else ""), (use, "bold"), "".join(f" {one}" for one in settings)
    )
    branch = tree.add(label)
    for key, value in inside:
        _grow(branch, key, value, registry)


def _is_part(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _brief(value: Any) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    text = text.strip("'") if isinstance(value, str) and value.isprintable() and value.strip() else text
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


@contextmanager
def _chosen(words: Sequence[str], config_dir: str | None) -> Iterator[tuple[list[str], str | None]]:
    """Yield overrides and config folder; a file or a name in front becomes the override that chooses it."""
    overrides = [word for word in words if "=" in word or word.startswith("~")]
    named = [word for word in words if word not in overrides]
    if not named:
        yield overrides, config_dir
        return
    if len(named) > 1:
        raise ConfigError(f"one strategy or config file is checked at a time, got {' and '.join(named)}.")
    file = Path(named[0]).expanduser()
    if file.suffix not in _SUFFIXES:
        yield [f"strategy={named[0]}", *overrides], config_dir
        return
    if not file.is_file():
        raise ConfigError(f"there is no file '{file}'.")
    if config_dir is not None:
        raise ConfigError(f"'{file}' brings its own folder; leave --config-dir out, or choose it by name.")
    _check_file(file)
    group = file.resolve().parent.name
    if group in GROUPS and file.suffix == ".yaml":
        yield [f"{group}={file.stem}", *overrides], str(file.resolve().parent.parent)
        return
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "strategy" / f"{file.stem}.yaml"
        target.parent.mkdir()
        shutil.copy(file, target)
        yield [f"strategy={file.stem}", *overrides], folder


def _check_file(file: Path) -> None:
    """Raise ``ConfigError`` for a file that holds no mapping, with its own name."""
    try:
        said = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"'{file}' cannot be read: {error}") from error
    if not isinstance(said, Mapping):
        what = "is empty" if said is None else f"holds {_brief(said)}"
        raise ConfigError(f"'{file}' {what}; a strategy is a mapping with the key `use`.")
