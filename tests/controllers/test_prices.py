"""How prices begin: from nothing, from what is known, or from a file of what was learnt before."""

import json

import pytest

from ttsflow.controllers.prices import Prices, open_prices
from ttsflow.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"forgetting": 0.0}, "forgetting", "above 0 and up to 1"),
        ({"forgetting": 1.1}, "forgetting", "above 0 and up to 1"),
        ({"forgetting": float("nan")}, "forgetting", "above 0 and up to 1"),
        ({"beta": -1.0}, "beta", "between 0 and 100"),
        ({"beta": float("inf")}, "beta", "between 0 and 100"),
        ({"prior": (1.0, 1.0, 1.0)}, "prior", "four finite numbers"),
        ({"prior": (0.0, 0.0, 1.0, 1.0)}, "prior", r"a \+ b above 0"),
        ({"prior": (1.0, -1.0, 0.0, 0.0)}, "prior", "from 0 up"),
        ({"prior": (1.0, 1.0, 0.0, 0.0), "start": "x.json"}, "prior", "leave one out"),
    ],
)
def test_settings_that_cannot_be_name_their_field(settings, field, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Prices(**settings)
    assert caught.value.path == field


def test_without_anything_there_is_no_price():
    assert open_prices(Prices(), "tokens").estimate(1, 0.0) is None


def test_a_prior_is_the_price_of_a_query_and_a_sample_at_no_load_and_at_full_load():
    prices = open_prices(Prices(prior=(10.0, 20.0, 5.0, 2.0), beta=0.0), "joules")
    assert prices.estimate(1, 0.0).price == pytest.approx(30.0)
    assert prices.estimate(4, 0.0).price == pytest.approx(90.0)
    assert prices.estimate(4, 1.0).price == pytest.approx(90.0 + 5.0 + 8.0)


def learnt(count=20):
    prices = open_prices(Prices(), "joules")
    for i in range(count):
        prices.observe(1 + i % 3, i % 5 / 5, 10.0 * (1 + i % 3) * (1 + i % 5 / 5))
    return prices


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"unit": "joules", "prices": learnt().state(), "rate": 1.0}))
    return path


def test_a_file_goes_on_where_it_ended_to_the_last_bit(saved):
    ours, theirs = learnt(), open_prices(Prices(start=str(saved)), "joules")
    for load in (0.0, 0.4, 1.0):
        assert theirs.estimate(3, load) == ours.estimate(3, load)
        ours.observe(2, load, 55.0)
        theirs.observe(2, load, 55.0)
    assert theirs.state() == ours.state()


def test_what_was_learnt_goes_on_under_the_settings_of_this_run(saved):
    prices = open_prices(Prices(start=str(saved), beta=0.0, forgetting=0.5), "joules")
    assert prices.estimate(1, 0.0).margin == 0.0
    assert prices.state()["model"]["forgetting"] == 0.5


def test_a_file_in_the_home_folder_is_found(saved, monkeypatch):
    monkeypatch.setenv("HOME", str(saved.parent))
    assert open_prices(Prices(start="~/prices.json"), "joules").seen == 20


def test_a_file_that_is_missing_says_who_writes_one(tmp_path):
    with pytest.raises(
        DataError, match=r"none\.json: there is no such file; a run with a controller writes learnt.json"
    ):
        open_prices(Prices(start=str(tmp_path / "none.json")), "joules")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "prices cannot be read: JSONDecodeError"),
        (b"\xff\xfe", "prices cannot be read: UnicodeDecodeError"),
        ("[]", "it holds no prices"),
        ('{"prices": 3}', "it holds no prices"),
        ('{"unit": "joules", "prices": {}}', "no saved state"),
        ('{"unit": "joules", "prices": {"model": {}}}', "no saved state"),
    ],
)
def test_a_file_that_is_broken_is_named_with_what_is_wrong(text, message, tmp_path):
    path = tmp_path / "prices.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message) as caught:
        open_prices(Prices(start=str(path)), "joules")
    assert str(path) in str(caught.value)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match="prices cannot be read: IsADirectoryError"):
        open_prices(Prices(start=str(tmp_path)), "joules")


@pytest.mark.parametrize("where", ["seen", "last", "model", "usual"])
@pytest.mark.parametrize("what", [None, "x", [], {}, float("nan"), -1])
def test_a_state_with_a_broken_piece_is_refused_or_gives_a_price(where, what, saved):
    told = json.loads(saved.read_text())
    told["prices"][where] = what
    saved.write_text(json.dumps(told))
    try:
        prices = open_prices(Prices(start=str(saved)), "joules")
    except DataError as error:
        assert str(saved) in str(error)  # noqa: PT017 - not all of them are wrong
    else:
        assert prices.estimate(1, 0.0).price > 0


def test_prices_of_another_unit_are_refused(saved):
    with pytest.raises(ConfigError, match="has prices in joules, and this run counts tokens") as caught:
        open_prices(Prices(start=str(saved)), "tokens")
    assert caught.value.path == "prices.start"
