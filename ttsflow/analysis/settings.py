"""In which settings runs differ, and names for runs that say it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ttsflow.acceleration import Acceleration
from ttsflow.analysis.runs import Run

__all__ = ["Difference", "differences", "dotted", "names", "same_setting"]

#: What belongs to a strategy: two strategies differ in it by themselves.
_OF_STRATEGY = ("strategy", "variables", "verifier", "sampling", "budget")
#: What may differ between runs whose samples are of one distribution: besides what a strategy brings, what is
#: measured, how many problems there are, and how quickly they go.
_OF_ITS_OWN = (
    *("strategy", "variables", "verifier", "budget", "choices", "seed", "limit", "cost", "meter", "load"),
    *("hardware", "attribution", "concurrency", "trace", "record"),
)
#: Settings of an engine that change how long a run takes and no answer.
_OF_SPEED = {
    *Acceleration.__dataclass_fields__,
    "check_exact",
    "seats",
    "hardware",
    "kv_gib",
    "partial_blocks",
}
_MOST = 40  # characters of a value in a name


class Difference(NamedTuple):
    """One setting, and what it is in two runs; None where it is not there."""

    key: str
    first: str | None
    second: str | None


def dotted(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a config by their dotted keys; a list is a leaf."""
    leaves: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            leaves |= dotted(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def differences(first: Run, second: Run) -> list[Difference]:
    """Return the settings in which two runs differ, without what follows from another.

    The tree of the strategy is compared only where both have the same strategy; with two, its name and its
    variables say it.
    """
    one, other = dotted(first.config), dotted(second.config)
    keys = [key for key in _ordered({**one, **other}) if one.get(key, _GONE) != other.get(key, _GONE)]
    if first.strategy != second.strategy:
        keys = [key for key in keys if _root(key) != "strategy"]
    groups = {key.partition(".")[2] for key in keys if _root(key) == "choices"}
    # Another file of a group explains the settings in it, but for those of a strategy, which are few.
    keys = [key for key in keys if _root(key) not in groups - {"strategy", "variables"}]
    return [Difference(key, *(_shown(leaves, key) for leaves in (one, other))) for key in keys]


def names(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run: its strategy, and the settings in which it differs from others.

    What differs among the runs of its strategy comes first, then what differs among all. Settings that go
    together are named once; what a run has not, or has empty, is not in its name. Where names would be equal,
    folders tell the runs apart.
    """
    leaves = [dotted(run.config) for run in runs]
    every = _ordered({key: None for one in leaves for key in one})
    common = [key for key in every if key.removeprefix("choices.").partition(".")[0] not in _OF_STRATEGY]
    told: list[list[str]] = [[] for _ in runs]
    for strategy in dict.fromkeys(run.strategy for run in runs):
        mine = [place for place, run in enumerate(runs) if run.strategy == strategy and run.config]
        keys = _telling(leaves, mine, every)
        patterns = {tuple(_said(one, key) for one in leaves) for key in keys}
        for key in _telling(leaves, [place for place, run in enumerate(runs) if run.config], common):
            if key not in keys and tuple(_said(one, key) for one in leaves) not in patterns:
                keys.append(key)
        for place in mine:
            known = [(key, _said(leaves[place], key)) for key in keys]
            told[place] = [f"{_short(key)}={value}" for key, value in known if value is not None]
    labels = [" ".join([run.strategy, *words]) for run, words in zip(runs, told, strict=True)]
    often = Counter(labels)
    return [
        label if often[label] == 1 else f"{label} ({run.folder})"
        for label, run in zip(labels, runs, strict=True)
    ]


def same_setting(run: Run) -> str:
    """Return a key that runs share whose questions, model and sampling are the same.

    What is not known to leave them alone is a difference: a baseline that is not one is worse than none.
    """
    config = {key: value for key, value in run.config.items() if key not in _OF_ITS_OWN}
    engine = config.get("engine")
    if isinstance(engine, Mapping):
        config["engine"] = {key: value for key, value in engine.items() if key not in _OF_SPEED}
    return repr(sorted((key, repr(value)) for key, value in dotted(config).items()))


_GONE = object()


def _root(key: str) -> str:
    return key.partition(".")[0]


def _ordered(keys: Iterable[str]) -> list[str]:
    """Return keys, those first that say most: variables, chosen files, the rest, the strategy's tree."""
    ranks = {"variables": 0, "choices": 1, "strategy": 3}
    return sorted(keys, key=lambda key: ranks.get(_root(key), 2))


def _telling(leaves: Sequence[Mapping[str, Any]], places: Sequence[int], keys: Sequence[str]) -> list[str]:
    """Return the keys in which the runs at ``places`` differ, one of those that go together.

    Another file of a group explains the settings in it: they count where runs with one file differ.
    """
    found: dict[tuple[str | None, ...], str] = {}
    for key in keys:
        alike: dict[str | None, set[str | None]] = {}
        for place in places:
            alike.setdefault(_file(leaves[place], key), set()).add(_said(leaves[place], key))
        if any(len(values) > 1 for values in alike.values()):
            found.setdefault(tuple(_said(leaves[place], key) for place in places), key)
    # The strategy's own tree follows from its variables, where these tell the runs apart.
    plain = [key for key in found.values() if _root(key) != "strategy"]
    apart = len({tuple(_said(leaves[place], key) for key in plain) for place in places}) == len(places)
    return plain if apart else list(found.values())


def _file(leaves: Mapping[str, Any], key: str) -> str | None:
    """Return which file a setting comes from: that of its group; a budget brings the file of its costs.

    The other choices themselves come from none.
    """
    if key == "choices.cost":
        return _shown(leaves, "choices.budget")
    return _shown(leaves, f"choices.{_root(key)}") if _root(key) not in ("choices", "strategy") else None


def _said(leaves: Mapping[str, Any], key: str) -> str | None:
    """Return a value as it is written in a name; None where there is nothing to say."""
    return None if leaves.get(key) in (None, "", {}, []) else _shown(leaves, key)


def _short(key: str) -> str:
    """Return a key as it is written in a name: without what every such key begins with."""
    for prefix in ("variables.", "choices."):
        key = key.removeprefix(prefix)
    return key.rpartition(".")[2] if _root(key) in ("sampling", "strategy") else key


def _shown(leaves: Mapping[str, Any], key: str) -> str | None:
    """Return a value as it is written in a config; None where there is none."""
    value = leaves.get(key, _GONE)
    if value is _GONE:
        return None
    plain = value is None or isinstance(value, bool | int | float)
    text = json.dumps(value) if plain else str(value)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}\u2026"
