"""Keys group what is one answer and keep apart what is not."""

import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.tasks.keys import check_kind, decided, key_of, no_number

GROUPS = [
    [r"\frac{1}{2}", "0.5", ".5", "1/2", r"\dfrac12", r"\tfrac{1}2", "50/100", r"$\frac{1}{2}$.", "\u00bd"],
    [r"\frac{1}{3}", "1/3", "2/6"],
    ["0.333", "333/1000"],
    ["1,000", "1000", r"1{,}000", r"1,\!000", "1\u202f000", "1000.0", "1e3", r"10^3"],
    [
        "12",
        r"\text{12}",
        "12.00",
        "$12",
        r"\$12",
        "\u20ac12",
        "**12**",
        "12 dollars",
        r"12\text{ cm}^2",
        "12%",
    ],
    ["1,2", "1, 2", "2, 1", r"\{1,2\}", "1 and 2"],
    ["(1,2)", r"\left(1, 2\right)", r"(1,\frac{4}{2})"],
    ["[1,2]"],
    ["(2,1)"],
    ["[1,2)"],
    ["(1,234)"],
    ["1,234", "1234"],
    ["1,000, 2,000", "2000, 1000"],
    [r"1/2^{99}", r"2^{-99}"],
    [r"1/2^{98}"],
    ["-5", "\u22125", "-$5", "$-5", "x = -5", "\u20135"],
    ["0", "0.0", "-0", "00"],
    ["29", "$29.00", "29."],
    ["13", r"\text{13}", r"\sqrt{169}", r"\boxed{13}"],
    ["73", "**73**", "`73`"],
    ["5/2", "2 1/2", r"2\frac{1}{2}", "2.5"],
    ["east", r"\text{east}", "East"],
    ["west"],
    ["C", r"\text{(C)}", "(C)"],
    [r"(-\infty,3)", "x<3", "(-\u221e, 3)"],
    [r"(-\infty,3]", r"x \le 3", r"x\leq 3"],
    [r"(1,2]", r"1 < x \le 2"],
    ["2x", "2*x", r"2 \cdot x"],
    [r"2\sqrt{3}", r"2\sqrt3", "2\u221a3", "2*sqrt(3)"],
    [r"\pi", "pi", "\u03c0"],
]


@pytest.mark.parametrize("forms", GROUPS, ids=lambda forms: forms[0])
@pytest.mark.parametrize("kind", ["math", "number"])
def test_forms_of_one_answer_share_a_key(forms, kind):
    assert len({key_of(form, kind) for form in forms}) == 1
    assert key_of(forms[0], kind)


def test_different_answers_have_different_keys():
    keys = [key_of(forms[0], "math") for forms in GROUPS if forms[0] != "1,000"]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("nothing", ["", " ", "$$", ".", "**", "-"])
def test_nothing_has_no_key_and_equals_nothing(nothing):
    assert key_of(nothing, "math") == ""
    assert decided("", "", 0.0) is False


def test_huge_powers_are_compared_as_text():
    assert key_of("9^{9^9}", "math") != key_of("9^{9^8}", "math")
    assert key_of("*".join(["9^999"] * 60), "math") != key_of("*".join(["9^999"] * 61), "math")


def test_endless_repetition_is_no_trouble():
    for piece in ("(1,", "{", "9^", "\\frac{", "$", "**", "a ", "\\boxed{"):
        assert key_of(piece * 20_000, "math") is not None


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("1/2", "1/2", True),
        ("1/3", "333/1000", False),
        ("(1, 2)", "[1, 2]", False),
        ("{1, 2}", "12", False),
        ("east", "west", False),
        ("east", "5", False),
        (r"(\pi, 3)", r"[\pi, 3]", False),
        (r"2\sqrt{3}", r"\sqrt{12}", None),
        (r"\sqrt{12}", "5", None),
    ],
)
def test_what_keys_alone_decide(one, other, wanted):
    assert decided(one, other) is wanted
    assert decided(other, one) is wanted


def test_tolerance_is_relative_and_explicit():
    third, near = key_of("1/3", "number"), key_of("0.333", "number")
    assert decided(near, third, 0.01) is True
    assert decided(near, third, 0.0001) is False


def test_choices_are_labels_and_texts_are_words():
    assert key_of(" b ", "choice") == "B"
    assert key_of("  New   York. ", "text") == key_of("new york", "text")


def test_unknown_kind_names_the_known_ones():
    with pytest.raises(ConfigError, match=re.escape("Did you mean 'number'?")):
        check_kind("numbers")


TEXTS = st.one_of(
    st.sampled_from([form for forms in GROUPS for form in forms]),
    st.text(alphabet="0123456789.,/-+*^()[]{}$\\ xa%", max_size=12),
    st.fractions(max_denominator=50).map(str),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(TEXTS, min_size=3, max_size=3))
def test_equality_of_keys_is_an_equivalence(texts):
    a, b, c = (key_of(text, "math") for text in texts)
    for one, other in itertools.product((a, b, c), repeat=2):
        assert decided(one, other) == decided(other, one)
    assert not a or decided(a, a) is True
    if a and a == b == c:
        assert decided(a, c) is True


@settings(deadline=None, max_examples=60)
@given(st.integers(-(10**9), 10**9))
def test_integers_are_their_own_key_however_they_are_grouped(number):
    assert key_of(f"{number}", "number") == key_of(f"{number:,}", "number") == str(number)


@settings(deadline=None, max_examples=60)
@given(st.fractions(max_denominator=10**6))
def test_fractions_are_exact(number):
    latex = rf"{'-' if number < 0 else ''}\frac{{{abs(number.numerator)}}}{{{number.denominator}}}"
    assert key_of(latex, "math") == key_of(str(number), "math") == str(number)


@pytest.mark.parametrize("nothing", ["1/0", "0/0", r"\frac{1}{0}", "1/(2-2)", "0^{-1}", "1, 1/0", "9" * 5000])
def test_what_has_no_value_equals_no_number(nothing):
    key = key_of(nothing, "number")
    assert no_number(key)
    for other in ("0", "1", "1/2", "{1, 2}", r"\sqrt{2}", "east", "x/0"):
        assert decided(key, other) is decided(other, key) is False
        assert not no_number(other)


@pytest.mark.parametrize(
    "piece", [" ", "0", "{", "}", "-", ",", ", ", "*", "`", "**a", " __a", "\\text{", "\t"]
)
@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("", ""),
        *(pytest.param(*ends, marks=pytest.mark.slow) for ends in (("1", "2"), ("(", ")"), ("1 ", "x!"))),
    ],
)
def test_long_runs_take_no_longer_than_their_length(piece, start, end):
    """A bound against another order of complexity: it takes a tenth of a second, and took half a minute."""
    begun = time.perf_counter()
    for kind in ("text", "number", "math", "choice"):
        key_of(start + piece * (100_000 // len(piece)) + end, kind)
    assert time.perf_counter() - begun < 10
