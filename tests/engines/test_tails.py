"""The book of partly filled blocks: nothing is found that was not kept, and the longest of what was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.engines.tails import Tails, common


def test_a_continuation_goes_on_from_the_longest_tail():
    book = Tails(4)
    short = book.keep("p", (1, 2))
    other = book.keep("p", (1, 3, 4))
    assert book.find("p", (1, 2, 9)) == (short, 2)
    assert book.find("p", (1, 3, 9)) == (other, 2)
    assert book.find("p", (7,))[1] == 0
    assert book.find("q", (1, 2))[1] == 0


def test_what_a_longer_tail_covers_takes_no_place():
    book = Tails(4)
    book.keep("p", (1, 2))
    assert book.keep("p", (1, 2, 3)) is not None
    assert len(book) == 1
    assert book.keep("p", (1,)) is None
    assert book.keep("p", ()) is None
    assert len(book) == 1


def test_the_one_used_longest_ago_gives_way():
    book = Tails(2)
    first = book.keep("p", (1,))
    second = book.keep("q", (1,))
    book.find("p", (1,))
    assert book.keep("r", (1,)) == second
    assert book.find("p", (1,)) == (first, 1)
    assert book.find("q", (1,))[1] == 0


def test_without_places_nothing_is_kept():
    assert Tails(0).keep("p", (1,)) is None


TAILS = st.lists(st.integers(0, 2), max_size=5).map(tuple)


@pytest.mark.slow
@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.sampled_from("pq"), TAILS), max_size=40))
def test_a_place_holds_what_was_kept_there_last(places, steps):
    """The memory behind the book, written as the book says, always begins as what is looked for."""
    book, memory = Tails(places), {}
    for keeps, prefix, tokens in steps:
        if keeps:
            place = book.keep(prefix, tokens)
            if place is not None:
                memory[place] = prefix, tokens
        place, count = book.find(prefix, tokens)
        kept = [tail for held, tail in memory.values() if held == prefix]
        assert count == max((common(tail, tokens) for tail in kept), default=0)
        if count:
            held, tail = memory[place]
            assert held == prefix
            assert tail[:count] == tokens[:count]
        assert len(book) <= places
    book.clear()
    assert len(book) == 0
    assert len({book.keep(n, (0,)) for n in range(places)}) == places
