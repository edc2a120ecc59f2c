"""The one place where step scores become one number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

__all__ = ["Reduce", "reduce_scores"]

Reduce = Literal["last", "min", "mean", "prod", "geometric"]


def reduce_scores(scores: Sequence[float | None], how: Reduce) -> float | None:
    """Return one score for a trajectory from its step scores.

    A missing score is left out; without any score the result is missing too. ``geometric`` is the
    geometric mean, which unlike ``prod`` does not punish length; both need scores >= 0.
    """
    known = [score for score in scores if score is not None]
    if not known:
        return None
    if how == "last":
        return known[-1]
    if how == "min":
        return min(known)
    if how == "mean":
        return math.fsum(known) / len(known)
    if min(known) < 0:
        msg = f"`reduce: {how}` needs step scores >= 0, got {min(known):.4g}."
        raise ValueError(msg)
    if how == "prod":
        return math.prod(known)
    # By logarithms: the product of a long chain would underflow to 0.
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if min(known) > 0 else 0.0
