"""The registry: names, lazy targets, clashes, and what it says about what is not there."""

import sys

import pytest

from ttsflow.builtin import PARTS
from ttsflow.errors import ConfigError, PluginError, UnknownPart
from ttsflow.plugins import load
from ttsflow.registry import KINDS, Entry, Registry
from ttsflow.strategies.flow import Sequence


class Local:
    """Does something local.

    Source: somewhere
    """


@pytest.fixture
def registry():
    return Registry()


def test_a_target_is_imported_when_it_is_asked_for(registry):
    registry.add("stage", "late", "this.does.not:Exist", "me")
    assert [entry.name for entry in registry.entries()] == ["late"]
    with pytest.raises(PluginError, match=r"stage 'late' of me cannot be loaded from this\.does\.not:Exist"):
        registry.get("stage", "late")


def test_a_class_may_be_registered_itself(registry):
    registry.add("watch", "local", Local, "me")
    assert registry.get("watch", "local") is Local
    assert registry.entries("watch") == [Entry("watch", "local", Local, "me")]
    assert registry.entries("watch")[0].doc == "Does something local."
    assert registry.entries("watch")[0].notes["source"] == "somewhere"
    assert registry.entries("stage") == []


def test_unknown_parts_name_the_nearest_and_all_known(registry):
    registry.add("stage", "generate", Local, "me")
    registry.add("watch", "other", Local, "me")
    with pytest.raises(UnknownPart) as caught:
        registry.get("stage", "generat")
    assert str(caught.value) == "there is no stage 'generat'. Did you mean 'generate'? Known: generate."


def test_two_providers_of_one_name_are_both_refused(registry):
    registry.add("stage", "mine", Local, "zeta")
    with pytest.raises(PluginError, match="stage 'mine' is registered by alpha and by zeta"):
        registry.add("stage", "mine", Local, "alpha")
    with pytest.raises(PluginError, match="by alpha and by zeta"):
        registry.get("stage", "mine")
    assert registry.entries() == []
    assert len(registry.clashes()) == 1


def test_one_name_may_belong_to_two_kinds(registry):
    registry.add("stage", "same", Local, "me")
    registry.add("watch", "same", Local, "me")
    assert len(registry.entries()) == 2


@pytest.mark.parametrize(
    ("kind", "name", "target", "message"),
    [
        ("stagee", "x", "a:B", "no kind of part. Did you mean 'stage'"),
        ("stage", "x", "a.b", "a target is 'module:Class'"),
        ("stage", "x", ":B", "a target is 'module:Class'"),
        ("stage", "strategy", "a:B", "mounts whole strategies"),
    ],
)
def test_bad_registrations_are_refused(registry, kind, name, target, message):
    with pytest.raises(PluginError, match=message):
        registry.add(kind, name, target, "me")


def test_a_target_that_is_no_class_is_refused(registry):
    registry.add("stage", "x", "os:getcwd", "me")
    with pytest.raises(PluginError, match="is not a class but builtin"):
        registry.get("stage", "x")


def test_a_missing_config_package_is_refused(registry):
    with pytest.raises(PluginError, match=r"config package 'no\.such\.conf' cannot be found"):
        registry.add_configs("no.such.conf", "me")


def test_strategies_are_the_files_of_the_strategy_group():
    registry = load()
    entry = registry.find("strategy", "majority")
    assert entry.is_config
    assert entry.doc
    assert {"what", "source", "cost"} <= set(entry.notes)
    with pytest.raises(ConfigError, match="is a config file, not a class"):
        registry.get("strategy", "majority")


@pytest.mark.slow
def test_every_builtin_part_loads_has_a_docstring_and_a_known_kind():
    registry = load()
    assert set(PARTS) < set(KINDS)
    for entry in registry.entries():
        assert entry.doc, entry
        assert entry.provider == "ttsflow"
        if not entry.is_config:
            assert registry.entry_of(entry.load()) is not None


def test_describing_parts_imports_none_of_them():
    registry = load()
    names = [name for name in sys.modules if name.startswith("ttsflow.engines.vllm_")]
    assert all(entry.notes is not None for entry in registry.entries("engine"))
    assert [name for name in sys.modules if name.startswith("ttsflow.engines.vllm_")] == names


def test_entry_of_finds_a_class_that_is_registered_under_another_module():
    entry = load().entry_of(Sequence)
    assert (entry.kind, entry.name) == ("stage", "sequence")
    assert load().entry_of(Local) is None
