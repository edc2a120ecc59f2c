import pytest

from ttsflow.costs.basic import Requests, Seconds, Tokens
from ttsflow.errors import ConfigError
from ttsflow.types import Usage

USAGE = Usage(prompt=100, cached=40, output=7, aborted=2, dropped=1, verifier=20, requests=3, seconds=1.5)


def test_tokens_count_all_that_was_decoded_and_by_default_nothing_else():
    assert Tokens()(USAGE) == 10


def test_prompt_and_verifier_tokens_have_a_share_of_the_price_and_cached_ones_are_free():
    assert Tokens(prompt=0.5)(USAGE) == 10 + 0.5 * 60
    assert Tokens(verifier=0.25)(USAGE) == 10 + 0.25 * 20


def test_seconds_and_requests():
    assert Seconds()(USAGE) == 1.5
    assert Requests()(USAGE) == 3.0


@pytest.mark.parametrize("field", ["prompt", "verifier"])
def test_a_price_cannot_be_negative(field):
    with pytest.raises(ConfigError) as caught:
        Tokens(**{field: -0.1})
    assert caught.value.path == field
