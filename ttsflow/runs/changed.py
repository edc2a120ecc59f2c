"""Whether the questions or gold answers of a task have changed since a run was on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ttsflow import plugins
from ttsflow.build import build
from ttsflow.errors import TtsflowError
from ttsflow.runs.earlier import data_id
from ttsflow.runs.progress import read_summary

__all__ = ["Data"]


class Data:
    """What tasks ask now. The problems of a task are read once, however many jobs are on them."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def changed(self, folder: Path, mapping: Mapping[str, Any]) -> bool:
        """Whether the run in ``folder``, of the config ``mapping``, was on other problems than there are now.

        Not so where nobody knows: of a run that kept no name of its data, and of data that cannot be read.
        """
        then = read_summary(folder).get("data")
        if not then:
            return False
        key = repr((mapping.get("task"), mapping.get("limit")))
        if key not in self._known:
            self._known[key] = _now(mapping)
        return self._known[key] not in {None, then}


def _now(mapping: Mapping[str, Any]) -> str | None:
    try:
        task = build("task", mapping.get("task"), "task", plugins.load())
        return data_id(list(task.problems())[: mapping.get("limit")])
    except (TtsflowError, OSError):
        return None
