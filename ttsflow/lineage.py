"""Seeds and child numbers that depend on lineage alone.

A candidate is addressed by its path: the number of each child below its parent, from the problem's
root down. Its seed is a hash of (run seed, problem id, path). No strategy, stage, n or arrival order
enters, so the first 4 samples of majority@16 are the samples of majority@4, a second generate stage
never repeats a sample, and reordering or resuming a run changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b

__all__ = ["Lineage", "Path", "content_id", "derive", "rng_of", "seed_of"]

Path = tuple[int, ...]


def derive(*parts: object) -> int:
    """Return a 63-bit number that is a pure function of ``parts`` (compared by their text)."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1


def seed_of(run_seed: int, problem_id: str, path: Path) -> int:
    """Return the sampling seed of the candidate at ``path``."""
    return derive("candidate", run_seed, problem_id, ".".join(map(str, path)))


def rng_of(run_seed: int, problem_id: str, tag: str, turn: int) -> random.Random:
    """Return the source of randomness for everything but sampling (ties, resampling)."""
    return random.Random(derive("rng", run_seed, problem_id, tag, turn))  # noqa: S311 - not for secrets


def content_id(text: str) -> str:
    """Return a short stable id for a problem whose data gives none."""
    return blake2b(text.encode(), digest_size=6).hexdigest()


class Lineage:
    """Hands out the next unused child number of each parent within one problem.

    The free numbers of a parent are an arithmetic progression (first, stride). Branches that run side
    by side get interleaved parts of it, so that which branch asks first does not matter; forks nest.
    """

    def __init__(self, first: int = 0, stride: int = 1) -> None:
        self._first = first
        self._stride = stride
        self._free: dict[Path, int] = {}

    def child(self, parent: Path) -> Path:
        """Return the path of the next child of ``parent`` and mark its number as used."""
        number = self._free.get(parent, self._first)
        self._free[parent] = number + self._stride
        return (*parent, number)

    def peek(self, parent: Path, count: int) -> list[Path]:
        """Return the paths that the next ``count`` children of ``parent`` will have."""
        number = self._free.get(parent, self._first)
        return [(*parent, number + place * self._stride) for place in range(count)]

    def fork(self, branches: int) -> list[Lineage]:
        """Return one allocator for each of ``branches`` branches that run side by side."""
        children = []
        for branch in range(branches):
            shift = branch * self._stride
            child = Lineage(self._first + shift, self._stride * branches)
            child._free = {parent: number + shift for parent, number in self._free.items()}
            children.append(child)
        return children

    def join(self, branches: Sequence[Lineage]) -> None:
        """Count as used, from now on, every number that a branch of the last fork has used."""
        started = dict(self._free)
        for branch_number, branch in enumerate(branches):
            shift = branch_number * self._stride
            for parent, free in branch._free.items():
                if free > started.get(parent, self._first) + shift:
                    after = free - branch._stride + self._stride
                    self._free[parent] = max(after, self._free.get(parent, self._first))
