"""What `fasttts.py` measures on: two workloads, and the two engines that share one KV memory.

The verifier is the demo model itself read as a process reward model: how likely " yes" follows a tag behind
each step, against " no". So it is as large as the generator, needs no download, and its scores vary.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["WIDTH", "WORKLOADS", "Cell", "kv_blocks", "overrides", "word_problems"]

WIDTH = 4

#: KV memory of both engines together, unless it is set to what a round needs.
KV_GIB = 1.0

BLOCK = 32

#: Partly filled blocks that each engine keeps, in the rows that have them; with little memory ``n``.
PARTIAL = 64

#: Bytes of a token in the KV cache: keys and values of 30 layers, 3 heads of 64 numbers, float32.
_TOKEN_BYTES = 2 * 30 * 3 * 64 * 4

_GIB = 1 << 30


class Workload(NamedTuple):
    """One kind of problem: lengths in tokens, ``prompt`` about, the others at most."""

    task: tuple[str, ...]
    template: str
    prompt: int
    question: int
    step: int
    path: int
    depth: int


WORKLOADS: Mapping[str, Workload] = {
    # Verifier-heavy: six additions and an answer, each a line of about 8 tokens, after three worked sums.
    "V": Workload(
        ("task=arithmetic", "task.terms=7", "task.examples=3"),
        "{question}{steps}",
        prompt=287,
        question=287,
        step=24,
        path=96,
        depth=8,
    ),
    # Generator-heavy: paragraphs of about 40 tokens after a short question.
    "G": Workload(("task=jsonl",), "{question} {steps}", prompt=65, question=42, step=48, path=288, depth=6),
}


class Cell(NamedTuple):
    """One place of the grid; ``kv`` is the KV memory in rounds of one problem, None for plenty."""

    workload: str
    strategy: str
    n: int
    kv: float | None = None

    def __str__(self) -> str:
        kv = "" if self.kv is None else f"-kv{self.kv:g}"
        return f"{self.workload}-{self.strategy}-{self.n}{kv}"


def kv_blocks(cell: Cell) -> int:
    """Return how many KV blocks one round of one problem needs at most, on the larger of both engines.

    The prompt is stored once, what survivors have written once each, and every beam has its own step.
    """
    work = WORKLOADS[cell.workload]
    # Behind each step the verifier reads a tag as well.
    path, step = work.path + work.depth, work.step + 1
    survivors = cell.n // WIDTH
    return _blocks(work.prompt) + survivors * _blocks(path) + cell.n * (_blocks(step) + 1)


def overrides(cell: Cell, problems: int, file: Path, *, partial: bool) -> list[str]:
    """Return the config of a cell: equal for all that is compared in it.

    Where KV memory is short, what ``partial`` blocks take is missing in the cache.
    """
    work = WORKLOADS[cell.workload]
    size = f"task.path={file}" if cell.workload == "G" else f"task.size={problems}"
    kv, kept = KV_GIB / 2, PARTIAL
    if cell.kv is not None:
        kept = cell.n if partial else 0
        # Half a block more than whole ones: vLLM rounds down. The null block is never used.
        kv = (int(cell.kv * kv_blocks(cell)) - kept + 1.5) * BLOCK * _TOKEN_BYTES / _GIB
    engine = {
        "model": "demo",
        "dtype": "float32",
        "seats": 128,
        "context": 512,
        "kv_gib": kv,
        "partial_blocks": kept,
    }
    # The subtrees of dvts have their first step before their first round.
    rounds = work.depth - (cell.strategy == "dvts")
    return [
        *work.task,
        size,
        f"limit={problems}",
        f"strategy={cell.strategy}",
        f"strategy.n={cell.n}",
        f"strategy.width={WIDTH}",
        f"strategy.depth={rounds}",
        f"sampling.max_tokens={work.path}",
        f"sampling.max_step_tokens={work.step}",
        *(f"engine.{name}={value}" for name, value in engine.items()),
        "verifier=math_shepherd",
        *(f"++verifier.engine.{name}={value}" for name, value in engine.items()),
        'verifier.tag="<empty_output>"',
        'verifier.good=" yes"',
        'verifier.bad=" no"',
        'verifier.step="{step}{tag}"',
        f'verifier.template="{work.template}"',
        "seed=0",
        "trace=false",
    ]


def word_problems(file: Path, count: int) -> Path:
    """Write made-up word problems, one a line; more of them only append."""
    rng = random.Random(0)  # noqa: S311 - not for secrets
    with file.open("w", encoding="utf-8") as lines:
        for number in range(count):
            question, answer = _word_problem(rng)
            lines.write(json.dumps({"id": f"word-{number}", "question": question, "answer": str(answer)}))
            lines.write("\n")
    return file


_NAMES = ("Tom", "Ann", "Sam", "Lucy", "Max", "Eva")
_THINGS = (("boxes", "apples"), ("bags", "marbles"), ("shelves", "books"), ("packs", "pens"))


def _word_problem(rng: random.Random) -> tuple[str, int]:
    name, friend = rng.sample(_NAMES, 2)
    holder, thing = rng.choice(_THINGS)
    holders, each, gone, new = (rng.randint(*span) for span in ((4, 9), (11, 19), (5, 30), (6, 25)))
    question = (
        f"{name} has {holders} {holder} with {each} {thing} each. First {gone} {thing} go to {friend}, "
        f"then {name} buys {new} more. How many {thing} has {name} now?"
    )
    return question, holders * each - gone + new


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)
