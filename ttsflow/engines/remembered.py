"""Numbers by place in a lineage, of the problems of late: a long run would fill the memory otherwise."""

from __future__ import annotations

from collections import OrderedDict

from ttsflow.lineage import Path

__all__ = ["Remembered"]

#: Problems that are remembered, many more than are in flight.
_PROBLEMS = 1024


class Remembered:
    """A number for each path of a problem; the problems that were written to longest ago are forgotten."""

    def __init__(self, problems: int = _PROBLEMS) -> None:
        self._problems = problems
        self._paths: OrderedDict[str, dict[Path, int]] = OrderedDict()

    def put(self, problem: str, path: Path, number: int) -> None:
        """Remember a number."""
        paths = self._paths.setdefault(problem, {})
        paths[path] = number
        self._paths.move_to_end(problem)
        if len(self._paths) > self._problems:
            self._paths.popitem(last=False)

    def get(self, problem: str, path: Path) -> int:
        """Return the number of a path; 0 where there is none."""
        paths = self._paths.get(problem)
        return 0 if paths is None else paths.get(path, 0)

    def clear(self) -> None:
        """Forget all."""
        self._paths.clear()
