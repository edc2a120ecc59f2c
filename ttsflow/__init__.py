"""Test-time scaling of language models as declarative pipelines.

``Pipeline`` is all that most programs need. Authors of parts also use ``ttsflow.types`` (data),
``ttsflow.ops`` (what a stage may ask), ``ttsflow.protocols`` (what a part must offer),
``ttsflow.hookimpl`` (registration) and ``ttsflow.testing`` (fakes and contracts). Importing ttsflow
loads none of torch, vllm and Hydra.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttsflow.hookspecs import hookimpl
    from ttsflow.pipeline import Pipeline, Run
    from ttsflow.types import Answer, Candidate, Problem, Result, Sampling, State, Usage

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Candidate",
    "Pipeline",
    "Problem",
    "Result",
    "Run",
    "Sampling",
    "State",
    "Usage",
    "__version__",
    "hookimpl",
]

_HOMES = {"Pipeline": "ttsflow.pipeline", "Run": "ttsflow.pipeline", "hookimpl": "ttsflow.hookspecs"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in __all__:
        msg = f"module 'ttsflow' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_HOMES.get(name, "ttsflow.types")), name)


def __dir__() -> list[str]:
    return __all__
