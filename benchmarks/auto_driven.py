"""``strategy=auto`` through the real driver on the questions of a stream: recordings and a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose, strategy_of
from ttsflow.engines.recorded_paths import shuffled
from ttsflow.recordings import Recording, write_recordings
from ttsflow.session import Session

__all__ = ["driven"]


def driven(
    questions: Sequence[tuple[str, int]],
    recordings: Mapping[str, Recording],
    arms: Mapping[str, Sequence[str]],
    folder: Path,
    **settings: Any,
) -> list[tuple[bool, int]]:
    """Return of each question whether the answer is right, and the tokens that were decoded for it.

    ``questions`` are (problem, order of its samples). One that comes again becomes another problem.
    ``arms`` are the words that set each strategy, its declared cost the first of them; ``settings`` are
    ``budget`` (tokens of the run, None for none), ``reward``, ``seed`` and ``concurrency``.
    """
    played = [
        _dealt(recordings[problem], order, f"{place}:{problem}")
        for place, (problem, order) in enumerate(questions)
    ]
    path = folder / "stream.jsonl"
    write_recordings(path, played)
    setup = assemble(_config(path, arms, **settings))
    place_of = {recording.id: place for place, recording in enumerate(played)}
    found: list[tuple[bool, int]] = [(False, 0)] * len(played)
    with Session(setup) as session:
        for result in session.run(list(setup.task.problems())):
            found[place_of[result.id]] = (bool(result.correct), result.usage.decoded)
    return found


def _dealt(recording: Recording, order: int, name: str) -> Recording:
    places = shuffled(len(recording.samples), recording.id, order)
    return replace(recording, id=name, samples=tuple(recording.samples[place] for place in places))


def _config(
    path: Path,
    arms: Mapping[str, Sequence[str]],
    *,
    reward: str,
    budget: float | None,
    seed: int,
    concurrency: int,
) -> dict[str, Any]:
    strategies = {}
    for name, (_, first, *words) in arms.items():
        own = dict(word.removeprefix("strategy.").split("=") for word in words)
        strategies[name] = {"use": "strategy", "name": first.removeprefix("strategy=")} | {
            key: int(value) for key, value in own.items()
        }
    auto = {
        "use": "auto",
        "arms": strategies,
        "costs": {name: float(words[0]) for name, words in arms.items()},
        "reward": reward,
        "features": ["dataset"],
        "learning": {"price": 0.0},
    }
    words = [
        *("engine=replay", f"engine.path={path}", "task=recorded", f"task.path={path}"),
        *(f"seed={seed}", f"concurrency={concurrency}", "trace=false"),
        *([] if budget is None else [f"budget.run.tokens={budget}"]),
    ]
    return {**compose(words), "strategy": strategy_of(auto)}
