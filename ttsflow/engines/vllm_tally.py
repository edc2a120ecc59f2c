"""What vLLM's scheduler does, counted from its own plans."""

from __future__ import annotations

from typing import Any

__all__ = ["Tally", "tally"]


class Tally:
    """Counts what a scheduler of vLLM plans, one plan for each iteration.

    ``preempted`` sequences were sent back, and read again when they came back. ``batch`` adds up the
    sequences of all plans. ``queried`` prompt tokens of requests that began were looked for in the prefix
    cache where it is on (``caches``), ``hits`` of them were there; as in vLLM's own books, those that come
    back do not count again. ``peak`` is the largest share of the KV cache that running requests held; blocks
    that are only kept for later ones are free.
    """

    def __init__(self, scheduler: Any, *, caches: bool = True) -> None:
        self._scheduler = scheduler
        self._caches = caches
        self._plans = scheduler.schedule
        scheduler.schedule = self._schedule
        self.clear()

    def clear(self) -> None:
        """Begin at nothing."""
        self.preempted = self.batch = self.queried = self.hits = 0
        self.peak = 0.0

    def counters(self, iterations: int) -> dict[str, float]:
        """Return the counts by the names they have in ``summary.json``."""
        found = {
            "mean_batch": self.batch / iterations if iterations else 0.0,
            "preempted": self.preempted,
            "kv_peak": self.peak,
        }
        if not self._caches:
            return found
        found |= {"prefix_queried_tokens": self.queried, "prefix_hit_tokens": self.hits}
        # A rate of nothing is none.
        return found | ({"prefix_hit_rate": self.hits / self.queried} if self.queried else {})

    def _schedule(self, *given: Any, **named: Any) -> Any:
        plan = self._plans(*given, **named)
        self.preempted += len(plan.preempted_req_ids or ())
        self.batch += len(plan.num_scheduled_tokens)
        for new in plan.scheduled_new_reqs:
            # One of vLLM's two model runners is given those that come back as if they were new.
            if not self._scheduler.requests[new.req_id].num_preemptions:
                self.queried += len(new.prompt_token_ids or ())
                self.hits += new.num_computed_tokens
        # Between planning and the end of a step nothing is freed, so that this is the most of the step.
        self.peak = max(self.peak, self._scheduler.get_kv_cache_usage())
        return plan


def tally(core: Any) -> Tally | None:
    """Return what counts on an engine of vLLM; None where its scheduler is in another process."""
    scheduler = getattr(getattr(core.engine_core, "engine_core", None), "scheduler", None)
    if scheduler is None:
        return None
    return Tally(scheduler, caches=bool(core.vllm_config.cache_config.enable_prefix_caching))
