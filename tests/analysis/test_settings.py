"""In which settings runs differ, what they are called, and which have one setting."""

import pytest

from ttsflow.analysis.runs import read_run
from ttsflow.analysis.settings import differences, dotted, names, same_setting
from ttsflow.config import compose
from ttsflow.reporting.panels import panels
from ttsflow.run import run_config

ROWS = {"a": True}


def test_leaves_have_dotted_keys():
    config = {"a": {"b": 1, "c": {"d": [1, 2]}}, "e": {}, "f": None}
    assert dotted(config) == {"a.b": 1, "a.c.d": [1, 2], "e": {}, "f": None}


def test_runs_are_named_by_what_tells_them_apart(write_run):
    runs = [
        read_run(write_run(f"{name}{n}", ROWS, strategy=name, n=n)) for name in ("ffs", "lfs") for n in (2, 4)
    ]
    assert names(runs) == ["ffs n=2", "ffs n=4", "lfs n=2", "lfs n=4"]
    assert names(runs[1:3]) == ["ffs", "lfs"]


def test_a_setting_outside_the_strategy_is_named_for_all(write_run):
    def run(name, strategy, model):
        return read_run(
            write_run(name, ROWS, strategy=strategy, config={"engine": {"use": "x", "model": model}})
        )

    runs = [run("a", "ffs", "small"), run("b", "lfs", "large")]
    assert names(runs) == ["ffs engine.model=small", "lfs engine.model=large"]


def test_settings_that_go_together_are_named_once(write_run):
    runs = [
        read_run(write_run(str(n), ROWS, n=n, config={"strategy": {"use": "sequence", "n": n, "k": n // 2}}))
        for n in (2, 4)
    ]
    assert names(runs) == ["majority n=2", "majority n=4"]


def test_what_a_run_has_not_is_not_in_its_name(write_run):
    """A file of a group explains its settings; an empty or missing one says nothing."""

    def run(name, strategy, choice=None, **config):
        choices = {"strategy": strategy, "task": "sums", "engine": "fake"} | (
            {"cost": choice} if choice else {}
        )
        return read_run(write_run(name, ROWS, strategy=strategy, config={"choices": choices, **config}))

    money = {"money": {"use": "money", "prompt": 1.0, "decoded": 2.0}}
    runs = [
        run("a", "short", "default", cost={}),
        run("b", "short", "money", cost=money),
        run("c", "short", "money", cost={"money": {**money["money"], "prompt": 9.0}}),
        run("d", "auto", "default", cost={}, budget={"run": {}}),
        run("e", "auto", "default", cost={}, budget={"run": {"tokens": 500}}),
        run("f", "majority", "default", cost={}, engine={"use": "fake", "pool": "x"}),
        run("g", "majority", "default", cost={}, limit=None),
    ]
    assert names(runs) == [
        "short cost=default",
        "short cost=money cost.money.prompt=1.0",
        "short cost=money cost.money.prompt=9.0",
        "auto cost=default",
        "auto budget.run.tokens=500 cost=default",
        "majority engine.pool=x cost=default",
        "majority cost=default",
    ]
    assert names(runs[3:]) == ["auto", "auto budget.run.tokens=500", "majority engine.pool=x", "majority"]


def test_a_budget_explains_what_it_is_counted_in(write_run):
    def run(name, budget, cost):
        choices = {"strategy": "ffs", "task": "sums", "engine": "fake", "budget": budget, "cost": cost}
        return read_run(write_run(name, ROWS, strategy="ffs", config={"choices": choices}))

    runs = [run("a", "none", "default"), run("b", "dollar_cap", "money")]
    assert names(runs) == ["ffs budget=none", "ffs budget=dollar_cap"]
    assert names([*runs, run("c", "none", "money")])[::2] == [
        "ffs budget=none cost=default",
        "ffs budget=none cost=money",
    ]


def test_equal_runs_are_told_apart_by_their_folders(write_run):
    folders = [write_run(name, ROWS) for name in "ab"]
    assert names([read_run(folder) for folder in folders]) == [f"majority ({folder})" for folder in folders]


def test_a_setting_of_the_tree_alone_is_named(write_run):
    trees = [{"use": "sequence", "stages": {"sample": {"ties": ties}}} for ties in ("first", "last")]
    runs = [
        read_run(write_run(f"{place}", ROWS, config={"strategy": tree})) for place, tree in enumerate(trees)
    ]
    assert names(runs) == ["majority ties=first", "majority ties=last"]


@pytest.mark.slow
def test_differences_are_few_and_their_own(tmp_path):
    base = ["engine=fake", "limit=2", "trace=false"]
    asked = {
        "one": [*base, "strategy=majority", "strategy.n=2"],
        "two": [*base, "strategy=majority", "strategy.n=4", "seed=3"],
        "other": [*base, "strategy=ffs", "strategy.n=4"],
    }
    runs = {}
    for name, overrides in asked.items():
        run_config(compose(overrides), tmp_path / name)
        runs[name] = read_run(tmp_path / name)
    assert differences(runs["one"], runs["one"]) == []
    found = differences(runs["one"], runs["two"])
    assert ("variables.n", "2", "4") in found
    assert ("seed", "0", "3") in found
    assert all(key.rpartition(".")[2] in {"n", "seed"} for key, _, _ in found)
    keys = {key for key, _, _ in differences(runs["one"], runs["other"])}
    assert {"choices.strategy", "variables.n", "variables.k"} <= keys
    assert not any(key.startswith("strategy.") for key in keys)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seed": 5}, True),
        ({"limit": 9}, True),
        ({"verifier": {"use": "equations"}}, True),
        ({"engine": {"use": "fake", "seats": 3, "speculation": True}}, True),
        ({"engine": {"use": "fake", "model": "other"}}, False),
        ({"engine": {"use": "fake", "new_setting": 1}}, False),
        ({"sampling": {"temperature": 0.1}}, False),
        ({"task": {"use": "others"}}, False),
    ],
)
def test_a_setting_is_the_same_while_its_samples_are(write_run, change, same):
    one, other = (
        read_run(write_run(name, ROWS, config=config)) for name, config in (("a", {}), ("b", change))
    )
    assert (same_setting(one) == same_setting(other)) is same


def test_a_config_of_any_kind_has_names_and_settings(write_run):
    odd = {"1": "x", 2: {None: [1, {"a": 2}], True: {}}, "engine": ["none"], "choices": "none", "task": 4}
    runs = [read_run(write_run(name, ROWS, config={**odd, "extra": name})) for name in "ab"]
    assert len(set(names(runs))) == 2
    assert same_setting(runs[0]) != same_setting(runs[1])
    assert ("extra", "a", "b") in differences(*runs)
    assert len(panels(runs)) == 1
