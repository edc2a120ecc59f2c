"""What prefix order saves where the KV cache is short: prompt tokens computed, and the time that takes.

Beam search (width 4, n = 32), four problems in flight, on a simulated RTX 4090 with a 1.5B generator. The KV
cache is given in rounds of one problem: prompt and survivors once, a mean step for every beam. What has to be
computed in any case is what a cache without limit computes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from common import finish

from ttsflow import Pipeline
from ttsflow.engines.law import Law
from ttsflow.engines.sim import GIB, Sim

N, WIDTH, PROMPT = 32, 4, 150


def run(problems: int, **more: Any) -> tuple[Mapping[str, float], float, list[Any]]:
    """Return what the engine counted, its seconds, and what the run came to."""
    pipeline = Pipeline(
        "beam_search",
        engine={"use": "sim", "seats": 512, **more},
        task={"use": "simulated", "size": problems},
        verifier={"use": "simulated", "quality": 1.0},
        hardware="rtx4090",
        n=N,
        concurrency=4,
    )
    done = pipeline.run()
    told = [(r.answer, r.text, r.usage.output, r.usage.serial) for r in done.results]
    return done.summary.work, float(done.summary.usage["wall_seconds"] or 0.0), told


def round_gib(part: Any) -> float:
    """Return the GiB of a round's KV in the middle of a search."""
    law = Law()
    path = law.mean_step * law.mean_steps / 2
    tokens = PROMPT + N // WIDTH * path + N * law.mean_step
    return tokens * part.roofline().kv_bytes / GIB


def main() -> int:
    """Compare with and without, at several sizes of the cache."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=float, nargs="+", default=[1.0, 1.5, 2.0, 4.0])
    parser.add_argument("--problems", type=int, default=8)
    arguments = parser.parse_args()
    part = Pipeline("single", engine="sim", hardware="rtx4090", task="simulated").setup.engine
    assert isinstance(part, Sim)
    least = run(arguments.problems)[0]["read_tokens"]
    figures: dict[str, Any] = {"round_gib": round_gib(part)}
    saved, same = {}, True
    for rounds in arguments.rounds:
        kv = {"kv_gib": rounds * round_gib(part)}
        (plain, before, told), (ordered, after, came) = (
            run(arguments.problems, **kv, prefix_order=order) for order in (False, True)
        )
        same &= told == came
        again = plain["read_tokens"] - least
        saved[rounds] = 1 - (ordered["read_tokens"] - least) / again if again > 0 else 0.0
        figures |= {
            f"{rounds:g}_read_again": again,
            f"{rounds:g}_read_again_saved": saved[rounds],
            f"{rounds:g}_time": after / before,
            f"{rounds:g}_preempted": [plain["preempted"], ordered["preempted"]],
        }
    checks = {"the same answers to the token": same}
    if 1.5 in saved:
        checks["at 1.5 rounds a fifth less is read again"] = saved[1.5] >= 0.2
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
