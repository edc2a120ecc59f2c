"""Queries are told in the order in which they began."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.driver.queries import Queries


def test_what_ends_first_waits_for_what_began_first():
    queries = Queries()
    for key in "abc":
        queries.begin(key)
    assert queries.end("c", 3) == []
    assert queries.end("b", 2) == []
    assert (queries.running, queries.ended, queries.known) == (1, 2, 0)
    assert queries.end("a", 1) == [1, 2, 3]
    assert (queries.running, queries.ended, queries.known) == (0, 3, 3)


def test_what_has_nothing_to_tell_holds_nobody_up():
    queries = Queries()
    queries.begin("a")
    queries.begin("b")
    assert queries.end("b", 2) == []
    assert queries.end("a", None) == [2]
    assert queries.known == 1


def test_a_key_has_one_query_at_a_time_and_many_in_all():
    queries = Queries()
    queries.begin("a")
    queries.begin("a")
    queries.begin("b")
    assert queries.runs("a")
    assert queries.end("a", 1) == [1]
    assert not queries.runs("a")
    queries.begin("a")
    assert queries.end("a", 3) == []
    queries.begin("a")
    assert queries.end("a", 4) == []
    assert queries.end("b", 2) == [2, 3, 4]


def test_the_end_of_what_never_began_is_told_at_once():
    queries = Queries()
    assert queries.end("a", 1) == [1]
    assert queries.end("a", None) == []


@pytest.mark.slow
@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_all_is_told_once_in_order(ends, silent):
    queries = Queries()
    for key in range(6):
        queries.begin(key)
    told = [item for key in ends for item in queries.end(key, None if key in silent else key)]
    assert told == [key for key in range(6) if key not in silent]
