"""build, explain and walk: what is accepted, what is refused, and what the refusal says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow import plugins
from ttsflow.build import build, explain, fill, walk
from ttsflow.errors import ConfigError, MissingExtra, PluginError, UnknownPart
from ttsflow.protocols import Stage, Until, Watch
from ttsflow.registry import Registry
from ttsflow.types import Sampling


@dataclass(frozen=True)
class Leaf:
    """A stage with a setting of every type."""

    n: int = 1
    share: float = 0.5
    flag: bool = False
    name: str = "x"
    maybe: int | None = None
    word: str | None = None
    mode: Literal["fast", "slow"] = "fast"
    stop: tuple[str, ...] = ()
    pair: tuple[int, float] = (1, 2.0)
    either: float | int | str = 0
    more: Mapping[str, Any] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    watch: Watch | None = None

    def __call__(self, state):
        return state


@dataclass(frozen=True)
class Tree:
    """A stage that holds stages."""

    stages: Mapping[str, Stage]
    until: Until | None = None
    if_: Until | None = None

    def __call__(self, state):
        return state


@dataclass(frozen=True)
class Picky:
    """A stage that refuses settings in several ways."""

    how: str

    def __post_init__(self):
        match self.how:
            case "config":
                raise ConfigError("not like this", "how")
            case "deep":
                raise ConfigError("not like this", "if_.k")
            case "value":
                raise ValueError("bad value")
            case "extra":
                raise MissingExtra("install it")

    def __call__(self, state):
        return state


@dataclass(frozen=True)
class Enough:
    """A condition."""

    at_least: int = 2

    def __call__(self, state):
        return None


@dataclass(frozen=True)
class Clever:
    """A strategy that needs code."""

    n: int = 1

    def __call__(self, state):
        return state


@dataclass(frozen=True)
class Moved:
    """A stage with a setting that has the name of a key of all stages."""

    after: str = ""


@dataclass(frozen=True)
class Odd:
    """A stage with a setting that no config can write."""

    when: complex = 0j

    def __call__(self, state):
        return state


class Plain:
    """No dataclass."""


@pytest.fixture(scope="module")
def registry():
    registry = Registry()
    for cls in (Leaf, Tree, Picky, Plain, Odd, Moved):
        registry.add("stage", cls.__name__.lower(), cls, "test")
    registry.add("until", "enough", Enough, "test")
    return registry


def leaf(registry, **settings):
    return build("stage", {"use": "leaf", **settings}, "strategy", registry)


@pytest.mark.parametrize(
    ("key", "value", "built"),
    [
        ("n", 3, 3),
        ("share", 1, 1.0),
        ("share", 0.25, 0.25),
        ("flag", True, True),
        ("maybe", None, None),
        ("maybe", 4, 4),
        ("word", None, None),
        ("mode", "slow", "slow"),
        ("stop", ["a", "b"], ("a", "b")),
        ("stop", "\n\n", ("\n\n",)),
        ("stop", [], ()),
        ("pair", [3, 4], (3, 4.0)),
        ("either", 3, 3),
        ("either", 3.5, 3.5),
        ("either", "x", "x"),
        ("more", {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ("sampling", {"top_k": 5}, Sampling(top_k=5)),
    ],
)
def test_values_of_the_right_type_are_taken(registry, key, value, built):
    got = getattr(leaf(registry, **{key: value}), key)
    assert got == built
    assert type(got) is type(built)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("n", 1e3, "a whole number is wanted, got 1000.0 (float). Write 1000."),
        ("n", 2.5, "a whole number is wanted, got 2.5 (float)."),
        ("n", float("inf"), "a whole number is wanted, got inf (float)."),
        ("share", 10**400, "a finite number is wanted, got one of more than 308 digits."),
        ("n", "4", "a whole number is wanted, got the text '4'. Write 4 without quotes."),
        ("n", "none", "a whole number is wanted, got the text 'none'. For nothing, write null."),
        ("n", True, "a whole number is wanted, got true (true or false). Write 1."),
        ("n", None, "a whole number is wanted, got null."),
        ("n", [1], "a whole number is wanted, got a list of 1."),
        ("share", "1e-3", "a number is wanted, got the text '1e-3'. Write 1e-3 without quotes."),
        ("flag", "on", "true or false is wanted, got the text 'on'. Write true."),
        ("flag", 0, "true or false is wanted, got 0 (int). Write false."),
        ("name", 1.1, 'a text is wanted, got 1.1 (float). Write "1.1", with quotes.'),
        ("name", False, "YAML reads on, yes, off and no as true or false; put the text in quotes."),
        ("maybe", "null", "a whole number or null is wanted, got the text 'null'. For nothing, write null."),
        ("word", "None", "the text 'None' most likely means nothing at all; write null."),
        ("mode", "fats", "the text 'fats' is not allowed here. Did you mean 'fast'? Known: fast, slow."),
        ("mode", True, "YAML reads on, yes, off and no"),
        ("stop", 3, "a list is wanted, got 3 (int). Write [3]."),
        ("stop", "\\n\\n", 'Put it in double quotes: "\\n\\n".'),
        ("stop", ["x", "\\n"], "strategy.stop.1: '\\\\n' holds a backslash and a letter"),
        ("pair", [1], "a list of 2 is wanted, got a list of 1."),
        ("either", [1], "a number or a whole number or a text is wanted, got a list of 1."),
        ("more", 3, "a mapping is wanted, got 3 (int)."),
        (
            "sampling",
            {"topk": 5},
            "strategy.sampling.topk: 'Sampling' has no setting 'topk'. Did you mean 'top_k'",
        ),
        ("sampling", 3, "a mapping is wanted, got 3 (int)."),
        (
            "watch",
            "first",
            "a watch is a mapping with the key `use`, got the text 'first'. Write {use: first}.",
        ),
        ("nn", 3, "strategy.nn: 'leaf' has no setting 'nn'. Did you mean 'n'?"),
        ("_target_", "os.system", "'_target_' is refused"),
    ],
)
def test_wrong_values_are_refused_with_advice(registry, key, value, message):
    with pytest.raises(ConfigError) as caught:
        leaf(registry, **{key: value})
    assert message in str(caught.value)
    assert caught.value.path.startswith(f"strategy.{key}")


def test_keys_that_yaml_turned_into_something_else_are_explained(registry):
    with pytest.raises(ConfigError, match="a key was read as true: YAML takes on, yes for it"):
        build("stage", {"use": "leaf", True: 1}, "strategy", registry)
    with pytest.raises(ConfigError, match="the key 3 is int, not a text"):
        leaf(registry, more={3: 1})


def test_a_part_needs_a_known_name(registry):
    with pytest.raises(
        ConfigError, match=r"strategy: `use` is missing; it names one of the stage parts: leaf, moved"
    ):
        build("stage", {}, "strategy", registry)
    with pytest.raises(
        UnknownPart, match=r"strategy\.stages\.a\.use: there is no stage 'leef'. Did you mean 'leaf'"
    ):
        build("stage", {"use": "tree", "stages": {"a": {"use": "leef"}}}, "strategy", registry)
    with pytest.raises(ConfigError, match=r"strategy\.use: the name of a part is a text, got true"):
        build("stage", {"use": True}, "strategy", registry)


def test_a_missing_setting_says_what_it_is(registry):
    with pytest.raises(ConfigError, match=r"strategy\.how: 'picky' needs the setting 'how': a text\."):
        build("stage", {"use": "picky"}, "strategy", registry)


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("config", ConfigError, r"^strategy\.stages\.a\.how: not like this$"),
        ("deep", ConfigError, r"^strategy\.stages\.a\.if\.k: not like this$"),
        ("value", ConfigError, r"^strategy\.stages\.a: 'picky' refused its settings: ValueError: bad value$"),
        ("extra", MissingExtra, r"^install it$"),
    ],
)
def test_what_a_part_refuses_itself_gets_its_path(registry, how, kind, message):
    with pytest.raises(kind, match=message):
        build("stage", {"use": "tree", "stages": {"a": {"use": "picky", "how": how}}}, "strategy", registry)


def test_parts_that_no_config_can_write_are_the_plugins_fault(registry):
    with pytest.raises(PluginError, match="is not a dataclass"):
        build("stage", {"use": "plain"}, "strategy", registry)
    with pytest.raises(PluginError, match="has a setting 'after', a key that configs use themselves"):
        build("stage", {"use": "moved"}, "strategy", registry)
    with pytest.raises(PluginError, match="cannot be written in a config"):
        build("stage", {"use": "odd", "when": 1}, "strategy", registry)


def tree(registry, **stages):
    mapping = {name: stage if stage is None else {"use": "leaf", **stage} for name, stage in stages.items()}
    return list(build("stage", {"use": "tree", "stages": mapping}, "s", registry).stages)


def test_stages_keep_their_order_can_be_removed_and_moved(registry):
    assert tree(registry, a={}, b={}, c={}) == ["a", "b", "c"]
    assert tree(registry, a={}, b=None, c={}) == ["a", "c"]
    assert tree(registry, a={}, b={}, c={"after": "a"}) == ["a", "c", "b"]
    assert tree(registry, a={"after": "c"}, b={}, c={}) == ["b", "c", "a"]
    assert tree(registry, a={}, z={}, b={"after": "a"}, c={"after": "a"}, d={"after": "b"}) == list("abdcz")


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (
            {"a": {}, "b": {"after": "aa"}},
            r"s\.stages\.b\.after: 'b' stands after 'aa', which is no other stage",
        ),
        ({"a": None, "b": {"after": "a"}}, "no other stage here. None exists"),
        ({"a": {"after": "a"}}, "no other stage here"),
        ({"a": {"after": "b"}, "b": {"after": "a"}}, "the stages a, b stand after each other in a circle"),
    ],
)
def test_orders_that_cannot_be_are_refused(registry, stages, message):
    with pytest.raises(ConfigError, match=message):
        tree(registry, **stages)


def test_settings_for_a_misspelt_stage_name_the_right_one(registry):
    mapping = {"use": "tree", "stages": {"sample": {"use": "leaf"}, "smaple": {"n": 2}}}
    with pytest.raises(ConfigError, match=r"so 'smaple' is no stage\. Did you mean 'sample'"):
        build("stage", mapping, "s", registry)


@pytest.mark.slow
@given(
    st.lists(st.sampled_from("abcdef"), unique=True, min_size=1).flatmap(
        lambda names: st.tuples(st.just(names), st.lists(st.integers(-3, 5), min_size=6, max_size=6))
    )
)
def test_order_is_a_permutation_in_which_each_follower_comes_later(case):
    from ttsflow.composing.order import in_order

    names, picks = case
    # Each may stand after an earlier one only, so that there is no circle.
    stages = {
        name: {"after": names[pick % place]} if place and pick >= 0 else {}
        for place, (name, pick) in enumerate(zip(names, picks, strict=False))
    }
    order = list(in_order(stages, ""))
    assert sorted(order) == sorted(names)
    for name, stage in stages.items():
        if "after" in stage:
            assert order.index(stage["after"]) < order.index(name)


def test_python_words_are_written_without_the_underscore(registry):
    mapping = {"use": "tree", "stages": {"a": {"use": "leaf"}}, "if": {"use": "enough"}}
    built = build("stage", mapping, "s", registry)
    assert built.if_ == Enough()
    assert explain(built, registry)["if"] == {"use": "enough", "at_least": 2}


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(),
        "share": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1000, 1000),
        "flag": st.booleans(),
        "name": st.text().filter(lambda text: "\\" not in text),
        "maybe": st.none() | st.integers(),
        "mode": st.sampled_from(["fast", "slow"]),
        "stop": st.lists(st.sampled_from(["a", "\n", ""])),
        "either": st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.just("x"),
        "more": st.dictionaries(st.sampled_from("abc"), st.integers() | st.none()),
        "sampling": st.fixed_dictionaries({"top_k": st.integers(0, 99)}),
    },
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from("abc"), SETTINGS, min_size=1), st.booleans())
def test_explain_is_the_inverse_of_build(stages, ends):
    registry = Registry()
    registry.add("stage", "leaf", Leaf, "test")
    registry.add("stage", "tree", Tree, "test")
    registry.add("until", "enough", Enough, "test")
    mapping = {"use": "tree", "stages": {name: {"use": "leaf", **s} for name, s in stages.items()}}
    if ends:
        mapping["until"] = {"use": "enough", "at_least": 3}
    built = build("stage", mapping, "", registry)
    plain = explain(built, registry)
    assert build("stage", plain, "", registry) == built
    assert explain(build("stage", plain, "", registry), registry) == plain
    assert list(plain["stages"]) == list(stages)


def test_explain_refuses_a_part_without_a_name(registry):
    with pytest.raises(PluginError, match="is not registered, so it has no name"):
        explain(Sampling(), Registry())


def test_walk_finds_every_part_with_its_path(registry):
    part = Tree({"a": Leaf(sampling=Sampling()), "b": Tree({"c": Leaf()}, until=Enough())})
    paths = [path for path, _ in walk(part, "strategy")]
    assert paths == [
        "strategy",
        "strategy.stages.a",
        "strategy.stages.a.sampling",
        "strategy.stages.b",
        "strategy.stages.b.stages.c",
        "strategy.stages.b.stages.c.sampling",
        "strategy.stages.b.until",
    ]


def test_fill_builds_a_dataclass_without_use(registry):
    assert fill(Sampling, {"top_p": 1}, "sampling", registry) == Sampling(top_p=1.0)
    with pytest.raises(ConfigError, match=r"sampling\.use: 'Sampling' has no setting 'use'"):
        fill(Sampling, {"use": "x"}, "sampling", registry)


def test_a_class_may_be_a_strategy(registry):
    own = Registry()
    own.add("strategy", "clever", Clever, "test")
    own.add("strategy", "leaf", Leaf, "test")
    own.add("stage", "tree", Tree, "test")
    mapping = {"use": "tree", "stages": {"a": {"use": "strategy", "name": "clever", "n": 4}}}
    built = build("stage", mapping, "", own)
    assert built.stages["a"] == Clever(n=4)
    assert build("stage", explain(built, own), "", own) == built
    with pytest.raises(ConfigError, match="`name` is missing; it names the strategy"):
        build("stage", {"use": "strategy"}, "", own)
    with pytest.raises(UnknownPart, match=r"^s\.name: there is no strategy 'clevr'"):
        build("stage", {"use": "strategy", "name": "clevr"}, "s", own)
    with pytest.raises(PluginError, match="which is the key of its own name"):
        build("stage", {"use": "strategy", "name": "leaf"}, "", own)


def test_real_parts_are_checked_too():
    registry = plugins.load()
    stage = {"use": "generate", "n": 2, "watch": {"use": "first_finished", "k": 3}}
    with pytest.raises(ConfigError, match=r"strategy\.stages\.sample\.watch\.k: k=3 of n=2 can never finish"):
        build("stage", {"use": "sequence", "stages": {"sample": stage}}, "strategy", registry)
    with pytest.raises(ConfigError, match="backslash"):
        build("stage", {"use": "generate", "unit": "step", "separator": "\\n"}, "s", registry)
