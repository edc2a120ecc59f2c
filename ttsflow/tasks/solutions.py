"""The released solutions of GSM8K, a question and several models' solutions a line, as recordings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ttsflow.lineage import content_id
from ttsflow.tasks.extract import extract

__all__ = ["adapted"]


def adapted(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a line of that file in the format of recordings; any other line as it is.

    Its id is the one that the task ``gsm8k`` gives the question. A solution ends in a line such as
    ``A: 18``; one without it was cut.
    """
    question, worked = data.get("question"), data.get("ground_truth")
    solutions = [
        one for one in data.values() if isinstance(one, Mapping) and isinstance(one.get("solution"), str)
    ]
    if "samples" in data or not solutions or not isinstance(question, str) or not isinstance(worked, str):
        return data
    return {
        "id": content_id(f"{question.strip()}\x1f"),
        "answer": _final(worked),
        "samples": [
            {
                "pred": _final(one["solution"]),
                "correct": one.get("is_correct"),
                "finish": "stop" if _ends(one["solution"]) else "length",
                "text": one["solution"],
            }
            for one in solutions
        ],
    }


def _ends(text: str) -> bool:
    return "\nA:" in f"\n{text}"


def _final(text: str) -> str | None:
    return _number(text.rpartition("A:")[2].strip()) if _ends(text) else None


@lru_cache(maxsize=10_000)
def _number(text: str) -> str | None:
    answer = extract(text, "number")
    return None if answer is None else answer.text
