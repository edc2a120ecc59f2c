"""What an earlier part of a run has left in its folder, put in order so that the run can go on from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from ttsflow.errors import ConfigError
from ttsflow.lineage import content_id
from ttsflow.runs.kept import Found, read_results
from ttsflow.runs.lines import replace_text, replacing
from ttsflow.runs.progress import FILES, holds_a_run, is_torn, read_summary
from ttsflow.session import versions
from ttsflow.setup import Setup
from ttsflow.summary import Summary
from ttsflow.types import Problem, Result

__all__ = ["Earlier", "data_id", "differing", "take_up", "told_summary"]

#: What a run writes; nothing else in its folder is touched.
_WRITTEN = (*FILES, "timeline.csv", "learnt*.json", "broken.txt")

#: Keys of a config that change neither an answer nor its price.
_FREE = {"choices", "concurrency", "trace", "record", "attribution", "logger"}


@dataclass(frozen=True, slots=True)
class Earlier:
    """What is kept: ``results`` of problems that ended, ``seconds`` the time they took.

    ``summary`` is that of a run which is complete, ``notes`` what a person should know.
    """

    results: Sequence[Result] = ()
    seconds: float = 0.0
    summary: Summary | None = None
    notes: Sequence[str] = field(default=())


def take_up(folder: Path, setup: Setup, mapping: Mapping[str, Any], problems: Sequence[Problem]) -> Earlier:
    """Return what is kept of the run in ``folder``, its files holding that and nothing else.

    Half lines, broken ones, and whatever belongs to a problem without a result are gone afterwards; a problem
    that failed counts as one without. A run whose problems depend on each other cannot go on from its middle:
    its files are put aside, and nothing is kept. Raises ``ConfigError`` when the folder holds the run of
    another config, ``DataError`` and ``OSError`` for files that cannot be used.
    """
    if not holds_a_run(folder):
        return Earlier()
    summary = read_summary(folder)
    file, path = folder / "config.yaml", folder / "results.jsonl"
    if not file.exists():
        if path.exists():
            raise ConfigError(f"{folder} holds results without a config.yaml; nobody knows of what.")
        return Earlier()  # its config could not even be composed
    _check_same(file, summary, setup, mapping)
    found, broken = read_results(path)
    unknown = found.keys() - {problem.id for problem in problems}
    if unknown:
        raise ConfigError(
            f"{folder} holds results of {len(unknown)} problems that the task does not have (any more), "
            f"such as {min(unknown)}; choose another folder."
        )
    _check_same_data(folder, summary, problems)
    if summary.get("status") == "complete" and len(found) == len(problems):
        return Earlier([result for result, _ in found.values()], summary=told_summary(summary))
    if setup.coupled is not None:
        return _begun_anew(folder, setup.coupled)
    notes = _versions_changed(summary)
    if broken and is_torn(path):
        broken.pop()
    if broken:
        notes.append(_name_broken(folder, broken))
    usage = summary.get("usage")
    seconds = usage.get("wall_seconds") if isinstance(usage, Mapping) else 0.0
    return Earlier(_put_in_order(folder, found), seconds=float(seconds or 0.0), notes=notes)


def _put_in_order(folder: Path, found: Mapping[str, Found]) -> list[Result]:
    """Write results and trace anew with what is kept, and return it."""
    kept = [name for name, (result, _) in found.items() if result.outcome != "failed"]
    trace, path = folder / "trace.jsonl", folder / "results.jsonl"
    if trace.exists():
        kept = _with_whole_trace(trace, kept)
    if path.exists():
        texts = [json.dumps(found[name][1], ensure_ascii=False) + "\n" for name in kept]
        replace_text(path, "".join(texts))
    return [found[name][0] for name in kept]


def _begun_anew(folder: Path, why: str) -> Earlier:
    name = _put_aside(folder)
    if name is None:
        return Earlier()
    return Earlier(notes=[f"begun anew, since {why}; what was there is in {folder / name}"])


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys in which two configs differ, those that change no result left out."""
    one, two = (dict(_flat({k: v for k, v in each.items() if k not in _FREE})) for each in (old, new))
    return sorted(key for key in one.keys() | two.keys() if one.get(key, ...) != two.get(key, ...))


def told_summary(said: Mapping[str, Any]) -> Summary:
    """Return a summary from what its file says. Raises ``TypeError`` when keys are missing."""
    return Summary(**{item.name: said[item.name] for item in fields(Summary) if item.name in said})


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, [*value] if isinstance(value, list | tuple) else value


def _check_same(file: Path, summary: Mapping[str, Any], setup: Setup, mapping: Mapping[str, Any]) -> None:
    if summary.get("fingerprint") == setup.fingerprint:
        return
    try:
        old = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    keys = differing(old if isinstance(old, Mapping) else {}, mapping)
    if not summary.get("fingerprint") and not keys:
        return  # it was killed before it wrote its first summary
    if not keys:
        made_by = summary.get("versions")
        theirs = made_by.get("ttsflow") if isinstance(made_by, Mapping) else "another version"
        why = f"its settings are the same, but other defaults stood behind them (ttsflow {theirs})"
    else:
        told = [f"{key} was {_told(old, key)} and is {_told(mapping, key)}" for key in keys[:8]]
        why = "; ".join(told) + (f"; and {len(keys) - 8} more" if keys[8:] else "")
    raise ConfigError(f"{file.parent} holds a run of another config, so it cannot be continued: {why}.")


def data_id(problems: Sequence[Problem]) -> str:
    """Return a name of the problems of a run: another one where a question or a gold answer is another."""
    return content_id(repr([(problem.id, problem.prompt, problem.gold) for problem in problems]))


def _check_same_data(folder: Path, summary: Mapping[str, Any], problems: Sequence[Problem]) -> None:
    known = summary.get("data")
    if known and known != data_id(problems):
        raise ConfigError(
            f"{folder} holds a run on other questions or gold answers: the data of the task has changed "
            "since. Choose another folder, or bring back the data it began with.",
            "task",
        )


def _told(mapping: Any, key: str) -> str:
    for name in key.split("."):
        if not isinstance(mapping, Mapping) or name not in mapping:
            return "not set"
        mapping = mapping[name]
    text = json.dumps(mapping, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _versions_changed(summary: Mapping[str, Any]) -> list[str]:
    now, then = versions(), summary.get("versions")
    if not isinstance(then, Mapping):
        return []
    told = [
        f"{name} was {version} and is {now.get(name, 'not installed')}"
        for name, version in then.items()
        if now.get(name) != version
    ]
    return [f"the rest is made by other versions: {', '.join(told)}"] if told else []


def _name_broken(folder: Path, numbers: Sequence[int]) -> str:
    """Keep the lines that hold no result in a file of their own, and return what is to be said of them."""
    lines = (folder / "results.jsonl").read_text(encoding="utf-8", errors="replace").split("\n")
    with (folder / "broken.txt").open("a", encoding="utf-8") as file:
        file.writelines(lines[number - 1] + "\n" for number in numbers)
    places = f"line {', '.join(map(str, numbers[:8]))}{', ...' if numbers[8:] else ''}"
    count = f"{len(numbers)} line{'s' if numbers[1:] else ''}"
    return (
        f"{count} of {folder / 'results.jsonl'} ({places}) could not be read; their problems are run again, "
        "and broken.txt keeps them"
    )


def _with_whole_trace(path: Path, kept: Sequence[str]) -> list[str]:
    """Drop events of problems that are not kept; return those of ``kept`` whose events are all there."""
    whole = {str(event.get("problem")) for event in _events(path) if event.get("event") == "result"}
    kept = [name for name in kept if name in whole]
    names = {*kept}
    with replacing(path) as part, part.open("w", encoding="utf-8") as file:
        for event in _events(path):
            if event.get("problem") in names:
                file.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")
    return kept


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event


def _put_aside(folder: Path) -> str | None:
    """Move what an earlier run wrote into a folder below, and return its name; None without a result."""
    results = folder / "results.jsonl"
    number = 1
    while (folder / f"earlier-{number}").exists():
        number += 1
    files = [file for name in _WRITTEN for file in folder.glob(name)]
    if not (results.exists() and results.stat().st_size):
        for file in files:
            file.unlink()
        return None
    aside = folder / f"earlier-{number}"
    aside.mkdir()
    # Without a config nobody would know what is left, should this be cut short.
    for file in sorted(files, key=lambda file: file.name == "config.yaml"):
        file.rename(aside / file.name)
    return aside.name
