"""What ``benchmarks/sim_prefix_order.py`` prints for one size of the cache: deterministic, so it is held."""

from pathlib import Path

import pytest

from ttsflow import Pipeline


@pytest.mark.slow
def test_a_fifth_less_is_read_again_at_one_and_a_half_rounds_of_memory(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import sim_prefix_order as bench

    part = Pipeline("single", engine="sim", hardware="rtx4090", task="simulated").setup.engine
    kv = {"kv_gib": 1.5 * bench.round_gib(part)}
    least = bench.run(8)[0]["read_tokens"]
    plain, before, told = bench.run(8, **kv, prefix_order=False)
    ordered, after, came = bench.run(8, **kv, prefix_order=True)
    assert told == came
    assert ordered["read_tokens"] - least <= 0.8 * (plain["read_tokens"] - least)
    assert ordered["preempted"] < plain["preempted"] / 5
    assert after <= 1.02 * before
