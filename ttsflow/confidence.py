"""How sure a model was of its own tokens.

Log-probabilities come as one mapping per token, token id to log-probability in nats, of the most
likely tokens. The confidence of a token is minus the mean of the ``top`` highest of them (arXiv
2508.15260, section 2): the more the first one stands out, the smaller the others and the higher it is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Literal

__all__ = ["Measure", "group_means", "token_confidence", "trace_confidence"]

#: ``mean`` over all tokens, ``lowest_group`` the weakest window, ``bottom_groups`` the mean of the weakest
#: tenth of all windows, ``tail`` the mean over the last tokens, ``self_certainty`` the mean distance of
#: the distributions from the uniform one (arXiv 2502.18581).
Measure = Literal["mean", "lowest_group", "bottom_groups", "tail", "self_certainty"]


def token_confidence(logprobs: Mapping[int, float], top: int) -> float:
    """Return minus the mean of the ``top`` highest log-probabilities.

    An engine may give one entry more, the sampled token when it is not among them: that is left out.
    Probabilities of 0 (minus infinity) are left out as well.
    """
    known = [value for value in heapq.nlargest(top, logprobs.values()) if math.isfinite(value)]
    return -math.fsum(known) / len(known) if known else 0.0


def group_means(confidences: Sequence[float], group: int) -> list[float]:
    """Return the mean of every window of ``group`` tokens; of all tokens when they are fewer."""
    if len(confidences) <= group:
        return [math.fsum(confidences) / len(confidences)] if confidences else []
    total = math.fsum(confidences[:group])
    means = [total / group]
    for new, old in zip(confidences[group:], confidences, strict=False):
        total += new - old
        means.append(total / group)
    return means


def trace_confidence(confidences: Sequence[float], measure: Measure, group: int) -> float | None:
    """Return one number for a trajectory from those of its tokens, None when there are none.

    ``group`` is the length of a window in tokens, and of the tail.
    """
    if not confidences:
        return None
    if measure == "tail":
        confidences = confidences[-group:]
    if measure in {"lowest_group", "bottom_groups"}:
        means = group_means(confidences, group)
        if measure == "lowest_group":
            return min(means)
        weakest = heapq.nsmallest(max(1, len(means) // 10), means)
        return math.fsum(weakest) / len(weakest)
    return math.fsum(confidences) / len(confidences)
