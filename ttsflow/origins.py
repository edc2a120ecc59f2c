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

__all__ = ["REFERENCE", "Resolved", "naming", "origins"]

#: ``strategy.n`` or ``strategy[n]``, also inside a resolver's call; ``${.n}``, ``${..n}`` and so on.
REFERENCE = re.compile(r"(?:\$\{(?=\.)|\b(?=strategy[.\[]))(strategy|\.+)[.\[]?(\w+)")


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
        found = REFERENCE.search(node)
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
