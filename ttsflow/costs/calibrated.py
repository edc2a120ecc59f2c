"""What a calibration has found: how often a vote of n samples is right, and what it costs; in a file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ttsflow.errors import ConfigError, DataError

__all__ = [
    "VERSION",
    "Calibration",
    "is_calibration",
    "load_json",
    "parse_calibration",
    "read_calibration",
]

#: Of the file; one that is written otherwise has another.
VERSION = 1

_KIND = "calibration"
_MAKE = "make one with `ttsflow calibrate -o FILE`"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Accuracy and cost by number of samples, measured once with a model, a task and a machine.

    ``cost`` are the a, b, c and d of a + b n + c u + d n u, in ``unit``, for n samples that are taken at once
    at load u. ``accuracy`` is how often the vote of as many samples as each of ``rungs`` is right: never
    falling, smoothed from ``measured``. ``loads`` are those that were seen. ``error`` is the root mean square
    of what costs were off, over what they were. ``questions`` and ``samples`` were taken, in ``seconds``.
    ``agreement`` is how far the samples of a question agreed (``ttsflow.controllers.agreement``); None in
    profiles that are older.
    """

    model: str
    task: str
    unit: str
    rungs: tuple[int, ...]
    loads: tuple[float, ...]
    cost: tuple[float, float, float, float]
    error: float
    accuracy: tuple[float, ...]
    measured: tuple[float, ...]
    questions: int
    samples: int
    seconds: float
    agreement: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        rungs = [*self.rungs]
        if not rungs or rungs[0] < 1 or sorted(set(rungs)) != rungs:
            raise ValueError(f"rungs are numbers of samples that rise from at least 1, got {rungs}")
        if not len(rungs) == len(self.accuracy) == len(self.measured):
            raise ValueError(f"there is an accuracy for each of {len(rungs)} rungs")
        if not all(0 <= share <= 1 for share in (*self.accuracy, *self.measured)):
            raise ValueError("an accuracy lies between 0 and 1")
        if any(high < low for low, high in zip(self.accuracy, self.accuracy[1:], strict=False)):
            raise ValueError("accuracy does not fall with the number of samples")
        if not self.loads or not all(0 <= load <= 1 for load in self.loads):
            raise ValueError("loads lie between 0 and 1, and there is one at least")
        if len(self.cost) != 4 or not all(0 <= value < math.inf for value in self.cost):
            raise ValueError("a cost is four finite numbers from 0 up")
        if not self.cost[0] + self.cost[1] > 0:
            raise ValueError("a sample costs something without any load")
        if not isinstance(self.agreement, Mapping | None):
            raise TypeError(f"how far samples agree is a mapping, got {self.agreement!r}")

    def price(self, samples: int, load: float) -> float:
        """Return what so many samples cost that are taken at once under a load."""
        a, b, c, d = self.cost
        return a + b * samples + c * load + d * samples * load

    def accuracy_of(self, rungs: Sequence[int]) -> tuple[float, ...]:
        """Return the accuracy of each rung. Raises ``ConfigError`` for one that was not measured."""
        known = dict(zip(self.rungs, self.accuracy, strict=True))
        missing = [rung for rung in rungs if rung not in known]
        if missing:
            told = ", ".join(map(str, missing))
            raise ConfigError(
                f"the profile has no accuracy of {told} samples; it has those of "
                f"{', '.join(map(str, self.rungs))}. Take these, or make another profile with "
                f"`ttsflow calibrate --rungs {' '.join(map(str, sorted({*self.rungs, *missing})))}`.",
                "rungs",
            )
        return tuple(known[rung] for rung in rungs)

    def dumped(self) -> str:
        """Return the text of the file."""
        return json.dumps({"kind": _KIND, "version": VERSION} | asdict(self), indent=2) + "\n"


def is_calibration(saved: Any) -> bool:
    """Return whether what a JSON file holds is meant to be a calibration."""
    return isinstance(saved, Mapping) and saved.get("kind") == _KIND


def parse_calibration(saved: Any, path: Path, unit: str, place: str) -> Calibration:
    """Return the calibration that a JSON file at ``path`` holds, which must count in ``unit``.

    Raises ``DataError`` for what is none, ``ConfigError`` for another version or unit; both name ``place``.
    """
    if not is_calibration(saved):
        raise DataError(f"{path}: it holds no calibration; {_MAKE}.", place)
    if saved.get("version") != VERSION:
        raise ConfigError(
            f"{path} is a calibration of version {saved.get('version')!r}, and this ttsflow reads {VERSION}; "
            f"{_MAKE}.",
            place,
        )
    try:
        values = {
            one.name: saved[one.name]
            for one in fields(Calibration)
            if one.default is MISSING or one.name in saved
        }
        for name, value in values.items():
            if isinstance(value, list):
                values[name] = tuple(_number(item) for item in value)
        found = Calibration(**values)
    except KeyError as error:
        raise DataError(
            f"{path}: {error.args[0]!r} is missing in the calibration; {_MAKE}.", place
        ) from error
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: this is no calibration: {error}; {_MAKE}.", place) from error
    if found.unit != unit:
        raise ConfigError(
            f"{path} has costs in {found.unit}, and this run counts {unit}; set a budget in {found.unit}, or "
            f"make another profile with `ttsflow calibrate --unit {unit}`.",
            place,
        )
    return found


def read_calibration(file: str, unit: str, place: str) -> Calibration:
    """Read a calibration. Raises as ``parse_calibration``, and ``DataError`` for a file that is not there."""
    path = Path(file).expanduser()
    return parse_calibration(load_json(path, place, _MAKE, "a calibration"), path, unit, place)


def load_json(path: Path, place: str, how: str, what: str) -> Any:
    """Return what a JSON file of ``what`` holds. Raises ``DataError``, which says ``how`` to get one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; {how}.", place) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {what} cannot be read: {type(error).__name__}: {error}", place) from error


def _number(item: Any) -> int | float:
    if isinstance(item, bool) or not isinstance(item, int | float) or not math.isfinite(item):
        raise ValueError(f"{item!r} is no finite number")
    return item
