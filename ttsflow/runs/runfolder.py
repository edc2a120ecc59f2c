"""The folder of one run: what is written of it besides results and events, at its beginning and its end."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from ttsflow.logger import Telling
from ttsflow.runs.lines import replace_text
from ttsflow.session import versions
from ttsflow.setup import Setup
from ttsflow.summary import RunStatus, Summary, summarize
from ttsflow.trace import finite
from ttsflow.types import Result

__all__ = ["FULL", "RunFolder", "write_summary"]

#: Errors of a disk that takes no more.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


def write_summary(folder: Path, summary: Summary) -> None:
    """Write ``summary.json`` in one move, so that a reader never sees half of one."""
    replace_text(
        folder / "summary.json", json.dumps(finite(summary.as_dict()), ensure_ascii=False, indent=2) + "\n"
    )


class RunFolder:
    """What is known of one run besides its parts: where it writes and what has come of it.

    ``data`` names the problems, see ``earlier.data_id``. ``results`` are those that are kept from before,
    which took ``before`` seconds, and from then on all.
    """

    def __init__(
        self,
        setup: Setup,
        mapping: Mapping[str, Any],
        folder: Path,
        planned: int,
        *,
        data: str,
        kept: Sequence[Result] = (),
        before: float = 0.0,
    ) -> None:
        self.setup = setup
        self.mapping = {**mapping, "strategy": dict(mapping["strategy"])}
        self.folder = folder
        self.planned = planned
        self.data = data
        self.names = setup.names
        self.fingerprint = setup.fingerprint
        self.versions = versions()
        self.results = [*kept]
        self.before = before
        self.engine: dict[str, Any] = {}
        self._telling: Telling | None = None

    def begin(self) -> None:
        """Write what is known before anything has run. Raises ``OSError``."""
        text = yaml.safe_dump(self.mapping, sort_keys=False, allow_unicode=True)
        replace_text(self.folder / "config.yaml", text)
        write_summary(self.folder, self._summary("partial", 0.0))

    def tell(self) -> None:
        """Tell the logger that the run begins, and of what is kept."""
        self._telling = Telling(self.setup.logger, self.folder)
        self._telling.begin(self.mapping)
        for result in self.results:
            self._telling.result(result)

    def add(self, result: Result) -> None:
        """Take a result that has been written."""
        self.results.append(result)
        if self._telling is not None:
            self._telling.result(result)

    def end(
        self,
        status: RunStatus,
        wall_seconds: float = 0.0,
        *,
        error: str | None = None,
        details: str | None = None,
    ) -> Summary:
        """Write and return the summary; ``wall_seconds`` are those of this part of the run."""
        summary = self._summary(status, wall_seconds, error=error, traceback=details)
        try:
            write_summary(self.folder, summary)
        except OSError as failed:
            # The summary from the beginning stays, so that what is there can be taken up again.
            told = (
                error or f"the summary cannot be written: {failed.strerror}; what was written before is whole"
            )
            summary = replace(summary, status="failed", error=told)
        if self._telling is not None:
            self._telling.end(summary.as_dict())
        return summary

    def _summary(self, status: RunStatus, wall_seconds: float, **told: Any) -> Summary:
        return summarize(
            self.results,
            status=status,
            names=self.names,
            seed=self.setup.seed,
            fingerprint=self.fingerprint,
            data=self.data,
            planned=self.planned,
            wall_seconds=self.before + wall_seconds,
            versions=self.versions,
            **self.engine,
            folder=str(self.folder),
            **told,
        )
