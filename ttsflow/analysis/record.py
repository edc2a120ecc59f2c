"""From a finished run to a file of recorded samples that ``engine=replay`` plays back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ttsflow import plugins
from ttsflow.build import build
from ttsflow.errors import ConfigError, DataError
from ttsflow.lineage import content_id
from ttsflow.protocols import Task
from ttsflow.recordings import Recording, Sample, write_recordings
from ttsflow.runs.lines import read_lines
from ttsflow.types import Answer, Problem

__all__ = ["Done", "record", "recorded"]


class Done(NamedTuple):
    """What was written, and how many candidates were left out, by the reason."""

    problems: int
    samples: int
    left_out: Mapping[str, int]


@dataclass(slots=True)
class _Case:
    """What the trace says of one problem: its whole trajectories and their scores, by sample number."""

    events: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    scores: dict[int, tuple[float | None, ...]] = field(default_factory=dict)
    prompt_tokens: int | None = None


def record(folder: Path, target: Path, *, texts: bool = True) -> Done:
    """Write the samples of the run in ``folder`` to ``target``, with or without their texts.

    Raises ``ConfigError`` for a target that exists or cannot be written, and what ``recorded`` raises.
    """
    if os.path.lexists(target):
        raise ConfigError(f"{str(target)!r} exists, and nothing is overwritten; choose another file.")
    if not target.parent.is_dir():
        raise ConfigError(f"there is no folder {str(target.parent)!r} to write to; make it first.")
    recordings, left_out = recorded(folder, texts=texts)
    try:
        write_recordings(target, recordings)
    except OSError as error:
        raise ConfigError(f"{str(target)!r} cannot be written: {error.strerror}.") from error
    return Done(len(recordings), sum(len(one.samples) for one in recordings), left_out)


def recorded(folder: Path, *, texts: bool = True) -> tuple[list[Recording], Counter[str]]:
    """Return the samples of the run in ``folder``, and how many candidates are left out, by the reason.

    A sample is a whole trajectory that ended by itself or at a limit; what was aborted or failed, and what
    continues another one, is left out and counted. Right or wrong is what the run's own task says. The
    problems keep their ids, so that the same task runs on the file.

    Raises ``ConfigError`` for a folder without a run or a trace and for a run in steps, ``DataError`` for a
    broken file, and what building the task raises.
    """
    config = _config(folder)
    left_out: Counter[str] = Counter()
    cases = _cases(folder / "trace.jsonl", left_out)
    results, broken = read_lines(folder / "results.jsonl")
    left_out["in broken lines"] += len(broken)
    ended = {str(row.get("id")) for row in results}
    # A problem without a result was in flight when the run ended: its short samples came first.
    for name in [name for name in cases if name not in ended]:
        left_out["of problems that had not ended"] += len(cases.pop(name).events)
    task: Task = build("task", config.get("task"), "task", plugins.load())
    problems = {problem.id: problem for problem in task.problems()}
    unknown = next((name for name in cases if name not in problems), None)
    if unknown is not None:
        raise DataError(
            f"the problem {unknown!r} of the trace is none of the run's task; its data must have changed."
        )
    labels = _labels(config)
    recordings = [
        Recording(
            id=name,
            samples=tuple(
                _sample(task, problem, cases[name], number, texts=texts) for number in sorted(found)
            ),
            gold=problem.gold,
            prompt_tokens=cases[name].prompt_tokens,
            prompt=content_id(repr(problem.prompt)),
            **labels,
        )
        for name, problem in problems.items()
        if name in cases and (found := cases[name].events)
    ]
    if not recordings:
        raise ConfigError(f"the run in {folder} has no sample that ended by itself or at a limit.")
    return recordings, +left_out


def _config(folder: Path) -> Mapping[str, Any]:
    for name in ("config.yaml", "results.jsonl", "trace.jsonl"):
        if not (folder / name).is_file():
            why = (
                " The run was made with trace=false, which keeps no samples." if name == "trace.jsonl" else ""
            )
            raise ConfigError(f"there is no {name} in {str(folder)!r}; give the folder of a run.{why}")
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{folder / 'config.yaml'} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{folder / 'config.yaml'} is no config of a run.")
    return config


def _cases(trace: Path, left_out: Counter[str]) -> dict[str, _Case]:
    """Return what the trace says of each problem. Raises ``ConfigError`` for a run in steps."""
    cases: dict[str, _Case] = {}
    events, broken = read_lines(trace)
    left_out["in broken lines"] += len(broken)
    for event in events:
        kind = event.get("event")
        if kind not in ("start", "candidate", "score"):
            continue
        try:
            if kind == "start":
                known = event.get("prompt_tokens")
                case = cases.setdefault(str(event["problem"]), _Case())
                case.prompt_tokens = None if known is None else int(known)
                continue
            _take(cases, event, left_out)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            left_out["in damaged events"] += 1
    return cases


def _take(cases: dict[str, _Case], event: Mapping[str, Any], left_out: Counter[str]) -> None:
    path = [int(number) for number in event["path"]]
    number = path[0]
    if "engine" in event:
        # A recording is of one model.
        left_out["of a further engine"] += 1
        return
    case = cases.setdefault(str(event["problem"]), _Case())
    if event["event"] == "score":
        if len(path) == 1 and "reason" not in event:
            case.scores[number] = tuple(event["scores"])
        return
    finish = event["finish"]
    if finish == "step":
        raise ConfigError(
            f"the run made its trajectories step by step, such as one of {str(event['problem'])!r}; only "
            "samples that were drawn whole can be played back, as those of majority or best_of_n."
        )
    if len(path) > 1:
        left_out["continued"] += 1
    elif finish in ("stop", "length"):
        case.events[number] = {**event, "tokens": int(event["tokens"]), "text": str(event["text"])}
    else:
        left_out[str(finish)] += 1


def _sample(task: Task, problem: Problem, case: _Case, number: int, *, texts: bool) -> Sample:
    event = case.events[number]
    tokens, text = event["tokens"], event["text"]
    answer: Answer | None = task.answer(text, problem) if event["finish"] == "stop" else None
    per_token = {
        name: tuple(event[name])
        for name in ("logprobs", "certainties")
        if len(event.get(name, ())) == tokens and tokens
    }
    return Sample(
        answer=None if answer is None else answer.text,
        tokens=tokens,
        correct=task.correct(answer, problem),
        finish=event["finish"],
        text=text if texts else None,
        scores=case.scores.get(number, ()),
        logprobs=tuple(map(tuple, per_token.get("logprobs", ()))),
        certainties=per_token.get("certainties", ()),
    )


def _labels(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of model and data set; of a folder with a model only the last part."""
    named = (config.get(name) for name in ("engine", "task"))
    engine, task = (part if isinstance(part, Mapping) else {} for part in named)
    model = str(engine.get("model") or engine.get("use", ""))
    choices = config.get("choices") or {}
    return {
        "model": Path(model).name if Path(model).is_absolute() else model,
        "dataset": str(choices.get("task") or task.get("use", "")),
    }
