"""The command ``ttsflow profile``: reads recorded samples and says which type of model they come from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from ttsflow.analysis.findings import as_dict, print_profile
from ttsflow.analysis.graded import graded
from ttsflow.analysis.lengths import Profile, profile
from ttsflow.analysis.record import recorded
from ttsflow.errors import ConfigError, DataError, suggest
from ttsflow.library import SHIPPED
from ttsflow.recordings import Count, Recording, read_recordings

__all__ = ["main", "profiles"]


def main(argv: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Add the arguments to ``parser``, do what ``argv`` says, and return the exit code."""
    parser.add_argument(
        "path",
        nargs="?",
        default=str(SHIPPED),
        help="a file of recorded samples, or the folder of a run (default: the samples of this package)",
    )
    parser.add_argument("--model", help="one of the models of the file; otherwise all, one after another")
    parser.add_argument("--dataset", help="one of the data sets of the file; otherwise all together")
    parser.add_argument("--count", choices=get_args(Count), default="tokens", help="what lengths are in")
    parser.add_argument("--n", type=int, default=8, help="samples per question at a high budget (8)")
    parser.add_argument("--json", action="store_true", help="print a JSON list, one entry per model")
    args = parser.parse_args(argv)
    if args.n < 1:
        raise ConfigError(f"at least one sample is needed, got {args.n}.", "--n")
    found = profiles(args.path, model=args.model, dataset=args.dataset, count=args.count, n=args.n)
    if args.json:
        print(json.dumps([as_dict(one) for one in found], indent=2, allow_nan=False))  # noqa: T201 - its purpose
    else:
        for one in found:
            print_profile(one)
    return 0


def profiles(
    path: str,
    *,
    model: str | None = None,
    dataset: str | None = None,
    count: Count = "tokens",
    n: int = 8,
) -> list[Profile]:
    """Return a profile per model of a file or of the folder of a run.

    ``count`` words is for files whose samples have a text and no number of tokens. ``n`` are the samples
    per question that a high budget pays for.

    Raises ``ConfigError`` for a model or a data set that is not there, ``DataError`` when nothing was
    graded, and what ``read_recordings`` and ``record`` raise.
    """
    recordings, ended = _read(Path(path), count)
    recordings = _chosen(_chosen(recordings, "model", model), "dataset", dataset)
    found = []
    for name in sorted({one.model for one in recordings}):
        mine = [one for one in recordings if one.model == name]
        questions = graded(mine)
        if not questions:
            who = f" of {name}" if name else ""
            raise DataError(f"{path}: none of the {len(mine)} questions{who} has samples that were graded.")
        left_out = len(mine) - len(questions)
        found.append(profile(questions, model=name, left_out=left_out, ended=ended, n=n))
    return found


def _read(path: Path, count: Count) -> tuple[list[Recording], int]:
    """Return the recordings of a file or of a run, and how many samples the run's strategy ended."""
    if not path.is_dir():
        return read_recordings(path, count=count), 0
    if count != "tokens":
        raise ConfigError("a run has its tokens counted; words are for files of texts without.", "--count")
    recordings, left_out = recorded(path)
    return recordings, left_out["aborted"]


def _chosen(recordings: list[Recording], field: str, asked: str | None) -> list[Recording]:
    known = {getattr(one, field) for one in recordings}
    if asked is None:
        return recordings
    if asked not in known:
        raise ConfigError(f"there is no {field} '{asked}'. {suggest(asked, known - {''})}", f"--{field}")
    return [one for one in recordings if getattr(one, field) == asked]
