"""What the nearest match of a name is."""

import pytest

from ttsflow.errors import suggest

NAMES = ("atest_beam", "beam_search", "majority", "weighted_majority")


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("majorty", "majority"),
        # A beginning is meant as one, though another name is more alike.
        ("beam", "beam_search"),
        ("maj", "majority"),
        # Two letters begin too much.
        ("be", None),
        ("xyz", None),
    ],
)
def test_the_nearest_name_is_named(asked, near):
    told = suggest(asked, NAMES)
    assert told.startswith(f"Did you mean '{near}'? Known: " if near else "Known: ")
    assert told.endswith("atest_beam, beam_search, majority, weighted_majority.")


def test_without_names_it_says_so():
    assert suggest("x", []) == "None exists."
