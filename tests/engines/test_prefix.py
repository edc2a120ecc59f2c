"""The order of prefixes and what it costs."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.engines.prefix import Recency, order_key, replaced, shared, switches

EXAMPLE = ["ABDG", "ABDH", "ACFJ", "ABEI"]


def test_the_worked_example_replaces_seven_blocks_and_in_the_best_order_six():
    assert replaced(EXAMPLE, 4) == 7
    assert min(replaced(order, 4) for order in itertools.permutations(EXAMPLE)) == 6
    assert replaced(sorted(EXAMPLE), 4) == 6


def test_the_cost_of_an_order_is_what_neighbours_do_not_share():
    assert switches(EXAMPLE) == 4 + 1 + 3 + 3
    assert switches(sorted(EXAMPLE)) == 4 + 1 + 2 + 3
    assert switches([]) == 0
    assert shared("ABDG", "ABEI") == 2
    assert shared("AB", "ABC") == 2


def test_a_sequence_that_has_no_room_is_refused():
    with pytest.raises(ValueError, match="4 blocks do not fit into 3"):
        replaced(EXAMPLE, 3)


TREES = st.lists(
    st.lists(st.integers(0, 2), min_size=3, max_size=3).map(tuple), min_size=1, max_size=6, unique=True
)


@pytest.mark.slow
@given(TREES)
def test_a_walk_of_the_tree_is_the_best_order_there_is(paths):
    """With room for one sequence: in either direction, and no order of all is cheaper."""
    best = min(switches(order) for order in itertools.permutations(paths))
    walks = sorted(paths, key=order_key), sorted(paths, key=order_key, reverse=True)
    assert [switches(walk) for walk in walks] == [best, best]


def test_the_direction_alternates_with_the_depth():
    roots = sorted([(0,), (1,), (2,)], key=order_key)
    children = sorted([(0, 0), (0, 1), (1, 0), (2, 0)], key=order_key)
    assert roots == [(2,), (1,), (0,)]
    # What was used last is used first.
    assert children[0][:1] == roots[-1]


def test_what_was_used_last_is_met_first_and_siblings_stay_side_by_side():
    recency = Recency()
    for path in [(0, 0), (1, 0), (2, 0), (0, 1)]:
        recency.ended("p", path)
    children = [(a, b, c) for a, b in [(0, 0), (0, 1), (1, 0), (2, 0)] for c in (0, 1)]
    order = sorted(children, key=lambda path: recency.key("p", path))
    assert [path[:2] for path in order[::2]] == [(0, 1), (0, 0), (2, 0), (1, 0)]
    assert [path[:2] for path in order[1::2]] == [path[:2] for path in order[::2]]
    assert recency.key("q", (0, 0)) == ((0, 0), (0, 0))


@pytest.mark.slow
@given(TREES, st.integers(3, 12))
def test_more_room_replaces_no_more(paths, room):
    assert replaced(paths, room + 1) <= replaced(paths, room) <= switches(paths)


def test_in_a_walk_every_block_is_computed_once():
    rng = random.Random(3)
    paths = list({tuple(rng.choices(range(3), k=5)) for _ in range(60)})
    nodes = {path[:depth] for path in paths for depth in range(1, 6)}
    assert switches(sorted(paths, key=order_key)) == len(nodes)
