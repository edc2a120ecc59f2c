"""The command ``ttsflow report``: reads runs, writes the page and its pictures."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from pathlib import Path

from ttsflow.analysis.runs import Run, find_runs, read_run
from ttsflow.errors import ConfigError, MissingExtra
from ttsflow.files import named_path

__all__ = ["main", "report"]

_PAGES = (".html", ".htm")


def main(argv: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Write the report that the arguments ask for and say where it is."""
    parser.add_argument(
        "folders", metavar="DIR", nargs="+", help="folders of runs and sweeps; all in them is read"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the page; report.html in the first folder unless named"
    )
    parser.add_argument("--png", action="store_true", help="write the main picture beside the page as PNG")
    parser.add_argument("--svg", action="store_true", help="write the main picture beside the page as SVG")
    args = parser.parse_args(argv)
    kinds = [kind for kind in ("png", "svg") if getattr(args, kind)]
    folders = [named_path(folder, "", ConfigError) for folder in args.folders]
    target = named_path(args.output, "", ConfigError) if args.output else folders[0] / "report.html"
    gc.disable()  # nothing here is in cycles, and looking for them took a fifth of the time
    try:
        runs, written = report(folders, target, kinds)
    finally:
        gc.enable()
    told = [
        f"{sum(run.status == status for run in runs)} {status}"
        for status in ("complete", "partial", "failed")
    ]
    print(f"{len(runs)} runs: {', '.join(told)}")  # noqa: T201
    for line in [line for run in runs for line in run.skipped][:20]:
        print(f"skipped {line}")  # noqa: T201
    for file in written:
        print(f"{file.suffix.removeprefix('.')}: {file}")  # noqa: T201
    return 0


def report(
    folders: Sequence[Path], target: Path, pictures: Sequence[str] = ()
) -> tuple[list[Run], list[Path]]:
    """Write a page of all runs in ``folders`` to ``target``; return the runs and the files.

    ``pictures`` are kinds, png or svg, of the main picture, which stands beside the page under its name. An
    older page is overwritten: it can be made again at any time.

    Raises ``DataError`` for a folder without a run, ``ConfigError`` for a page that cannot be written or has
    nothing on it, and ``MissingExtra`` when what draws is not installed.
    """
    if target.suffix.lower() not in _PAGES or target.is_dir():
        raise ConfigError(f"{target} is no page; name a file that ends with {' or '.join(_PAGES)}.")
    places = find_runs(folders)
    if not target.parent.is_dir():
        raise ConfigError(f"{target} cannot be written: there is no folder {str(target.parent)!r}.")
    try:
        from ttsflow.reporting import charts, drawer, drawing, page, panels  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra(
            f"a report needs {error.name}, which is not installed: pip install 'ttsflow[report]'"
        ) from error
    with drawer.Drawer() as draws:
        runs = [read_run(place) for place in places]
        found = panels.panels(runs)
        main = [draws.svg_file(charts.main_picture(found))] if pictures else []
        text = page.page(runs, found, [str(folder) for folder in folders], draws.svg)
        files: list[tuple[Path, bytes]] = [(target, text.encode("utf-8", "replace"))]
        for svg in [picture.result() for picture in main]:
            for kind in pictures:
                content = drawing.png(svg) if kind == "png" else svg.encode()
                files.append((target.with_suffix(f".{kind}"), content))
    for file, content in files:
        try:
            file.write_bytes(content)
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
    return runs, [file for file, _ in files]
