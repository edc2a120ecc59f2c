"""Finds installed plugins and collects what they register.

A plugin is a distribution with an entry point in the group ``ttsflow`` that names a module with a
``ttsflow_register`` hook. Each is loaded on its own: one that is broken is reported, and raised only
when something of it is asked for. ``TTSFLOW_BLOCK=name,name`` leaves plugins out, ``TTSFLOW_TRACE=1`` says
on the error output what each is asked and what it offers. Nothing in the working directory is ever loaded.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.resources.abc import Traversable
from inspect import isroutine
from typing import NamedTuple

import pluggy

from ttsflow import hookspecs
from ttsflow.errors import PluginError, suggest
from ttsflow.registry import Registry, config_folder, config_options

__all__ = [
    "BLOCK",
    "GROUP",
    "TRACE",
    "VERSION",
    "Plugin",
    "Registration",
    "load",
    "plugins",
    "problems",
    "reload",
]

GROUP = "ttsflow"
BLOCK = "TTSFLOW_BLOCK"
TRACE = "TTSFLOW_TRACE"
#: The attribute by which a plugin's module says for which version of the plugin API it was written.
VERSION = "ttsflow_api"
OWN = EntryPoint(name="ttsflow", value="ttsflow.builtin", group=GROUP)

_HEAD = re.compile(r"^(Name|Version): *(\S+) *$", re.MULTILINE)

#: The config files of each package.
Options = Mapping[str, list[tuple[str, Traversable]]]


class Registration:
    """What one plugin offers; handed to its hook. Everything is checked when it is complete."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, str, str | type]] = []
        self.packages: list[str] = []

    def add(self, kind: str, name: str, target: str | type) -> None:
        """Offer a part: ``target`` is "module:Class", imported when first used, or a class."""
        self.parts.append((kind, name, target))

    def add_configs(self, package: str) -> None:
        """Offer the config groups of an importable package, such as "my_package.conf"."""
        self.packages.append(package)


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point that was found, and what came of it."""

    name: str
    provider: str
    version: str
    blocked: bool = False
    error: PluginError | None = None
    parts: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()


class _Found(NamedTuple):
    """An entry point, and the name and version of its distribution."""

    entry: EntryPoint
    provider: str
    version: str


def _provided(entry: EntryPoint) -> _Found:
    """Return an entry point with its distribution; one made by hand has none, and its own name counts."""
    if entry.dist is None:
        return _Found(entry, entry.name, "")
    # Parsing all of it, a whole README with it, would take longest of all that is done for a plugin.
    head = entry.dist.read_text("METADATA") or entry.dist.read_text("PKG-INFO") or ""
    told = dict(reversed(_HEAD.findall(head)))
    return _Found(entry, told.get("Name") or entry.name, told.get("Version", ""))


class _Hooks:
    """What a module marks as a hook, and nothing else: looking at every name of it takes pluggy long."""

    def __init__(self, module: object) -> None:
        for name in dir(module):
            value = getattr(module, name, None)
            if isroutine(value) and hasattr(value, f"{hookspecs.PROJECT}_impl"):
                setattr(self, name, value)

    def __dir__(self) -> Iterable[str]:
        return vars(self)


def _register(manager: pluggy.PluginManager, entry: EntryPoint, offered: Registration) -> None:
    """Load one plugin and run its hook, alone with it. Raises whatever the plugin raises."""
    module = entry.load()
    _check_version(getattr(module, VERSION, hookspecs.API_VERSION))
    plugin = _Hooks(module)
    try:
        manager.register(plugin, name=entry.name)
        _call(manager, plugin, entry, offered)
    finally:
        # Where its hook was refused while it was registered it may be there, or not.
        if manager.is_registered(plugin):
            manager.unregister(plugin)


def _call(manager: pluggy.PluginManager, plugin: object, entry: EntryPoint, offered: Registration) -> None:
    """Run the hook of the one plugin that is registered."""
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        found = re.search(r"unknown hook '(\w+)'", str(error))
        hook = found[1] if found else str(error)
        raise PluginError(f"there is no hook '{hook}'. {suggest(hook, ['ttsflow_register'])}") from error
    if not manager.get_hookcallers(plugin):
        raise PluginError(
            f"{entry.value} has no function `ttsflow_register` marked with `@ttsflow.hookspecs.hookimpl`."
        )
    manager.hook.ttsflow_register(registry=offered)


def _check_version(wanted: object) -> None:
    """Refuse a plugin that was written for another version of the plugin API."""
    ours = hookspecs.API_VERSION
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise PluginError(f"its `{VERSION}` is {wanted!r}; it is the number of a plugin API, such as {ours}.")
    if wanted == ours:
        return
    other = "a newer ttsflow" if wanted > ours else "a newer one of it"
    raise PluginError(
        f"it was written for plugin API {wanted}, and this ttsflow has plugin API {ours}. Install {other}."
    )


def _explain(error: BaseException, found: _Found) -> PluginError:
    entry, provider, _ = found
    cause = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
    cause = cause if cause.endswith(".") else f"{cause}."
    return PluginError(
        f"plugin '{entry.name}' of {provider} ({entry.value}) is broken: {cause} "
        f"Mend or uninstall {provider}; {BLOCK}={entry.name} leaves it out."
    )


def _trace(found: _Found, *lines: str) -> None:
    """Say on the error output what came of one plugin, where ``TTSFLOW_TRACE`` asks for it."""
    if os.environ.get(TRACE, "") not in {"", "0"}:
        entry, provider, version = found
        head = f"plugin '{entry.name}', {f'{provider} {version}'.strip()} ({entry.value})"
        sys.stderr.write("".join(f"{TRACE}: {line}\n" for line in (head, *(f"  {line}" for line in lines))))


def _calls(offered: Registration) -> list[str]:
    """Return what a plugin has asked of the registry, as it is written."""
    calls = [f"registry.add({kind!r}, {name!r}, {target!r})" for kind, name, target in offered.parts]
    return calls + [f"registry.add_configs({package!r})" for package in offered.packages]


def _take(registry: Registry, manager: pluggy.PluginManager, found: _Found) -> Plugin:
    """Add all that one plugin offers to the registry, or nothing of it."""
    entry, provider, version = found
    offered = Registration()
    error: PluginError | None = None
    start = time.perf_counter()
    try:
        _register(manager, entry, offered)
        options = {package: list(config_options(config_folder(package))) for package in offered.packages}
        # A dry run finds bad kinds and targets, and what is offered twice, before any of it counts.
        _add(Registry(), offered, options, provider)
    except (Exception, SystemExit) as caught:  # noqa: BLE001 - a plugin may fail in any way
        error = _explain(caught, found)
        registry.broken[provider] = registry.broken[entry.name] = error
        for kind, name, _ in offered.parts:
            registry.refuse(kind, name, error)
    else:
        _add(registry, offered, options, provider, tolerant=True)
    took = f"ttsflow_register(registry) took {1000 * (time.perf_counter() - start):.1f} ms"
    _trace(found, took, *_calls(offered), *([f"failed: {error}"] if error else []))
    parts = tuple(sorted((kind, name) for kind, name, _ in offered.parts))
    return Plugin(entry.name, provider, version, False, error, parts, tuple(offered.packages))


def _add(
    registry: Registry, offered: Registration, options: Options, provider: str, *, tolerant: bool = False
) -> None:
    """Add parts and packages. ``tolerant``: a clash is kept by the registry, which raises it on use."""
    steps = [partial(registry.add, kind, name, target, provider) for kind, name, target in offered.parts]
    steps += [
        partial(registry.add_configs, package, provider, options[package]) for package in offered.packages
    ]
    for step in steps:
        try:
            step()
        except PluginError:
            if not tolerant:
                raise


def _blocked() -> set[str]:
    return {name.strip() for name in os.environ.get(BLOCK, "").split(",") if name.strip()}


def _discover(found: Iterable[EntryPoint], block: set[str]) -> tuple[Registry, tuple[Plugin, ...]]:
    entries = sorted(
        map(_provided, found), key=lambda one: (one.provider, one.version, one.entry.name, one.entry.value)
    )
    if not any(one.entry.value == OWN.value for one in entries):
        # A source tree that is not installed has no entry point, but it has its own parts.
        entries.insert(0, _provided(OWN))
    registry, manager = Registry(), pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    plugins = []
    for one in entries:
        if one.entry.value != OWN.value and {one.entry.name, one.provider} & block:
            _trace(one, f"left out: {BLOCK} names it")
            plugins.append(Plugin(one.entry.name, one.provider, one.version, blocked=True))
        else:
            plugins.append(_take(registry, manager, one))
    return registry, tuple(plugins)


@cache
def _loaded() -> tuple[Registry, tuple[Plugin, ...]]:
    return _discover(entry_points(group=GROUP), _blocked())


def load() -> Registry:
    """Return the registry of everything installed; found once per process."""
    return _loaded()[0]


def plugins() -> tuple[Plugin, ...]:
    """Return all plugins that are installed, broken and blocked ones included."""
    return _loaded()[1]


def reload() -> Registry:
    """Look again at what is installed and blocked, and return the new registry."""
    _loaded.cache_clear()
    return load()


def problems() -> list[str]:
    """Return what is wrong with the installed plugins, one sentence each."""
    registry, found = _loaded()
    known = {name for plugin in found for name in (plugin.name, plugin.provider)} - {OWN.name}
    lines = [str(plugin.error) for plugin in found if plugin.error]
    lines += [str(error) for error in registry.clashes()]
    try:
        registry.check_options()
    except PluginError as error:
        lines.append(str(error))
    lines += [
        f"{BLOCK} names '{name}', which {'cannot be left out' if name == OWN.name else 'is not installed'}. "
        f"{suggest(name, known)}"
        for name in sorted(_blocked() - known)
    ]
    return lines
