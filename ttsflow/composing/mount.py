"""Variables of a strategy file, and strategies that stand inside other ones.

A strategy file may hold keys beside the fields of its root part: variables, used through
``${strategy.n}``. ``{use: strategy, name: majority, n: 4}`` stands for a whole strategy wherever a stage
may stand; what that strategy's file refers to is its own root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ttsflow.build import field_names, part_class
from ttsflow.composing.order import AFTER
from ttsflow.composing.origins import REFERENCE
from ttsflow.errors import ConfigError, UnknownPart, suggest
from ttsflow.parts import join
from ttsflow.registry import MOUNT, Registry
from ttsflow.values import show

__all__ = ["Alone", "check_removed", "expand", "references", "split"]

#: Composes one strategy by itself: (name, overrides, path, names it stands in) -> mapping to build.
Alone = Callable[[str, Mapping[str, Any], str, tuple[str, ...]], dict[str, Any]]


#: A reference that leaves out where a variable stands.
_BARE = "${{{}}}"


def references(strategy: Any, config: Any = None) -> set[str]:
    """Return the top-level keys of ``strategy`` that interpolations mention, in it or in ``config``.

    Both are unresolved plain data.
    """
    return {
        match[2]
        for node, depth in ((strategy, 0), (config, -1000))
        for text, level in _texts(node, depth)
        for match in REFERENCE.finditer(text)
        # One dot is the mapping that holds the value, each further one the mapping around it.
        if match[1] == "strategy" or len(match[1]) == level
    }


def _texts(node: Any, depth: int) -> Iterator[tuple[str, int]]:
    """Yield every text with an interpolation, and how many mappings it stands in."""
    if isinstance(node, Mapping):
        for item in node.values():
            yield from _texts(item, depth + 1)
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item, depth + 1)
    elif isinstance(node, str) and "${" in node:
        yield node, depth


def split(
    strategy: Any, referenced: set[str], registry: Registry, path: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a strategy's own settings and its variables.

    Raises ``ConfigError`` for a key that is neither a field of the root part nor referred to.
    """
    if not isinstance(strategy, Mapping):
        raise ConfigError(f"a strategy is a mapping with the key `use`, got {show(strategy)}.", path)
    if strategy.get("use") == MOUNT:
        return dict(strategy), {}
    fields = ["use", *field_names(part_class("stage", strategy, path, registry))]
    known = [*fields, *(key for key in strategy if key in referenced)]
    # A reference to what does not exist is the likelier mistake; resolving says which and where.
    dangling = referenced - {*fields, *strategy}
    texts = [text for text, _ in _texts(strategy, 0)]
    for key in strategy:
        if key not in known and any(_BARE.format(key) in text for text in texts):
            raise ConfigError(
                f"nothing refers to it: '${{{key}}}' asks for a key beside `strategy`. This variable "
                f"is written ${{strategy.{key}}}.",
                join(path, key),
            )
    for key in strategy:
        if key not in known and not dangling:
            raise ConfigError(
                f"'{key}' is no setting of '{strategy['use']}', and nothing in the strategy refers to it. "
                f"{suggest(key, set(known))}",
                join(path, key),
            )
    own = {key: value for key, value in strategy.items() if key in fields}
    return own, {key: value for key, value in strategy.items() if key not in fields}


def check_removed(strategy: Any, overrides: Mapping[str, Any], path: str) -> None:
    """Raise ``ConfigError`` when ``overrides`` remove a stage, with null, that ``strategy`` has not."""
    known = strategy if isinstance(strategy, Mapping) else {}
    for key, value in overrides.items():
        here = join(path, str(key))
        if value is None and path.rpartition(".")[2] == "stages" and key not in known:
            raise ConfigError(f"there is no stage '{key}' to remove. {suggest(str(key), known)}", here)
        if isinstance(value, Mapping):
            check_removed(known.get(key), value, here)


def expand(node: Any, alone: Alone, registry: Registry, path: str, inside: tuple[str, ...] = ()) -> Any:
    """Return ``node`` with every mounted strategy replaced by its own resolved mapping.

    ``inside`` are the names of the strategies around it. Raises ``ConfigError`` for a strategy that
    mounts itself, and whatever composing the mounted one raises.
    """
    if isinstance(node, list):
        return [expand(item, alone, registry, f"{path}.{i}", inside) for i, item in enumerate(node)]
    if not isinstance(node, Mapping):
        return node
    if node.get("use") != MOUNT or _is_class(node.get("name"), registry):
        return {
            key: expand(item, alone, registry, join(path, str(key)), inside) for key, item in node.items()
        }
    name = node.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"the name of a strategy is wanted, got {show(name)}.", join(path, "name"))
    if name in inside:
        circle = " -> ".join((*inside, name))
        raise ConfigError(f"the strategy '{name}' stands inside itself: {circle}.", join(path, "name"))
    overrides = {key: value for key, value in node.items() if key not in ("use", "name", AFTER)}
    mounted = alone(name, overrides, path, (*inside, name))
    return mounted | ({AFTER: node[AFTER]} if AFTER in node else {})


def _is_class(name: Any, registry: Registry) -> bool:
    try:
        return isinstance(name, str) and not registry.find(MOUNT, name).is_config
    except UnknownPart:
        return False
