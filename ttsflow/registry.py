"""Which parts exist, under which names, and who provides them.

Classes are named by "module:Class" and imported when they are asked for, so that a part whose
dependencies are missing costs nothing and breaks nothing until it is used.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, get_args

from ttsflow.describe import describe_class, describe_source, describe_yaml
from ttsflow.errors import ConfigError, PluginError, TtsflowError, UnknownPart, suggest

__all__ = ["KINDS", "MOUNT", "Entry", "Kind", "Registry", "config_folder", "config_options"]

Kind = Literal[
    "stage",
    "watch",
    "until",
    "predictor",
    "engine",
    "paths",
    "verifier",
    "task",
    "load",
    "cost",
    "meter",
    "logger",
    "controller",
    "strategy",
]
KINDS: tuple[str, ...] = get_args(Kind)

#: The `use:` that stands for a whole strategy by name; no stage may be called so.
MOUNT = "strategy"


def config_folder(package: str) -> Traversable:
    """Return the folder of a config package. Raises ``PluginError`` when it cannot be found."""
    try:
        return _plain_folder(package) or files(package)
    except Exception as error:
        # `conf/` stands beside the package in a source tree and becomes `ttsflow.conf` on install.
        beside = Path(__file__).parent.parent / "conf"
        if package == "ttsflow.conf" and beside.is_dir():
            return beside
        raise PluginError(f"the config package {package!r} cannot be found: {error}") from error


def _plain_folder(package: str) -> Path | None:
    """Return the folder of a package in one that is imported; importing it as well would take longest."""
    above, _, name = package.rpartition(".")
    places = list(getattr(sys.modules.get(above), "__path__", ()))
    folder = Path(places[0], name) if len(places) == 1 else None
    return folder if folder is not None and folder.is_dir() else None


def config_options(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield (``group/option``, file) for every config file below ``folder``, in sorted order."""
    for name, is_folder in sorted(_items(folder)):
        if is_folder:
            if not name.startswith((".", "__")):
                yield from config_options(folder.joinpath(name), f"{prefix}{name}/")
        elif name.endswith(".yaml"):
            yield prefix + name.removesuffix(".yaml"), folder.joinpath(name)


def _items(folder: Traversable) -> Iterator[tuple[str, bool]]:
    """Yield name and whether it is a folder; of a plain folder the system tells both at once."""
    if isinstance(folder, Path):
        with os.scandir(folder) as found:
            yield from ((item.name, item.is_dir()) for item in found)
    else:
        yield from ((item.name, item.is_dir()) for item in folder.iterdir())


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered part: ``target`` is "module:Class", a class, or "package:group/file.yaml"."""

    kind: str
    name: str
    target: str | type
    provider: str

    @property
    def is_config(self) -> bool:
        """Whether this is a config file and not a class."""
        return isinstance(self.target, str) and self.target.endswith(".yaml")

    @property
    def notes(self) -> Mapping[str, str]:
        """What it says about itself: ``what``, and for most strategies ``source`` and ``cost``."""
        if isinstance(self.target, type):
            return describe_class(self.target)
        if not self.is_config:
            return describe_source(self.target)
        package, _, file = self.target.partition(":")
        return describe_yaml(config_folder(package).joinpath(*file.split("/")).read_text("utf-8"))

    @property
    def doc(self) -> str:
        """The first line of its documentation."""
        return self.notes.get("what", "")

    def load(self) -> type[Any]:
        """Import and return the class. Raises ``PluginError`` when that fails."""
        if isinstance(self.target, type):
            return self.target
        module, _, name = self.target.partition(":")
        try:
            loaded = getattr(importlib.import_module(module), name)
        except TtsflowError:
            raise
        except Exception as error:
            raise PluginError(
                f"{self.kind} '{self.name}' of {self.provider} cannot be loaded from {self.target}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(loaded, type):
            raise PluginError(
                f"{self.kind} '{self.name}' of {self.provider}: {self.target} is not a class but "
                f"{type(loaded).__name__}."
            )
        return loaded


class Registry:
    """Parts by kind and name. Nothing depends on the order in which they are added."""

    def __init__(self) -> None:
        self._offers: dict[tuple[str, str], list[Entry]] = {}
        self._files: dict[str, list[Entry]] = {}
        self._loaded: dict[tuple[str, str], type[Any]] = {}
        self._refused: dict[tuple[str, str], PluginError] = {}
        self.configs: dict[str, str] = {}
        """Provider of each config package."""
        self.broken: dict[str, PluginError] = {}
        """Why a provider could not be loaded."""

    def add(self, kind: str, name: str, target: str | type, provider: str) -> None:
        """Register a part.

        Raises ``PluginError`` for an unknown kind, a malformed target, or a name that is taken; a name
        that two providers offer belongs to neither of them, whoever came first.
        """
        if kind not in KINDS:
            raise PluginError(
                f"{provider} registers '{name}' as {kind!r}, which is no kind of part. {suggest(kind, KINDS)}"
            )
        if kind == "stage" and name == MOUNT:
            raise PluginError(f"{provider} registers a stage '{MOUNT}'; that name mounts whole strategies.")
        if isinstance(target, str) and not all(target.partition(":")):
            raise PluginError(
                f"{provider} registers {kind} '{name}' as {target!r}; a target is 'module:Class'."
            )
        offers = self._offers.setdefault((kind, name), [])
        offers.append(Entry(kind, name, target, provider))
        if len(offers) > 1:
            raise self._clash(kind, name)

    def add_configs(
        self, package: str, provider: str, options: Iterable[tuple[str, Traversable]] | None = None
    ) -> None:
        """Register a package of config groups; files of its ``strategy`` group become strategies.

        ``options`` are its files as ``config_options`` yields them, where they are known already. Raises
        ``PluginError`` when the package cannot be found or offers a file that another one has.
        """
        options = list(config_options(config_folder(package)) if options is None else options)
        self.configs[package] = provider
        for option, _ in options:
            group, _, name = option.partition("/")
            entry = Entry(group, name, f"{package}:{option}.yaml", provider)
            self._files.setdefault(option, []).append(entry)
            if group == "strategy" and name and not name.startswith("_"):
                self._offers.setdefault(("strategy", name), []).append(entry)
        if any(len(self._files[option]) > 1 for option, _ in options):
            self.check_options()

    @property
    def options(self) -> frozenset[str]:
        """The config files of all providers, as ``group/option``."""
        return frozenset(self._files)

    def choices(self, kind: str | None = None) -> list[Entry]:
        """Return all that may be chosen by name: usable parts, and config files that are no part's own.

        A config file belongs to the kind that its group is named after; ``sampling`` and ``budget`` are
        groups without parts.
        """
        parts = self.entries(kind)
        taken = {(entry.kind, entry.name) for entry in parts}
        files = [
            entry
            for option, (entry, *_) in sorted(self._files.items())
            if "/" in option and kind in (None, entry.kind) and (entry.kind, entry.name) not in taken
        ]
        ranks = {name: rank for rank, name in enumerate(KINDS)}
        both = parts + files
        return sorted(both, key=lambda entry: (ranks.get(entry.kind, len(ranks)), entry.kind, entry.name))

    def refuse(self, kind: str, name: str, error: PluginError) -> None:
        """Remember that ``name`` belongs to something broken: asking for it raises ``error``."""
        self._refused[kind, name] = error

    def check_options(self) -> None:
        """Raise ``PluginError`` when two providers offer the same config file."""
        for option, entries in sorted(self._files.items()):
            if len(entries) > 1:
                providers = sorted(entry.provider for entry in entries)
                raise PluginError(
                    f"the config file '{option}.yaml' is offered by {' and by '.join(providers)}; "
                    "uninstall one, or name it in TTSFLOW_BLOCK."
                )

    def find(self, kind: str, name: str) -> Entry:
        """Return the entry of a part.

        Raises ``UnknownPart`` when nobody offers it, and ``PluginError`` when two do or when the one
        that does is broken.
        """
        offers = self._offers.get((kind, name), [])
        if len(offers) == 1:
            return offers[0]
        if offers:
            raise self._clash(kind, name)
        if (kind, name) in self._refused:
            raise self._refused[kind, name]
        if name in self.broken:
            raise self.broken[name]
        hint = suggest(name, {entry.name for entry in self.entries(kind)})
        raise UnknownPart(f"there is no {kind} '{name}'. {hint}{self.not_loaded}")

    @property
    def not_loaded(self) -> str:
        """What to add to a message about an unknown name: it may belong to a broken plugin."""
        errors = sorted({str(error) for error in self.broken.values()})
        return f" Not loaded: {'; '.join(errors)}" if errors else ""

    def get(self, kind: str, name: str) -> type[Any]:
        """Return the class of a part; errors as in ``find`` and ``Entry.load``."""
        entry = self.find(kind, name)
        if entry.is_config:
            raise ConfigError(
                f"{kind} '{name}' is a config file, not a class; compose it with ttsflow.config.strategy()."
            )
        if (kind, name) not in self._loaded:
            self._loaded[kind, name] = entry.load()
        return self._loaded[kind, name]

    def entries(self, kind: str | None = None) -> list[Entry]:
        """Return all usable parts, of one kind or of all, sorted by kind and name."""
        single = [offers[0] for offers in self._offers.values() if len(offers) == 1]
        chosen = [entry for entry in single if kind in (None, entry.kind)]
        return sorted(chosen, key=lambda entry: (KINDS.index(entry.kind), entry.name))

    def clashes(self) -> list[PluginError]:
        """Return one error for every name that several providers offer, but for files (``check_options``)."""
        parts = [(key, offers) for key, offers in sorted(self._offers.items()) if len(offers) > 1]
        return [self._clash(*key) for key, offers in parts if not all(offer.is_config for offer in offers)]

    def entry_of(self, cls: type, kind: str | None = None) -> Entry | None:
        """Return the entry that ``cls`` is registered as, None when there is none."""
        for key, loaded in sorted(self._loaded.items()):
            if loaded is cls and kind in (None, key[0]):
                return self.find(*key)
        top = cls.__module__.partition(".")[0]
        for entry in self.entries(kind):
            if entry.target is cls:
                return entry
            # Only what comes from the same package is imported to look whether it is this class.
            near = isinstance(entry.target, str) and entry.target.startswith((f"{top}.", f"{top}:"))
            if near and not entry.is_config and str(entry.target).endswith(f":{cls.__qualname__}"):
                loaded = self.get(entry.kind, entry.name)
                if loaded is cls:
                    return entry
        return None

    def _clash(self, kind: str, name: str) -> PluginError:
        providers = sorted(entry.provider for entry in self._offers[kind, name])
        return PluginError(
            f"{kind} '{name}' is registered by {' and by '.join(providers)}; "
            "uninstall one, or name it in TTSFLOW_BLOCK."
        )
