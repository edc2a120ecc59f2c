"""Where the time of a run goes: steps of an engine, their seconds, their batches, whoever asked for them."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Meter"]


@dataclass
class Meter:
    """Counts on one vLLM engine; ``read`` returns what came together since the last reading.

    ``requests`` and ``tokens`` are sums over steps: divided by ``steps`` they are the mean batch. ``cached``
    are prompt tokens found in the prefix cache, ``preempted`` requests thrown out for lack of KV memory.
    """

    steps: int = 0
    seconds: float = 0.0
    requests: int = 0
    tokens: int = 0
    cached: int = 0
    preempted: int = 0

    def attach(self, core: Any) -> Meter:
        """Count on this engine from now on; a step costs two looks at the clock more."""
        step, scheduler = core.step, core.engine_core.engine_core.scheduler
        schedule = scheduler.schedule

        def timed_step() -> Any:
            began = time.perf_counter()
            try:
                return step()
            finally:
                self.steps += 1
                self.seconds += time.perf_counter() - began

        def counted_schedule(*args: Any, **settings: Any) -> Any:
            plan = schedule(*args, **settings)
            self.requests += len(plan.num_scheduled_tokens)
            self.tokens += plan.total_num_scheduled_tokens
            self.cached += sum(new.num_computed_tokens for new in plan.scheduled_new_reqs)
            self.preempted += len(plan.preempted_req_ids or ())
            return plan

        core.step, scheduler.schedule = timed_step, counted_schedule
        return self

    def read(self) -> dict[str, float]:
        """Return the counts and begin anew."""
        found = asdict(self)
        vars(self).update(asdict(Meter()))
        return found
