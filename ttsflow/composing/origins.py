"""Which variable a value of a strategy comes from, so that an error names what was written.

``strategy.depth=0`` is refused at ``strategy.stages.search.at_most``, of the loop that would have 0 rounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ttsflow.errors import ConfigError
from ttsflow.parts import join

__all__ = ["REFERENCE", "Resolved", "naming", "origins", "with_variables"]

#: ``strategy.n`` or ``strategy[n]``, also inside a resolver's call; ``${.n}``, ``${..n}`` and so on.
REFERENCE = re.compile(r"(?:\$\{(?=\.)|\b(?=strategy[.\[]))(strategy|\.+)[.\[]?(\w+)")

#: A text that is one reference and nothing else, so that the value is that of the variable.
_ALONE = re.compile(r"\$\{[\w.\[\]]+\}")


class Resolved(dict[str, Any]):
    """A resolved mapping; ``origins`` has the path of the variable by that of the value it gave."""

    def __init__(self, mapping: Mapping[str, Any], origins: Mapping[str, str]) -> None:
        super().__init__(mapping)
        self.origins = origins


def origins(strategy: Any, path: str) -> dict[str, str]:
    """Return the variable of every value of ``strategy``, unresolved plain data that stands at ``path``."""
    return dict(_origins(strategy, path, path, 0))


def _origins(node: Any, path: str, root: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping | list):
        for key, item in node.items() if isinstance(node, Mapping) else enumerate(node):
            yield from _origins(item, join(path, str(key)), root, depth + 1)
    elif isinstance(node, str) and "${" in node:
        found = REFERENCE.search(node) if _ALONE.fullmatch(node) else None
        # One dot is the mapping that holds the value, each further one the mapping around it.
        if found is not None and (found[1] == "strategy" or len(found[1]) == depth):
            yield path, join(root, found[2])


@contextmanager
def naming(*mappings: Any) -> Iterator[None]:
    """Add to an error about a value which variable it comes from, as far as one of ``mappings`` knows."""
    try:
        yield
    except ConfigError as error:
        for mapping in mappings:
            origin = getattr(mapping, "origins", {}).get(error.path)
            if origin is not None:
                raise type(error)(f"{error.message} `{origin}` sets it.", error.path) from error
        raise


def with_variables(told: Mapping[str, Any], variables: Mapping[str, Any], known: Mapping[str, str]) -> Any:
    """Return a strategy told in full, with its own variables in it again: ``known`` says where they stood.

    Their places hold references to them, so that one line changes all of them.
    """
    used: dict[str, Any] = {}

    def put(node: Any, path: str) -> Any:
        if isinstance(node, Mapping):
            return {key: put(item, join(path, str(key))) for key, item in node.items()}
        if isinstance(node, list):
            return [put(item, join(path, str(number))) for number, item in enumerate(node)]
        origin = known.get(path, "")
        name = origin.removeprefix("strategy.")
        # A variable of a mounted strategy stands further down, and is gone with its file.
        if not origin or name not in variables or variables[name] != node:
            return node
        used[name] = variables[name]
        return f"${{{origin}}}"

    referring = put(told, "strategy")
    own = {name: variables[name] for name in variables if name in used}
    return {"use": referring.pop("use"), **own, **referring}
