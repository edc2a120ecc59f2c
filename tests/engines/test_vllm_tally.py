"""What is counted on vLLM's scheduler, with one that plans what it is told."""

from types import SimpleNamespace

import pytest

from ttsflow.engines.vllm import VLLM
from ttsflow.engines.vllm_live import VLLMEngine
from ttsflow.engines.vllm_tally import Tally, tally


class Scheduler:
    """Plans (sequences, preempted, new ones, used share of the KV cache) in turn."""

    def __init__(self, *plans):
        self.plans = iter(plans)
        self.requests = {}
        self.usage = 0.0
        self.told = []

    def schedule(self, throttle=False):
        self.told.append(throttle)
        names, preempted, new, self.usage = next(self.plans)
        for one in new:
            self.requests.setdefault(one.req_id, SimpleNamespace(num_preemptions=0))
        for name in preempted:
            self.requests[name].num_preemptions += 1
        return SimpleNamespace(
            preempted_req_ids=set(preempted) or None,
            num_scheduled_tokens=dict.fromkeys(names, 1),
            scheduled_new_reqs=new,
        )

    def get_kv_cache_usage(self):
        return self.usage


def new(name, prompt, cached):
    return SimpleNamespace(req_id=name, prompt_token_ids=[0] * prompt, num_computed_tokens=cached)


PLANS = (
    ("ab", "", [new("a", 40, 0), new("b", 60, 32)], 0.5),
    ("abc", "", [new("c", 20, 16)], 0.9),
    ("a", "cb", [], 0.7),
    # The newer model runner is given one that comes back as if it were new.
    ("ab", "", [new("b", 60, 48)], 0.6),
)


def test_plans_are_passed_on_and_counted():
    scheduler = Scheduler(*PLANS)
    counted = Tally(scheduler)
    plans = [scheduler.schedule(number % 2 == 1) for number in range(4)]
    assert [len(plan.num_scheduled_tokens) for plan in plans] == [2, 3, 1, 2]
    assert scheduler.told == [False, True, False, True]
    assert counted.counters(4) == {
        "mean_batch": 2.0,
        "preempted": 2,
        "kv_peak": 0.9,
        "prefix_queried_tokens": 120,
        "prefix_hit_tokens": 48,
        "prefix_hit_rate": 0.4,
    }


def test_after_a_reset_it_begins_at_nothing_and_a_rate_of_nothing_is_none():
    scheduler = Scheduler(*PLANS)
    counted = Tally(scheduler)
    scheduler.schedule()
    counted.clear()
    assert set(counted.counters(0).values()) == {0}
    assert "prefix_hit_rate" not in counted.counters(0)


def core(scheduler=None, *, caches=True):
    """Return what an engine needs of vLLM; without a scheduler that one is in another process."""
    inside = {} if scheduler is None else {"engine_core": SimpleNamespace(scheduler=scheduler)}
    return SimpleNamespace(
        engine_core=SimpleNamespace(shutdown=lambda: None, **inside),
        renderer=SimpleNamespace(shutdown=lambda: None),
        get_tokenizer=lambda: None,
        reset_prefix_cache=lambda: True,
        abort_request=lambda names: None,
        step=lambda: scheduler.schedule() and [],
        vllm_config=SimpleNamespace(
            model_config=SimpleNamespace(max_model_len=64, logits_processors=()),
            cache_config=SimpleNamespace(num_gpu_blocks=11, enable_prefix_caching=caches),
        ),
    )


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    from ttsflow.engines import vllm_check

    monkeypatch.setattr(vllm_check, "installed", lambda: ("0.32.0", True))
    monkeypatch.setattr(vllm_check, "_processors", tuple)


@pytest.mark.slow
def test_an_engine_tells_what_its_scheduler_did_until_it_is_reset():
    engine = VLLMEngine(VLLM("org/name", seats=4), core(Scheduler(*PLANS)))
    for _ in range(2):
        engine._live["x"] = None
        engine.step()
    found = engine.counters()
    assert (found["iterations"], found["kv_blocks"]) == (2, 10)
    assert (found["mean_batch"], found["preempted"], found["kv_peak"]) == (2.5, 0, 0.9)
    assert found["prefix_hit_rate"] == 0.4
    engine.reset()
    assert (engine.counters()["kv_peak"], engine.counters()["iterations"]) == (0.0, 0)
    engine.close()
    assert engine._tally is None


def test_a_prefix_cache_that_is_off_has_no_figures():
    scheduler = Scheduler(*PLANS)
    counted = tally(core(scheduler, caches=False))
    scheduler.schedule()
    assert set(counted.counters(1)) == {"mean_batch", "preempted", "kv_peak"}


def test_a_scheduler_in_another_process_is_not_counted():
    assert tally(core()) is None
    engine = VLLMEngine(VLLM("org/name", seats=2), core())
    engine._iterations, engine._sequences = 4, 20
    assert engine.counters() == {"iterations": 4, "kv_blocks": 10, "mean_batch": 2.0}
