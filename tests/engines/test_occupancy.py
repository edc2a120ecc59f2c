"""Whole blocks that running requests read, against counting every block one by one."""

import random

import pytest

from ttsflow.engines.occupancy import Occupancy
from ttsflow.ops import EngineRequest
from ttsflow.types import Sampling


def request(path, length, problem="p", name=""):
    return EngineRequest(
        name or f"{problem}{path}", (1,) * length, Sampling(), 0, 100, problem=problem, path=path
    )


def blocks_of(running, block):
    """Count the blocks of all running requests, where equal positions of one ancestor are one block."""
    seen = set()
    for one, ends in running:
        size = len(one.prompt)
        # A block belongs to the ancestor that has decoded its last token.
        for place in range(size // block):
            last = (place + 1) * block
            depth = next(d for d, end in enumerate(ends) if last <= end)
            seen.add((one.problem, one.path[:depth], place))
    return len(seen)


@pytest.mark.parametrize("turns", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_shared_prefixes_count_once_whatever_comes_and_goes(turns):
    rng = random.Random(5)
    for block in (1, 4, 16, 32):
        occupancy, running, ends_of = Occupancy(block), [], {}
        for turn in range(turns):
            if running and rng.random() < 0.45:
                one, _ = running.pop(rng.randrange(len(running)))
                occupancy.leave(one.id)
            else:
                problem = rng.choice("pq")
                path, ends = (), []
                for _ in range(rng.randint(1, 4)):
                    parent = path
                    if (problem, parent) not in ends_of:
                        ends_of[problem, parent] = (ends[-1] if ends else 0) + rng.randint(1, 40)
                    ends.append(ends_of[problem, parent])
                    path = (*path, rng.randint(0, 3))
                    occupancy.know(request(path, ends[-1], problem))
                one = request(path, ends[-1], problem, f"{turn}")
                before = occupancy.used
                needed = occupancy.needed(one)
                occupancy.enter(one)
                assert occupancy.used == before + needed
                running.append((one, ends))
            assert occupancy.used == blocks_of(running, block)
        for one, _ in running:
            occupancy.leave(one.id)
        assert occupancy.used == 0


def test_a_request_of_no_lineage_shares_nothing():
    occupancy = Occupancy(16)
    assert occupancy.alone(request((), 37)) == 37
    assert occupancy.alone(request((0,), 37)) == 5
    occupancy.enter(request((), 32, name="a"))
    assert occupancy.used == 0


def test_what_is_unknown_leaves_nothing_behind():
    occupancy = Occupancy(16)
    occupancy.leave("nobody")
    assert occupancy.used == 0
