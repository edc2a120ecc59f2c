"""pytest in one process per core: ``python tests/side_by_side.py ARGUMENTS-OF-PYTEST``.

Each process collects all tests and runs the files that no other has begun, so that what the tests of a file
share is made once, and all end at about the same time. The first one writes as it goes on, the others when
they have ended. Nothing is sent between them: that took longer than most tests themselves.

Files with tests that need a model belong to the first process, which begins with them: two engines at once
slow each other down many times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, pairwise
from pathlib import Path

import pytest

#: With this first argument, its number and a folder, a process runs its share of the tests.
SHARE = "--share"
#: Tests with one of these markers are the first process's.
ALONE = ("engine", "gpu")


class Share:
    """A pytest plugin that runs the tests of those files whose name it is the first to put into a folder."""

    def __init__(self, folder: Path, number: int = 0) -> None:
        self.folder, self.number = folder, number
        self._mine: dict[Path, bool] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run this process's share; what was not collected is pytest's to report."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        for item, following in pairwise(chain(self._items(session), [None])):
            assert item is not None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True

    def _items(self, session: pytest.Session) -> Iterator[pytest.Item]:
        alone = {item.path for item in session.items if any(map(item.get_closest_marker, ALONE))}
        if self.number > 0:
            self._mine |= dict.fromkeys(alone, False)
        items = sorted(session.items, key=lambda item: item.path not in alone)
        return (item for item in items if self._takes(item.path))

    def _takes(self, file: Path) -> bool:
        if file not in self._mine:
            name = self.folder / str(file).replace(os.sep, "|")
            try:
                name.touch(exist_ok=False)
            except FileExistsError:
                self._mine[file] = False
            else:
                self._mine[file] = True
        return self._mine[file]


def side_by_side(arguments: Sequence[str], processes: int) -> int:
    """Run pytest in so many processes; return the highest exit code, which is 0 when all tests passed."""
    # As many threads as cores, all in all.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as files:
        later = [files.enter_context(tempfile.TemporaryFile()) for _ in range(1, processes)]
        try:
            for number, output in enumerate([None, *later]):
                command = [sys.executable, __file__, SHARE, str(number), folder, *arguments]
                # One cache of what failed last cannot hold what each of them saw.
                command += ["-p", "no:cacheprovider"]
                running.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
            codes = [process.wait() for process in running]
        finally:
            for process in running:
                process.terminate()
                process.wait()
        for output in later:
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))
    return max(map(abs, codes))


def main() -> int:
    """Run all tests that are asked for, or this process's share of them."""
    arguments = sys.argv[1:]
    if arguments[:1] == [SHARE]:
        # As `python -m pytest` has it.
        sys.path[0] = str(Path.cwd())
        return int(pytest.main(arguments[3:], plugins=[Share(Path(arguments[2]), int(arguments[1]))]))
    return side_by_side(arguments, len(os.sched_getaffinity(0)))


if __name__ == "__main__":
    raise SystemExit(main())
