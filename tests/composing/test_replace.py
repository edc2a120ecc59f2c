"""A part that is replaced takes its settings with it; everything else is merged."""

import pytest

from ttsflow import Pipeline
from ttsflow.config import compose, strategy, strategy_of
from ttsflow.errors import ConfigError

SEARCH = "strategy.stages.search"


def until(*overrides, config_dir=None):
    composed = compose(["strategy=beam_search", *overrides], config_dir)
    return composed["strategy"]["stages"]["search"]["until"]


@pytest.mark.slow
def test_on_the_command_line():
    assert until() == {"use": "finished", "at_least": 16}
    assert until(f"{SEARCH}.until={{use: all_finished}}") == {"use": "all_finished"}
    assert until(f"{SEARCH}.until={{use: agreed}}") == {"use": "agreed"}
    assert until(f"{SEARCH}.until.use=agreed", f"{SEARCH}.until.share=0.9") == {"use": "agreed", "share": 0.9}
    assert until(f"{SEARCH}.until.share=0.9", f"{SEARCH}.until.use=agreed") == {"use": "agreed", "share": 0.9}
    assert until(f"{SEARCH}.until.at_least=3") == {"use": "finished", "at_least": 3}


def test_in_a_file(tmp_path):
    (tmp_path / "strategy").mkdir()
    file = tmp_path / "strategy" / "mine.yaml"
    file.write_text(
        "defaults: [beam_search, _self_]\nstages:\n  search:\n    until: {use: agreed, share: 0.8}\n"
        "    stages: {step: {n: 4}}\n"
    )
    stages = compose(["strategy=mine"], str(tmp_path))["strategy"]["stages"]
    assert stages["search"]["until"] == {"use": "agreed", "share": 0.8}
    assert stages["search"]["stages"]["step"] == {"use": "generate", "n": 4, "unit": "step"}


def test_in_a_mounted_strategy():
    mapping = strategy("beam_search", {"stages": {"search": {"until": {"use": "all_finished"}}}})
    assert mapping["stages"]["search"]["until"] == {"use": "all_finished"}


def test_a_mapping_in_python_is_like_a_file():
    vote = {"use": "aggregate"}
    own = {
        "use": "sequence",
        "n": 3,
        "stages": {"sample": {"use": "generate", "n": "${strategy.n}"}, "vote": vote},
    }
    assert strategy_of(own)["stages"]["sample"]["n"] == 3
    pipeline = Pipeline(own, engine="fake", n=5)
    assert pipeline.answer("?").usage.requests == 5
    mounted = {"use": "sequence", "stages": {"first": {"use": "strategy", "name": "majority", "n": 2}}}
    assert Pipeline(mounted, engine="fake").answer("?").usage.requests == 2
    with pytest.raises(ConfigError, match="nothing in the strategy refers to it"):
        Pipeline(own, engine="fake", m=5)


def test_a_group_takes_one_name():
    with pytest.raises(ConfigError, match="one name is wanted"):
        compose(["strategy=[majority,ffs]"])
