"""Tables of numbers by cell and arm, as arrays and as lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "dumped", "loaded"]

Floats = NDArray[np.float64]


def dumped(**tables: Floats) -> dict[str, list[list[float]]]:
    """Return arrays as lists of rows."""
    return {name: table.tolist() for name, table in tables.items()}


def loaded(state: Mapping[str, Any], name: str, shape: tuple[int, int]) -> Floats:
    """Return a table of a saved state, of ``shape``. Raises ``ValueError`` where it is another, or wrong."""
    table = np.array(state[name], np.float64)
    if not table.size and 0 in shape:
        return np.zeros(shape)
    if table.shape != shape or not np.isfinite(table).all():
        raise ValueError(f"{name} has {shape[0]} rows of {shape[1]} finite numbers")
    return table
