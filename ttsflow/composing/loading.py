"""Hydra's loader for ttsflow's config files, which keeps what it has composed.

Composing is most of what a short run and a large sweep wait for: files, lists of files and whole configs are
kept for as long as no file of theirs changes.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Hashable, Mapping
from copy import copy, deepcopy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import DefaultsList, create_defaults_list
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from ttsflow.composing.mount import references
from ttsflow.composing.replace import mark_replaced, remove_gone
from ttsflow.composing.repository import MOST_PARSED, FileList, Kept, Repository, unchanged
from ttsflow.errors import ConfigError

__all__ = ["GROUPS", "Loader"]

#: Groups in which a part can be chosen by its bare name, without a config file of its own.
GROUPS = ("strategy", "engine", "verifier", "task", "meter", "load", "logger")

#: Below these keys any setting may be given: `build` knows which exist, also those no file mentions.
#: Only a stage that is removed must stand in a file.
_OPEN = re.compile(
    r"^(strategy|engine|engines|verifier|task|cost|meter|load|logger|budget|sampling)\.(?![^=]*\bstages\.[^.=]+=\s*null\s*$)[^=]*="
)

#: How many compositions are kept, of some 15 kB each; a sweep has as many as it combines files.
_MOST_MERGED = 500

#: Hydra's own settings that do not come from one of its config groups.
_NO_GROUP = re.compile(r"hydra[.:](run|sweep|job|runtime)\b")

# The same for all jobs of a sweep (Hydra hands the cache on), different for two runs in one second.
OmegaConf.register_new_resolver("ttsflow.unique", lambda: token_hex(3), use_cache=True, replace=True)


class Loader(ConfigLoaderImpl):
    """Composes configs. Settings of parts need no ``+``; what does not exist is refused by ``build``.

    ``referenced`` collects the variables that any strategy file read so far refers to.
    """

    #: Pickled, which makes new ones in a seventh of the time that copying takes.
    _merged: dict[Any, bytes] = {}  # noqa: RUF012 - of the process
    _single: dict[Any, bytes] = {}  # noqa: RUF012 - of the process
    _lists: dict[Any, FileList] = {}  # noqa: RUF012 - of the process
    _whole: dict[Any, Kept] = {}  # noqa: RUF012 - of the process

    def __init__(self, search_path: ConfigSearchPath, options: frozenset[str], stored: Hashable) -> None:
        super().__init__(search_path)
        self.repository = self._files = Repository(search_path)
        self._known = *((one.provider, one.path) for one in search_path.get_path()), options, stored
        self._groups = {option.partition("/")[0] for option in options} | {*ConfigStore.instance().repo}
        self.referenced: set[str] = set()
        self._so_far: dict[Any, Any] = {}
        self._replaced = False
        self._refers: set[str] = set()
        self._overrides: list[Any] = []

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Compose, or give again what the same words and the same files came to before.

        What mentions Hydra's own settings is always composed: it may depend on the environment.
        """
        own = run_mode == RunMode.MULTIRUN or any("hydra" in line for line in overrides)
        key = None if own else (self._known, config_name, (*overrides,), from_shell, Path.cwd())
        kept = self._whole.get(key)
        if kept and kept.own is self._files.own() and all(map(unchanged, kept.files)):
            config, referenced = pickle.loads(kept.config)  # noqa: S301 - what was pickled below
            self.referenced |= referenced
            return config  # type: ignore[no-any-return]
        self._files.marks.clear()
        self._files.read.clear()
        before, self.referenced = self.referenced, set()
        try:
            config = self._load(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)
            if key and self._may_be_kept(config):
                if len(self._whole) >= _MOST_MERGED:
                    del self._whole[next(iter(self._whole))]
                files = (*self._files.read.values(),)
                self._whole[key] = Kept(self._files.own(), files, pickle.dumps((config, self.referenced)))
        finally:
            self.referenced |= before
        return config

    def _may_be_kept(self, config: DictConfig) -> bool:
        """Whether what was composed came from files alone, and from nothing that may change without them."""
        return self._files.only_files() and not config.hydra.job.env_copy

    def _load(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool,
        validate_sweep_overrides: bool,
    ) -> DictConfig:
        """Compose; for a sweep as a whole only Hydra's own settings are applied.

        Hydra would apply every setting that is not swept to the defaults first, and refuse
        ``-m strategy=ffs,majority strategy.k=4`` because the default strategy has no ``k``.
        """
        # With and without the sign of what no file has mentioned yet, as Hydra's own docs write it.
        overrides = [line[1:] if line.startswith("+experiment=") else line for line in overrides]
        parsed = [_override(line) for line in overrides]
        task = [line for line, one in zip(overrides, parsed, strict=True) if not one.is_hydra_override()]
        own = [line for line, one in zip(overrides, parsed, strict=True) if one.is_hydra_override()]
        applied = own + [_OPEN.sub(r"++\g<0>", line) for line in task]
        if run_mode == RunMode.MULTIRUN:
            # An experiment may say what is swept over.
            chosen = [one for one in parsed if one.key_or_group == "experiment"]
            if any(one.is_sweep_override() for one in chosen):
                raise ConfigError("one at a time: each says what is swept over.", "experiment")
            applied = own + [line for line, one in zip(overrides, parsed, strict=True) if one in chosen]
        self._files.whole = run_mode == RunMode.MULTIRUN or any(
            "hydra" in _NO_GROUP.sub("", line) for line in overrides
        )
        self._overrides = [one for one in parsed if not one.is_hydra_override()]
        for one in self._overrides:
            if one.key_or_group in GROUPS and isinstance(one.value(), list):
                raise ConfigError(
                    f"one name is wanted, got {one.value()}; a sweep (-m) over several is written a,b.",
                    one.key_or_group,
                )
        config = super().load_configuration(
            config_name, applied, run_mode, from_shell, validate_sweep_overrides
        )
        with open_dict(config):
            config.hydra.overrides.task = task
            # It may become a folder's name, so it must not hold slashes or grow without end.
            job: Any = OmegaConf.to_container(config.hydra.job, resolve=False)
            name = job["override_dirname"].replace("++", "").replace("/", "-")
            config.hydra.job.override_dirname = name[:120]
        return config

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        """Return the overrides, parsed once, and the files."""
        parsed, repo = [_override(line) for line in overrides], CachingConfigRepository(self.repository)
        self._process_config_searchpath(config_name, parsed, repo)
        return parsed, repo

    def _is_group(self, key: str) -> bool:
        return "/" in key or key in self._groups

    def listed(
        self,
        repo: Any,
        config_name: str | None,
        overrides_list: list[Override],
        prepend_hydra: bool,
        skip_missing: bool,
    ) -> DefaultsList:
        """Return which files make a config, in order; found anew only for other groups or other files."""
        # Another program may compose in another thread, and Hydra's own settings may name folders.
        own = getattr(repo.delegate, "marks", None) is self._files.marks
        if not own or any(one.is_hydra_override() or one.is_sweep_override() for one in overrides_list):
            return create_defaults_list(repo, config_name, overrides_list, prepend_hydra, skip_missing)
        inside = [one for one in overrides_list if not (one.package or self._is_group(one.key_or_group))]
        # What is no group chooses no file.
        words = tuple(one.input_line for one in overrides_list if one not in inside)
        key = self._known, config_name, words, prepend_hydra, skip_missing, self._files.whole
        kept = self._lists.get(key)
        if kept is None or kept.own is not self._files.own() or not all(map(unchanged, kept.read.values())):
            found = create_defaults_list(repo, config_name, overrides_list, prepend_hydra, skip_missing)
            if self._files.only_files():
                if len(self._lists) >= _MOST_MERGED:
                    del self._lists[next(iter(self._lists))]
                marks, read = self._files.marks, self._files.read
                self._lists[key] = FileList(self._files.own(), dict(marks), dict(read), found)
            return found
        self._files.marks.update(kept.marks)
        self._files.read.update(kept.read)
        settings = {one.input_line for one in kept.found.config_overrides}
        return replace(
            kept.found,
            config_overrides=[one for one in overrides_list if one in inside or one.input_line in settings],
        )

    def _compose_config_from_defaults_list(self, defaults: list[Any], repo: Any) -> DictConfig:
        """Merge the files, or take what the same files came to before, and make room for the overrides."""
        marks = [self._files.marks.get(one.config_path) for one in defaults]
        places = [(one.config_path, one.package, one.primary) for one in defaults]
        key = (*zip(places, marks, strict=True),)
        config: DictConfig
        if key in self._merged:
            config, referenced = pickle.loads(self._merged[key])  # noqa: S301 - what was pickled below
        else:
            config, referenced = self._merge_files(defaults, repo)
            if None not in marks:
                if len(self._merged) >= _MOST_MERGED:
                    del self._merged[next(iter(self._merged))]
                self._merged[key] = pickle.dumps((config, referenced))
        self.referenced |= referenced
        self._make_room(config)
        return config

    def _merge_files(self, defaults: list[Any], repo: Any) -> tuple[DictConfig, set[str]]:
        """Merge the files; a part that another file replaces with a different `use` loses its settings."""
        self._so_far, self._replaced, self._refers = {}, False, set()
        config = super()._compose_config_from_defaults_list(defaults, repo)
        if self._replaced:
            remove_gone(config)
        return config, self._refers

    def _load_single_config(self, default: Any, repo: Any) -> Any:
        """Return a file in its place, its content to be changed at will."""
        loaded, raw = self._in_place(default, repo)
        if raw is None:
            return loaded
        if _replaces(self._so_far, raw):
            self._replaced = True
            mark_replaced(OmegaConf.create(self._so_far), loaded.config)
            raw = OmegaConf.to_container(loaded.config, resolve=False)
        _merge(self._so_far, raw)
        if "strategy" in raw:
            self._refers |= references(raw["strategy"], raw)
        return loaded

    def _in_place(self, default: Any, repo: Any) -> tuple[ConfigResult, Any]:
        """Return a file in its place, and as plain data unless it has only settings of Hydra."""
        mark = self._files.marks.get(default.config_path)
        key = (default.config_path, default.package, default.primary, mark)
        if key in self._single:
            return pickle.loads(self._single[key])  # type: ignore[no-any-return] # noqa: S301 - as above
        loaded: ConfigResult = super()._load_single_config(default, repo)
        plain = isinstance(loaded.config, DictConfig) and list(loaded.config) != ["hydra"]
        result = loaded, OmegaConf.to_container(loaded.config, resolve=False) if plain else None
        if mark is not None:
            if len(self._single) >= MOST_PARSED:
                self._single.clear()
            self._single[key] = pickle.dumps(result)
        return result

    @staticmethod
    def _embed_result_config(ret: ConfigResult, package_override: str | None) -> ConfigResult:
        """Return a file's content in its place. It is a copy: what was parsed is kept as it is."""
        embedded = ConfigLoaderImpl._embed_result_config(ret, package_override)  # noqa: SLF001 - of the base
        if embedded is ret:
            embedded = copy(ret)
            embedded.config = deepcopy(ret.config)
        return embedded

    def _make_room(self, config: DictConfig) -> None:
        """Where an override changes a part's `use`, remove the settings that no override gives."""
        given = [one.key_or_group for one in self._overrides]
        for one in self._overrides:
            key, value = one.key_or_group, None if one.is_sweep_override() else one.value()
            new = value.get("use") if isinstance(value, dict) else value if key.endswith(".use") else None
            place = key.removesuffix(".use")
            node = OmegaConf.select(config, place, throw_on_missing=False) if new and "." in place else None
            if isinstance(node, DictConfig) and node.get("use") not in (None, new):
                with open_dict(node):
                    for name in [str(name) for name in node if f"{place}.{name!s}" not in given]:
                        del node[name]

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Compose one job of a sweep; one that cannot be composed must not end the others.

        The job itself composes again, meets the error, and records it in its own folder.
        """
        try:
            return super().load_sweep_config(master_config, sweep_overrides)
        except HydraException:
            own = [line for line in sweep_overrides if _override(line).is_hydra_override()]
            config = super().load_sweep_config(master_config, own)
            with open_dict(config):
                config.hydra.overrides.task = [line for line in sweep_overrides if line not in own]
            return config


@lru_cache(MOST_PARSED)
def _override(line: str) -> Override:
    """Return a parsed override, which nobody may change."""
    (one,) = OverridesParser.create().parse_overrides([line])
    return one


def _replaces(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> bool:
    """Return whether ``new`` names another `use` for any part of ``old``."""
    if "use" in old and "use" in new and old["use"] != new["use"]:
        return True
    both = ((old[key], value) for key, value in new.items() if key in old)
    return any(isinstance(one, dict) and isinstance(two, dict) and _replaces(one, two) for one, two in both)


def _merge(old: dict[Any, Any], new: Mapping[Any, Any]) -> None:
    """Merge a file into what those before it came to, both unresolved, as OmegaConf does."""
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            _merge(old[key], value)
        elif value != "???" or key not in old:
            old[key] = value
