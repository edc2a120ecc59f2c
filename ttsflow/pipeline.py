"""The Python API: a strategy as an object, without a config file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttsflow.assemble import Setup, assemble
from ttsflow.errors import ConfigError
from ttsflow.protocols import Task
from ttsflow.session import Session, versions
from ttsflow.summary import Summary, summarize
from ttsflow.tasks.keys import Kind
from ttsflow.tasks.plain import Plain
from ttsflow.trace import JsonTrace
from ttsflow.types import Problem, Result

__all__ = ["Pipeline", "Run"]


@dataclass(frozen=True, slots=True)
class Run:
    """What ``Pipeline.run`` returns: results in the order of the problems, and their summary."""

    results: tuple[Result, ...]
    summary: Summary


class Pipeline:
    """A strategy bound to a model; the same parts, the same results as ``ttsflow run``.

    ``strategy`` is the name of a strategy or its mapping, and ``settings`` are its own, such as
    ``n=16``. ``model`` is a folder, a hub id or "demo"; ``engine`` is a mapping with further engine
    settings, or with ``use`` another engine. ``verifier`` is a name or a mapping. ``kind`` says what
    an answer is: number, math, choice or text; ``chat`` whether a question is put as a chat message
    or continued as raw text. ``sampling`` and ``budget`` are mappings as in the config.

    Raises ``ConfigError``, ``MissingExtra`` and ``PluginError`` at once; the model is loaded by the
    first question and stays loaded for other pipelines of the same engine settings.
    """

    def __init__(
        self,
        strategy: str | Mapping[str, Any],
        *,
        model: str | None = None,
        engine: Mapping[str, Any] | None = None,
        verifier: str | Mapping[str, Any] | None = None,
        task: Mapping[str, Any] | None = None,
        kind: Kind = "number",
        chat: bool = True,
        sampling: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
        seed: int = 0,
        concurrency: int = 8,
        **settings: Any,
    ) -> None:
        name = strategy if isinstance(strategy, str) else ""
        for reserved in {"use", "name"} & set(settings):
            raise ConfigError(
                f"a strategy has no setting '{reserved}'; name it by the first argument.", reserved
            )
        if not name and settings:
            raise ConfigError(
                "settings can be given to a strategy by name; put them into the mapping.",
                next(iter(settings)),
            )
        self._mapping: dict[str, Any] = {
            "strategy": _by_name(name, settings) if name else strategy,
            "engine": _engine(model, engine),
            "task": task or {"use": "plain", "kind": kind, "chat": chat},
            "verifier": {"use": verifier} if isinstance(verifier, str) else verifier,
            "sampling": dict(sampling or {}),
            "budget": dict(budget or {}),
            "seed": seed,
            "concurrency": concurrency,
            "choices": {"strategy": name} if name else {},
        }
        self._plain = None if task else Plain(kind=kind, chat=chat)
        self.setup: Setup = assemble(self._mapping, self._plain)

    def answer(self, question: str | Mapping[str, Any] | Problem) -> Result:
        """Answer one question; ``result.answer`` is the answer, ``result.text`` where it was taken from.

        Raises ``ModelError`` and ``EngineDead`` when the engine cannot work.
        """
        return self.run([question]).results[0]

    def run(
        self,
        problems: Iterable[str | Mapping[str, Any] | Problem] | None = None,
        *,
        trace: Path | None = None,
    ) -> Run:
        """Run all problems: texts, mappings with prompt, gold and id, or ``Problem``; default: the task's.

        ``trace`` is a file that events are appended to. Raises ``ModelError`` and ``EngineDead``.
        """
        task: Task = self.setup.task
        if problems is None and self._plain is not None:
            raise ConfigError("give run() problems, or the pipeline a task of its own.", "problems")
        if problems is not None:
            asked = (
                Plain(tuple(problems), kind=self._plain.kind, chat=self._plain.chat) if self._plain else None
            )
            if asked is None:
                raise ConfigError(
                    "this pipeline has a task of its own; call run() without problems.", "problems"
                )
            task = asked
        todo = list(task.problems())[: self.setup.limit]
        setup = replace(self.setup, task=task)
        recorder = JsonTrace(trace) if trace is not None else None
        name, found = setup.fingerprint, versions()
        with Session(setup) as session:
            try:
                done = [
                    replace(result, fingerprint=name, versions=found)
                    for result in session.run(todo, trace=recorder)
                ]
            finally:
                if recorder is not None:
                    recorder.close()
        place = {problem.id: index for index, problem in enumerate(todo)}
        done.sort(key=lambda result: place[result.id])
        summary = summarize(
            done,
            status="failed" if session.dead else "complete",
            names=setup.names,
            seed=setup.seed,
            fingerprint=name,
            planned=len(todo),
            wall_seconds=session.wall_seconds,
            versions=found,
            error=session.dead,
        )
        return Run(tuple(done), summary)


def _by_name(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    from ttsflow.config import strategy  # noqa: PLC0415 - only strategies by name need Hydra

    return strategy(name, settings)


def _engine(model: str | None, engine: Mapping[str, Any] | None) -> dict[str, Any]:
    mapping = {"use": "vllm", **(engine or {})}
    if model is not None:
        if "model" in mapping:
            raise ConfigError("the model is given twice, by `model` and in `engine`.", "model")
        mapping["model"] = model
    elif mapping["use"] == "vllm" and "model" not in mapping:
        raise ConfigError("a model is needed: a folder, a hub id or 'demo'.", "model")
    return mapping
