"""``benchmarks/crash_sweep.py`` at a small size: kill -9 at any moment loses and doubles nothing."""

from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(900)  # a dozen processes, on a machine that may be busy
def test_a_sweep_that_is_killed_again_and_again_comes_to_the_same(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from crash_sweep import crash

    figures, fine = crash(tmp_path, kills=6, problems=8, seed=3)
    assert fine, figures
    assert figures["results"] == figures["wanted"] == 8 * 8
    assert figures["kills"] == 6
