"""What problems get in place of the strategy of a run that is short of funds."""

from __future__ import annotations

from collections.abc import Mapping

from ttsflow.protocols import Stage
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage

__all__ = ["FALLBACKS"]

#: By the value of ``budget.fallback``. The sample is the first one that any strategy of whole samples draws.
FALLBACKS: Mapping[str, Stage] = {
    "single": Sequence({"sample": GenerateStage(1), "answer": Aggregate(how="first")}),
}
