"""The config files of a search path, read for Hydra, and what is kept for as long as they stay the same."""

from __future__ import annotations

import pickle
import re
from copy import copy
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple, Self

from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import GroupDefault
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource

from ttsflow.composing.translate import EMPTY
from ttsflow.registry import config_folder

__all__ = ["MOST_PARSED", "FileList", "Kept", "Repository", "unchanged"]

#: How many parsed files and overrides are kept; a process reads a few dozen, unless it writes
#: new ones all the time.
MOST_PARSED = 500

#: What may give something else every time, such as ${oc.env:HOME}.
_RESOLVER = re.compile(rb"\$\{(?!oc\.select:)[^${}]*:")


class Repository(ConfigRepository):
    """Reads config files; parses one again only when its content has changed.

    Unless ``whole``, Hydra's own config is left without its groups (logging, help, launcher, sweeper),
    which take most of the time of composing and which only a sweep reads.
    """

    _parsed: dict[tuple[str, str, str, bytes], ConfigResult | bytes | None] = {}  # noqa: RUF012 - of the process
    _hydra: dict[bool, tuple[object, ConfigResult | None, object]] = {}  # noqa: RUF012 - of the process

    def __init__(self, search_path: ConfigSearchPath) -> None:
        super().__init__(search_path)
        self.whole = True
        self.marks: dict[str, object] = {}
        """Of each file that was read: something that is equal only for equal content, None for no file."""
        self.read: dict[str, tuple[Traversable, bytes]] = {}
        """Of each file that was read: where it is, and its content."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Hydra copies it for every composition; a deep copy would take its whole store along."""
        return copy(self)

    def _find_object_source(self, config_path: str, object_type: ObjectType | None) -> ConfigSource | None:
        """Return where a file is. The package of Hydra's own files is asked only for those, below hydra/."""
        every = self.sources
        try:
            if not config_path.startswith("hydra"):
                self.sources = [source for source in every if source.path != "hydra.conf"]
            return super()._find_object_source(config_path, object_type)
        finally:
            self.sources = every

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Return a file as Hydra does, None when there is none. `Loader` copies its content."""
        if not self.whole and config_path.startswith("hydra/") and config_path.endswith("/None"):
            return None  # a group that `_own` left out
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or source.scheme() not in ("file", "pkg"):
            self.marks[config_path] = EMPTY if config_path == EMPTY else None
            return super().load_config(config_path) if config_path != "hydra/config" else self._own()
        folder = Path(source.path) if source.scheme() == "file" else config_folder(source.path)
        file = folder.joinpath(*f"{config_path.removesuffix('.yaml')}.yaml".split("/"))
        content = file.read_bytes()
        key = self.marks[config_path] = (source.provider, source.path, config_path, content)
        self.read[config_path] = file, content
        if key not in self._parsed:
            if len(self._parsed) >= MOST_PARSED:
                self._parsed.clear()
            parsed = super().load_config(config_path)
            # Hydra may take the key `hydra` out of the primary config; the loader copies the others.
            self._parsed[key] = parsed if "/" in config_path else pickle.dumps(parsed)
        kept = self._parsed[key]
        return pickle.loads(kept) if isinstance(kept, bytes) else copy(kept)  # noqa: S301 - pickled above

    def own(self) -> object:
        """Return what is the same only while Hydra's own config is the same."""
        return ConfigStore.instance().repo["hydra"]["config.yaml"]

    def _own(self) -> ConfigResult | None:
        """Return Hydra's own config, made again only when another one has been stored."""
        stored = self.own()
        if self.whole not in self._hydra or self._hydra[self.whole][0] is not stored:
            result = super().load_config("hydra/config")
            for default in result.defaults_list or () if result and not self.whole else ():
                if isinstance(default, GroupDefault):
                    default.value = None
            self._hydra[self.whole] = stored, result, object()
        _, result, self.marks["hydra/config"] = self._hydra[self.whole]
        return copy(result)

    def only_files(self) -> bool:
        """Whether what was read are files, and nothing in them may say something else every time."""
        resolved = any(
            _RESOLVER.search(content) for path, (_, content) in self.read.items() if path != "config"
        )
        return None not in self.marks.values() and not resolved


class Kept(NamedTuple):
    """A whole composition, pickled, and what it was made from: Hydra's own config, and files."""

    own: object
    files: tuple[tuple[Traversable, bytes], ...]
    config: bytes


class FileList(NamedTuple):
    """Which files make a config, and what that was found in; nobody changes it."""

    own: object
    marks: dict[str, object]
    read: dict[str, tuple[Traversable, bytes]]
    found: DefaultsList


def unchanged(read: tuple[Traversable, bytes]) -> bool:
    """Whether a file still has the content that was read."""
    file, content = read
    try:
        return file.read_bytes() == content
    except OSError:
        return False
