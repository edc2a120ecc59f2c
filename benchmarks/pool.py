"""How quickly a large pool of samples opens and answers, and how quickly it takes in new ones.

Samples of 60 tokens with texts of 200 characters are written, the last ones a few in a transaction as a run
does it. Then the file is opened anew several times, and random requests are looked up: some that it has, and
as many that it does not have.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import statistics
import tempfile
import time
from pathlib import Path

from common import finish

from ttsflow import cli
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import Sample, Texts
from ttsflow.ops import EngineRequest
from ttsflow.types import Sampling

TEXTS = Texts("model", '{"model": "made up"}')
#: Samples of one prompt; of one transaction, while the file is filled and at its end; how many those are.
SHARED, MANY, FEW, LAST = 64, 50_000, 4, 2000
SAMPLING = Sampling()


def request(number: int) -> EngineRequest:
    """Return the request of a sample by its number; samples in a row share a prompt of 100 tokens."""
    prompt = tuple(range(number // SHARED, number // SHARED + 100))
    return EngineRequest(
        "r", prompt, SAMPLING, number, 512, problem=str(number // SHARED), path=(number % 64,)
    )


def main() -> int:
    """Fill a pool, look things up, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--lookups", type=int, default=4000)
    parser.add_argument("--folder", type=Path, help="where the file is made, and removed again")
    arguments = parser.parse_args()
    rng = random.Random(0)  # noqa: S311 - no secret
    text = "so that the sum of both is one more than before. " * 4
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        file = Path(name) / "samples.pool"
        store = SampleStore(file)
        # Filling alone: keys are random, so that every sample changes another page.
        assert store.connection is not None
        store.connection.execute("PRAGMA cache_size = -400000")
        for number in range(arguments.rows):
            tokens = tuple(range(number % 9973, number % 9973 + 60))
            store.add(TEXTS, request(number), Sample(tokens, True), text)
            if number == arguments.rows - LAST:
                store.close()
                store = SampleStore(file)
                began = time.perf_counter()
            if number % (MANY if number < arguments.rows - LAST else FEW) == 0:
                store.commit()
        store.close()
        seconds = (time.perf_counter() - began) / LAST * FEW
        opened = []
        for _ in range(5):
            began = time.perf_counter()
            store = SampleStore(file)
            opened.append(time.perf_counter() - began)
            store.close()
        store, times = SampleStore(file), {True: [], False: []}
        for _ in range(arguments.lookups):
            there = rng.random() < 0.5
            asked = request(rng.randrange(arguments.rows) + (0 if there else arguments.rows))
            began = time.perf_counter()
            found = store.find(TEXTS, asked, 0, certain=False)
            times[there].append(time.perf_counter() - began)
            assert (found is not None) == there
        store.close()
        size = file.stat().st_size
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            cli.main(["pool", str(file)])
        shown = time.perf_counter() - began
    both = sorted(times[True] + times[False])
    figures = {
        "rows": arguments.rows,
        "mb": size / 1e6,
        "open_seconds": max(opened),
        "lookup_ms_median": statistics.median(both) * 1e3,
        "lookup_ms_median_found": statistics.median(times[True]) * 1e3,
        "lookup_ms_99_percent": both[len(both) * 99 // 100] * 1e3,
        "write_ms": seconds * 1e3,
        "show_seconds": shown,
    }
    checks = {
        "it opens within a second": max(opened) < 1,
        "a lookup takes under 0.2 ms (median)": statistics.median(both) < 2e-4,
    }
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
