"""Config files and overrides -> one plain, resolved mapping.

With the command line, the only place that knows Hydra. Library users may pass plain mappings instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ttsflow import plugins
from ttsflow.composing.loading import Loader
from ttsflow.composing.mount import check_removed, expand, references, split
from ttsflow.composing.origins import Resolved, origins
from ttsflow.composing.replace import merged
from ttsflow.composing.session import OWN_CONFIGS, session
from ttsflow.composing.translate import translated
from ttsflow.errors import ConfigError, suggest
from ttsflow.registry import Registry, config_folder
from ttsflow.values import show

__all__ = ["VARIABLES", "Composed", "compose", "compose_run", "strategy", "strategy_of", "to_yaml"]

#: Where the resolved config keeps the strategy's variables, such as `n`; nothing is built from them.
VARIABLES = "variables"


class Composed(NamedTuple):
    """A resolved config and the folder its run writes to."""

    mapping: Resolved
    folder: Path


def compose(overrides: Sequence[str] = (), config_dir: str | None = None) -> dict[str, Any]:
    """Return the resolved config for ``overrides`` such as ``"strategy=ffs"``, in the order of its files.

    ``strategy`` holds only what is built, its variables stand under ``variables``; mounted strategies
    are spliced in, and an empty verifier is None. ``choices`` says which file of each group was taken.
    Raises ``ConfigError`` and ``PluginError``.
    """
    return compose_run(overrides, config_dir).mapping


def compose_run(overrides: Sequence[str] = (), config_dir: str | None = None) -> Composed:
    """Return the resolved config as ``compose`` does, with the folder of the run."""
    registry = plugins.load()
    with session(registry, config_dir) as loader:
        with translated(registry, loader):
            config = loader.load_configuration("config", list(overrides), RunMode.RUN)
            folder = Path(str(config.hydra.run.dir))
            raw = _raw(config)
            chosen = dict(config.hydra.runtime.choices)
        _check_root(raw)
        # A later file or an override may have replaced the one place that referred to a variable.
        there = loader.referenced & set(raw["strategy"] if isinstance(raw["strategy"], Mapping) else ())
        referenced = references(raw["strategy"], raw) | there
        split(raw["strategy"], referenced, registry, "strategy")
        with translated(registry, loader):
            plain = {key: _resolved(config[key]) for key in raw}
        own, variables = split(plain["strategy"], referenced, registry, "strategy")
        alone = _Alone(loader, registry)
        spliced = expand(own, alone, registry, "strategy")
    known = origins(raw["strategy"], "strategy") | alone.origins
    mapping = Resolved({"strategy": spliced, VARIABLES: variables}, known)
    mapping |= {key: plain[key] for key in _root_keys() if key != "strategy"}
    for group in ("verifier", "hardware"):
        mapping[group] = mapping[group] or None
    mapping["choices"] = {key: str(chosen[key]) for key in _root_keys() if chosen.get(key)}
    return Composed(mapping, folder)


def strategy(
    name: str, overrides: Mapping[str, Any] | None = None, config_dir: str | None = None
) -> dict[str, Any]:
    """Return the mapping of one strategy, ready to build, with some of its settings changed.

    ``strategy("majority", {"n": 8, "stages": {"answer": {"ties": "last"}}})``; None removes a stage. Errors
    as in ``compose``.
    """
    registry = plugins.load()
    mapping = {"use": "strategy", "name": name, **(overrides or {})}
    with session(registry, config_dir) as loader:
        alone = _Alone(loader, registry)
        return Resolved(expand(mapping, alone, registry, "strategy"), alone.origins)


def strategy_of(mapping: Mapping[str, Any], config_dir: str | None = None) -> dict[str, Any]:
    """Return a strategy given as a mapping, ready to build: variables and mounted strategies as in YAML.

    Errors as in ``compose``.
    """
    registry = plugins.load()
    with session(registry, config_dir) as loader:
        try:
            config = OmegaConf.create({"strategy": dict(mapping)})
        except OmegaConfBaseException as error:
            raise ConfigError(str(error).splitlines()[0], "strategy") from error
        raw = _raw(config)["strategy"]
        referenced = references(raw)
        split(raw, referenced, registry, "strategy")
        with translated(registry, loader):
            plain = _resolved(config.strategy)
        own, _ = split(plain, referenced, registry, "strategy")
        alone = _Alone(loader, registry)
        spliced = expand(own, alone, registry, "strategy")
    return Resolved(spliced, origins(raw, "strategy") | alone.origins)


@dataclass(frozen=True, slots=True)
class _Alone:
    """Composes one strategy by itself, so that what its file refers to is its own root."""

    loader: Loader
    registry: Registry
    origins: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, name: str, overrides: Mapping[str, Any], path: str, inside: tuple[str, ...]
    ) -> dict[str, Any]:
        if not re.fullmatch(r"[\w./-]+", name):
            raise ConfigError(f"'{name}' cannot be the name of a strategy.", f"{path}.name")
        try:
            with translated(self.registry, self.loader):
                config = self.loader.load_configuration(None, [f"+strategy={name}"], RunMode.RUN)
        except ConfigError as error:
            raise ConfigError(error.message, f"{path}.name") from error
        try:
            with translated(self.registry, self.loader):
                before = _raw(config)["strategy"]
                check_removed(before, overrides, "")
                OmegaConf.set_struct(config, value=False)
                config.strategy = merged(config.strategy, dict(overrides))
                raw = _raw(config)["strategy"]
            self.origins.update(origins(raw, path))
            known = self.loader.referenced & set(raw if isinstance(raw, Mapping) else ())
            referenced = references(raw) | references(before) | known
            split(raw, referenced, self.registry, "")
            with translated(self.registry, self.loader):
                plain = _resolved(config.strategy)
        except ConfigError as error:
            inner = error.path.removeprefix("strategy").lstrip(".")
            raise type(error)(f"in the strategy '{name}': {error.message}", inner).below(path) from error
        own, _ = split(plain, referenced, self.registry, path)
        result: dict[str, Any] = expand(own, self, self.registry, path, inside)
        return result


def _raw(config: DictConfig) -> dict[str, Any]:
    """Return a composed config as plain data with its interpolations unresolved, without Hydra's part."""
    return {
        str(key): OmegaConf.to_container(value, resolve=False) if OmegaConf.is_config(value) else value
        for key, value in config.items_ex(resolve=False)
        if key != "hydra"
    }


def _resolved(value: Any) -> Any:
    """Return a part of a composed config as plain data; it may refer to the whole config."""
    if not OmegaConf.is_config(value):
        return value
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)


@cache
def _root_keys() -> tuple[str, ...]:
    """Return the keys of a config: the groups and settings of the primary config file."""
    text = config_folder(OWN_CONFIGS).joinpath("config.yaml").read_text("utf-8")
    root: Any = OmegaConf.to_container(OmegaConf.create(text), resolve=False)
    groups = [key for item in root.pop("defaults") if isinstance(item, dict) for key in item]
    # An experiment only sets what belongs to others.
    groups = [group for group in groups if not group.startswith("override ") and group != "experiment"]
    return (*groups, *(key for key in root if key != "hydra"))


def _check_root(raw: Mapping[str, Any]) -> None:
    known = _root_keys()
    for key in raw:
        if key not in known:
            raise ConfigError(f"there is no setting '{key}'. {suggest(key, known)}", key)
    for key in known:
        if key not in raw:
            raise ConfigError(f"'{key}' is missing; it cannot be removed.", key)
    if not isinstance(raw["verifier"], Mapping | None):
        raise ConfigError(
            f"a verifier is a mapping with the key `use`, got {show(raw['verifier'])}.", "verifier"
        )


def to_yaml(mapping: Mapping[str, Any]) -> str:
    """Return a mapping as YAML, in its own order."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(mapping)))
