"""The process of an injector: products of matrices for a share of every period. Run as a script.

``burn.py DEVICE THREADS PERIOD`` says ``ready``, then for every line with a level, and at the end of its
input, ``BUSY WALL``: seconds that were spent in products and that have passed since the last answer. It ends
with its input, and when its parent is gone. It imports nothing of ttsflow.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

_SIZE = {"cpu": 256, "cuda": 4096}
#: Seconds between two looks at whether the parent is there; the end of the input mostly says it at once.
_LOOK = 0.5


class Fire:
    """Threads that compute for the share ``level`` of every period.

    ``spent`` is the clock of a thread that a share is measured on: that of its CPU time, so that a thread
    which has to wait for a core makes up for it within the period, or the wall clock for a GPU.
    """

    def __init__(
        self, product: Callable[[], None], threads: int, period: float, spent: Callable[[], float]
    ) -> None:
        self.level = 0.0
        self.busy = [0.0] * threads
        self._product, self._period, self._spent = product, period, spent
        self._over = threading.Event()
        self._start = time.monotonic()
        self._threads = [threading.Thread(target=self._burn, args=(one,)) for one in range(threads)]
        for thread in self._threads:
            thread.start()

    def _burn(self, one: int) -> None:
        end = self._start
        while not self._over.is_set():
            # Periods of all threads begin together; one that was missed is not made up for.
            end = max(end, time.monotonic() - self._period) + self._period
            begun = self._spent()
            while (
                (took := self._spent() - begun) < self.level * self._period
                and time.monotonic() < end
                and not self._over.is_set()
            ):
                self._product()
            self.busy[one] += took
            self._over.wait(max(0.0, end - time.monotonic()))

    def out(self) -> None:
        """End all threads."""
        self._over.set()
        for thread in self._threads:
            thread.join()


def product_of(device: str) -> Callable[[], None]:
    """Return a function that takes one product; about a millisecond of work."""
    size = _SIZE[device]
    if device == "cpu":
        import numpy as np  # noqa: PLC0415 - of this process alone

        local = threading.local()

        def multiply() -> None:
            if not hasattr(local, "data"):
                local.data = [np.full((size, size), 0.5, dtype=np.float32) for _ in range(3)]
            left, right, into = local.data
            np.matmul(left, right, out=into)

        return multiply
    import torch  # noqa: PLC0415 - of this process alone

    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device here; --device cpu works everywhere")
    matrix = torch.full((size, size), 0.5, dtype=torch.float16, device="cuda")
    result = torch.empty_like(matrix)

    def multiply_there() -> None:
        torch.matmul(matrix, matrix, out=result)
        torch.cuda.synchronize()

    return multiply_there


def main(device: str, threads: int, period: float) -> None:
    """Burn until the input ends."""
    parent = os.getppid()
    # The parent says when to end, also when someone at the keyboard wants it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        product = product_of(device)
        product()
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent has to tell it
        say(f"error {type(error).__name__}: {' '.join(str(error).split())}")
        return
    fire = Fire(product, threads, period, time.thread_time if device == "cpu" else time.monotonic)
    busy = _busy(fire, device)
    say("ready")
    begun, before = time.monotonic(), busy()
    try:
        while (line := _line(parent)) is not None:
            now, after = time.monotonic(), busy()
            say(f"{after - before:.6f} {now - begun:.6f}")
            begun, before = now, after
            if not line:
                break
            fire.level = float(line)
    finally:
        fire.out()


def _busy(fire: Fire, device: str) -> Callable[[], float]:
    """Return what says how long products took so far: CPU time of the process, or time on the device."""
    return time.process_time if device == "cpu" else lambda: sum(fire.busy)


def _line(parent: int) -> str | None:
    """Return the next line, an empty one at the end of the input, None when the parent is gone."""
    while not select.select([sys.stdin], [], [], _LOOK)[0]:
        if os.getppid() != parent:
            return None
    return sys.stdin.readline()


def say(text: str) -> None:
    """Tell the parent; without one nobody listens."""
    try:
        print(text, flush=True)  # noqa: T201 - that is how it answers
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
