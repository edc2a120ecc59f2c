"""Figures of ``benchmarks/sim_paper.py`` at a small size: deterministic, so that they are held."""

import sys
from pathlib import Path

import pytest

PAIR = "7B+1.5B"


@pytest.fixture(scope="module")
def paper():
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import sim_paper

        yield sim_paper
    finally:
        sys.path.remove(folder)


@pytest.mark.slow
def test_both_variants_are_well_above_the_published_baseline(paper):
    def run(name):
        row = paper.ROWS[name]
        return paper.measure(PAIR, 8, row.engine, cache=row.cache, problems=4)

    base = paper.measure(PAIR, 8, {}, cache=False, apart=True, problems=4)
    shared, exact = run("paper"), run("exact")
    assert 1.2 <= shared.goodput / base.goodput <= 5.4
    assert exact.goodput / base.goodput >= 1.5
    assert exact.told == base.told != shared.told


@pytest.mark.slow
def test_copies_side_by_side_are_read_again_less_where_memory_is_short(paper):
    """The published gain of prefix order is that over copies which are far apart."""
    short = {"cache": False, "problems": 1, "kv_gib": 0.3}
    apart = paper.measure("1.5B+1.5B", 64, {}, apart=True, **short)
    beside = paper.measure("1.5B+1.5B", 64, {}, **short)
    assert apart.told == beside.told
    assert beside.work["read_tokens"] <= 0.85 * apart.work["read_tokens"]
    assert beside.goodput > apart.goodput


@pytest.mark.slow
def test_four_problems_in_flight_bring_more_and_the_same_answers(paper):
    def run(name):
        row = paper.ROWS[name]
        return paper.measure(PAIR, 8, row.engine, cache=row.cache, problems=8, flight=row.flight)

    alone, several = run("exact"), run("exact, 4 in flight")
    assert sorted(several.told) == sorted(alone.told)
    assert several.goodput > 1.2 * alone.goodput
