"""The schemas for editors: what is shipped fits them, what build would refuse by its shape does not."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from ttsflow.build import build, explain
from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.json_schema import GROUPS, file_schema
from ttsflow.plugins import load
from ttsflow.registry import config_folder, config_options

ROOT = Path(__file__).parent.parent
VALIDATOR = jsonschema.Draft202012Validator

SHIPPED = [(option, file) for option, file in config_options(config_folder("ttsflow.conf")) if "/" in option]
THEIRS = [
    (f"{file.parent.name}/{file.stem}", file) for file in sorted((ROOT / "plugins").glob("*/*/conf/*/*.yaml"))
]


@pytest.fixture(scope="module")
def wrong():
    """Return a function that lists what a schema has against a config, as (place, message)."""
    made = {group: VALIDATOR(file_schema(group, load())) for group in (None, *GROUPS)}

    def errors(group, config):
        return [(error.json_path, error.message) for error in made[group].iter_errors(config)]

    return errors


@pytest.mark.slow
@pytest.mark.parametrize("group", [None, *GROUPS])
def test_each_is_a_schema(group):
    VALIDATOR.check_schema(file_schema(group, load()))


def test_there_is_one_for_every_group():
    assert {option.partition("/")[0] for option, _ in SHIPPED} == set(GROUPS)


@pytest.mark.parametrize(("option", "file"), SHIPPED, ids=[option for option, _ in SHIPPED])
def test_what_is_shipped_fits(option, file, wrong):
    assert wrong(option.partition("/")[0], yaml.safe_load(file.read_text("utf-8"))) == []


@pytest.mark.slow
def test_the_file_at_the_root_and_a_resolved_run_fit(wrong):
    assert wrong(None, yaml.safe_load((ROOT / "conf" / "config.yaml").read_text())) == []
    for settings in (["strategy=beam_search", "verifier=fake"], ["engine=sim", "task=simulated"]):
        assert wrong(None, yaml.safe_load(yaml.safe_dump(dict(compose(settings))))) == []


@pytest.mark.parametrize("name", [entry.name for entry in load().entries("strategy")])
def test_a_strategy_with_all_its_settings_fits(name, wrong):
    told = explain(build("stage", compose([f"strategy={name}"])["strategy"], "strategy", load()), load())
    assert wrong("strategy", told) == []


WRONG = {
    "no part": ("strategy", "stages: {}", "$", "'use' is a required property"),
    "unknown part": ("strategy", "use: sequenc", "$.use", "'sequenc' is not one of"),
    "unknown key": (
        "strategy",
        "use: sequence\nstages: {a: {use: generate, nn: 3}}",
        "$.stages.a",
        "'nn' was unexpected",
    ),
    "wrong type": (
        "strategy",
        "use: sequence\nstages: {a: {use: generate, n: x}}",
        "$.stages.a.n",
        "'x' is not of type 'integer'",
    ),
    "a fraction": (
        "strategy",
        "use: sequence\nstages: {a: {use: generate, n: 3.5}}",
        "$.stages.a.n",
        "3.5 is not of type 'integer'",
    ),
    "no such choice": (
        "strategy",
        "use: sequence\nstages: {a: {use: aggregate, how: majorty}}",
        "$.stages.a.how",
        "'majorty' is not one of",
    ),
    "missing setting": (
        "strategy",
        "use: repeat\nstages: {a: {use: generate}}",
        "$",
        "'at_most' is a required property",
    ),
    "a part of another kind": (
        "strategy",
        "use: sequence\nstages: {a: {use: generate, watch: {use: all_finished}}}",
        "$.stages.a.watch.use",
        "'all_finished' is not one of",
    ),
    "a list of stages": ("strategy", "use: sequence\nstages: [a]", "$.stages", "is not of type 'object'"),
    "a mounted one without a name": (
        "strategy",
        "use: sequence\nstages: {a: {use: strategy}}",
        "$.stages.a",
        "'name' is a required property",
    ),
    "within a change": (
        "strategy",
        "defaults: [majority, _self_]\nstages: {answer: {how: votes}}",
        "$.stages.answer.how",
        "'votes' is not",
    ),
    "a class to call": (
        "strategy",
        "use: sequence\nstages: {a: {use: generate, _target_: os.system}}",
        "$.stages.a",
        "'_target_' was unexpected",
    ),
    "an engine's key": ("engine", "use: fake\nseats: 3", "$", "'seats' was unexpected"),
    "a sampling key": ("sampling", "temprature: 0.5", "$", "'temprature' was unexpected"),
    "a budget": ("budget", "problem: {tokens: many}", "$.problem.tokens", "'many' is not of type 'number'"),
    "a key of a run": (None, "sed: 3", "$", "'sed' was unexpected"),
}


@pytest.mark.parametrize(("group", "text", "place", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_does_not(group, text, place, message, wrong):
    found = wrong(group, yaml.safe_load(text))
    assert any(where == place and message in what for where, what in found), found


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ("strategy", "defaults: [beam_search, _self_]\nstages: {search: {stages: {funds: null}}}"),
        ("strategy", "use: sequence\nm: 3\nstages: {a: {use: generate, n: '${strategy.m}', after: b}}"),
        ("strategy", "use: sequence\nstages: {a: {use: strategy, name: majority, n: 3, ties: last}}"),
        ("engine", "use: vllm\nmodel: some/model\nspeculation: {depth: 3}\nprefix_order: true"),
        ("sampling", "stop: END"),
        ("meter", "use: model\nbusy_watts: ${oc.env:WATTS}"),
    ],
)
def test_what_is_right_does(group, text, wrong):
    assert wrong(group, yaml.safe_load(text)) == []


def test_an_unknown_group_is_refused():
    with pytest.raises(
        ConfigError, match=r"there is no group of config files 'stragety'\. Did you mean 'strategy'"
    ):
        file_schema("stragety", load())


def test_a_part_whose_package_is_missing_may_have_any_settings(install, hook):
    install("lame", hook("registry.add('stage', 'limp', 'no_such_module:Limp')"))
    errors = VALIDATOR(file_schema("strategy", load())).iter_errors({"use": "limp", "anything": 1})
    assert not list(errors)


def test_parts_of_a_plugin_are_in_it(install, hook):
    part = (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Shout:\n    '''Shouts.'''\n"
        "    volume: int = 11\n    def __call__(self, state):\n        return state\n"
    )
    install("loud", hook("registry.add('stage', 'shout', 'loud.parts:Shout')"), {"parts.py": part})
    made = file_schema("strategy", load())
    assert made["$defs"]["stage shout"]["description"] == "Shouts."
    assert [e.message for e in VALIDATOR(made).iter_errors({"use": "shout", "volume": "x"})] == [
        "'x' is not of type 'integer'"
    ]
