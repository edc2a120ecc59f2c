"""Hydra's loader with ttsflow's search path, and without leaving a trace in the process.

The search path holds ``ttsflow.conf``, the config packages of all plugins and the user's folder. It is
built here for ttsflow's own loader; neither ``GlobalHydra`` nor a ``hydra_plugins`` package is involved,
so other Hydra programs of the environment are not affected.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import InputDefault
from hydra.core.utils import setup_globals
from hydra.version import VersionBase, setbase
from omegaconf import DictConfig, OmegaConf, grammar_parser
from omegaconf import base as nodes

from ttsflow.composing.loading import GROUPS, Loader
from ttsflow.composing.repository import MOST_PARSED
from ttsflow.errors import ConfigError
from ttsflow.registry import MOUNT, Registry, config_folder, config_options

__all__ = ["OWN_CONFIGS", "session"]

OWN_CONFIGS = "ttsflow.conf"

_lock = threading.RLock()


@contextmanager
def session(registry: Registry, config_dir: str | None = None) -> Iterator[Loader]:
    """Yield a loader; one thread at a time, and Hydra's process-wide state is put back afterwards.

    Raises ``PluginError`` when two providers offer one config file, ``ConfigError`` when the user's
    folder does not exist or repeats a file of an installed one.
    """
    registry.check_options()
    with _lock:
        version, store = VersionBase.instance().getbase(), ConfigStore.instance()
        files = store.repo
        try:
            setbase("1.3")
            setup_globals()
            user, options = _user_folder(registry, config_dir)
            store.repo = {**files, **{group: {**files.get(group, {})} for group in GROUPS}}
            for entry in registry.entries():
                if entry.kind in GROUPS and f"{entry.kind}/{entry.name}" not in options | registry.options:
                    head = {"use": MOUNT, "name": entry.name} if entry.kind == MOUNT else {"use": entry.name}
                    store.store(entry.name, head, entry.kind, provider=entry.provider)
            stored = tuple(frozenset(store.repo[group]) for group in GROUPS)
            loader = Loader(_search_path(registry, user), registry.options | options, stored)
            with (
                _swapped(defaults_list, "_create_interpolation_map", _names_where_asked_for),
                _swapped(config_loader_impl, "create_defaults_list", loader.listed),
                _swapped(nodes, "parse", _expression),
            ):
                yield loader
        finally:
            store.repo = files
            if version is not None:
                VersionBase.instance().version_base = version


@contextmanager
def _swapped(module: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Put ``function`` in the place of one of Hydra's or OmegaConf's, for the length of a session."""
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)


@lru_cache(MOST_PARSED)
def _expression(value: str, parser_rule: str = "configValue", lexer_mode: str = "DEFAULT_MODE") -> Any:
    """Return a parsed interpolation such as ``${strategy.n}``, which nobody may change."""
    return grammar_parser.parse(value, parser_rule, lexer_mode)


_names = defaults_list._create_interpolation_map  # noqa: SLF001 - to be called where it is needed


def _names_where_asked_for(overrides: Any, defaults: list[InputDefault], self_added: bool) -> DictConfig:
    """Let Hydra make a config of all choices only for a defaults list that refers to one, as in ``${task}``.

    It makes one for every file, which takes a sixth of the time of composing, and reads it for none.
    """
    asked = any(default.is_interpolation() for default in defaults)
    return _names(overrides, defaults, self_added) if asked else OmegaConf.create()


def _user_folder(registry: Registry, config_dir: str | None) -> tuple[Path | None, set[str]]:
    if config_dir is None:
        return None, set()
    folder = Path(config_dir).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"there is no folder '{config_dir}'; --config-dir names one with config groups.")
    options = {option for option, _ in config_options(folder)}
    twice = sorted(options & registry.options)
    if twice:
        raise ConfigError(
            f"'{twice[0]}.yaml' in {folder} has the name of an installed config file; give it another one. "
            f"To change an installed one, write `defaults: [{twice[0].rpartition('/')[2]}, _self_]` in it."
        )
    return folder, options


def _search_path(registry: Registry, user: Path | None) -> ConfigSearchPath:
    search: Any = create_config_search_path(_url(OWN_CONFIGS))
    path = search.get_path()
    schema = path.pop()  # Hydra wants its structured configs to be the last source.
    for package, provider in sorted(registry.configs.items()):
        if package != OWN_CONFIGS:
            search.append(provider, _url(package))
    if user is not None:
        search.append("--config-dir", f"file://{user}")
    path.append(schema)
    return search  # type: ignore[no-any-return]


def _url(package: str) -> str:
    folder = config_folder(package)
    beside = package == OWN_CONFIGS and isinstance(folder, Path) and folder.parent.name != "ttsflow"
    return f"file://{folder}" if beside else f"pkg://{package}"
