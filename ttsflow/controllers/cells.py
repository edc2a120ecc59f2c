"""Features of a question, cut into cells so that questions that are alike share what is learnt."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from ttsflow.errors import ConfigError, suggest

__all__ = ["EDGES", "Cell", "cell_of", "checked_edges", "numbered"]

#: The name of a cell: (feature, bucket) pairs, sorted by feature.
Cell = tuple[tuple[str, str], ...]

#: Where buckets begin, by feature: tokens of the prompt, the share of a probe's answers that are alike, and
#: the share of the budget that is left. A value on an edge is in the upper bucket.
EDGES: Mapping[str, tuple[float, ...]] = {
    "prompt_tokens": (64.0, 256.0, 1024.0, 4096.0),
    "agreement": (0.5, 0.75, 1.0),
    "budget_left": (0.1, 0.5),
}


def checked_edges(edges: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Return edges as tuples of floats. Raises ``ConfigError`` where they do not rise or are not finite."""
    found = {}
    for name, places in edges.items():
        values = tuple(float(place) for place in places)
        if not all(map(math.isfinite, values)) or list(values) != sorted(set(values)):
            raise ConfigError(f"the edges of {name!r} must be finite and rise, got {values}.", "edges")
        found[name] = values
    return found


def numbered(cells: Sequence[Cell]) -> dict[Cell, int]:
    """Return the place of each cell. Raises ``ValueError`` where one stands there twice."""
    found = {cell: place for place, cell in enumerate(cells)}
    if len(found) < len(cells):
        raise ValueError("a cell is named twice")
    return found


def cell_of(features: Mapping[str, float | str], edges: Mapping[str, Sequence[float]]) -> Cell:
    """Return the cell of a question.

    A text is a bucket of its own; a number goes by the ``edges`` of its feature, and one that is not a
    number (NaN) into a bucket "unknown". Raises ``ConfigError`` for a number without edges.
    """
    return tuple((name, _bucket(name, features[name], edges)) for name in sorted(features))


def _bucket(name: str, value: float | str, edges: Mapping[str, Sequence[float]]) -> str:
    if isinstance(value, str):
        return f"={value}"
    if name not in edges:
        raise ConfigError(
            f"the feature {name!r} is a number and has no edges to cut it at. {suggest(name, edges)}", "edges"
        )
    return "unknown" if math.isnan(value) else str(bisect_right(edges[name], value))
