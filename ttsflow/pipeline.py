"""The Python API: a strategy as an object, without a config file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttsflow.assemble import assemble
from ttsflow.choosers import check_gold
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.protocols import Task
from ttsflow.session import Session, versions
from ttsflow.setup import Setup
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

    ``strategy`` is the name of a strategy, with ``settings`` of its own such as ``n=16``, or a mapping as
    in a strategy file; ``config_dir`` is a folder with config groups of your own. ``model`` is a folder, a
    hub id or "demo"; ``engine`` holds further engine settings, or names another engine. ``verifier`` is a
    name or a mapping. ``kind`` says what an answer is: number, math, choice or text; ``chat`` whether a
    question is put as a chat message or continued as raw text. A ``task`` replaces both and brings its
    own problems. ``sampling`` is the name of a preset or, like ``budget``, a mapping
    as in the config.

    Raises ``ConfigError``, ``MissingExtra`` and ``PluginError`` at once; the model is loaded by the
    first question and stays loaded for other pipelines of the same engine settings.
    """

    def __init__(
        self,
        strategy: str | Mapping[str, Any],
        *,
        model: str | None = None,
        engine: str | Mapping[str, Any] | None = None,
        verifier: str | Mapping[str, Any] | None = None,
        task: str | Mapping[str, Any] | None = None,
        hardware: str | Mapping[str, Any] | None = None,
        kind: Kind = "number",
        chat: bool = True,
        sampling: str | Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
        seed: int = 0,
        concurrency: int = 8,
        config_dir: str | None = None,
        **settings: Any,
    ) -> None:
        own_task = _part(task, "task")
        self._plain = None if own_task else Plain(kind=kind, chat=chat)
        if isinstance(engine, Mapping) and engine.get("use") == "sim" and sampling is None:
            sampling = "simulated"
        mapping: dict[str, Any] = {
            "strategy": _strategy(strategy, settings, config_dir),
            "engine": _on(hardware, _engine(model, _part(engine, "engine"))),
            "task": own_task,
            "verifier": _part(verifier, "verifier"),
            "sampling": _sampling(sampling, engine),
            "budget": _mapping(budget, "budget"),
            "seed": seed,
            "concurrency": concurrency,
            "choices": {"strategy": strategy} if isinstance(strategy, str) else {},
        }
        self.setup: Setup = assemble(mapping, self._plain)

    def answer(self, question: str | Mapping[str, Any] | Problem) -> Result:
        """Answer one question; ``result.answer`` is the answer, ``result.text`` where it was taken from.

        Raises ``ModelError`` and ``EngineDead`` when the engine cannot work.
        """
        run, dead = self._run([question], None)
        if dead is not None:
            raise EngineDead(dead)
        return run.results[0]

    def run(
        self,
        problems: Iterable[str | Mapping[str, Any] | Problem] | None = None,
        *,
        trace: str | Path | None = None,
    ) -> Run:
        """Run all problems: texts, mappings with prompt, gold and id, or ``Problem``; default: the task's.

        ``trace`` is a file that events are appended to. Raises ``ModelError``. When the engine dies
        midway, the problems left are failed with the reason, which is also ``summary.error``; when the
        breaker of the budget ends the run, they are deferred with it.
        """
        return self._run(problems, trace)[0]

    def _run(
        self, problems: Iterable[str | Mapping[str, Any] | Problem] | None, trace: str | Path | None
    ) -> tuple[Run, str | None]:
        """Return the run, and why its engine died if it did."""
        setup = replace(self.setup, task=self._task(problems))
        todo = list(setup.task.problems())[: setup.limit]
        check_gold(setup.strategy, setup.task, todo)
        name, found = setup.fingerprint, versions()
        with ExitStack() as stack:
            recorder = stack.enter_context(closing(JsonTrace(Path(trace)))) if trace is not None else None
            session = stack.enter_context(Session(setup))
            done = [
                replace(result, fingerprint=name, versions=found)
                for result in session.run(todo, trace=recorder)
            ]
        place = {problem.id: index for index, problem in enumerate(todo)}
        done.sort(key=lambda result: place[result.id])
        summary = summarize(
            done,
            status="failed" if session.error else "complete",
            names=setup.names,
            seed=setup.seed,
            fingerprint=name,
            planned=len(todo),
            wall_seconds=session.wall_seconds,
            versions=found,
            error=session.error,
            work=session.work,
            joules_source=session.joules_source,
            exact=session.exact,
        )
        return Run(tuple(done), summary), session.dead

    def _task(self, problems: Iterable[Any] | None) -> Task:
        if self._plain is None:
            if problems is not None:
                raise ConfigError("this pipeline has a task of its own; call run() without any.", "problems")
            return self.setup.task
        if problems is None:
            raise ConfigError("give run() problems, or the pipeline a task of its own.", "problems")
        if isinstance(problems, str | Mapping | Problem):
            raise ConfigError("is one problem; give a list of problems, or call answer().", "problems")
        items = tuple(problems)
        for place, item in enumerate(items):
            if not isinstance(item, str | Mapping | Problem):
                raise ConfigError(
                    f"a text, a mapping or a Problem is wanted, got {item!r}.", f"problems.{place}"
                )
        return replace(self._plain, items=items)


def _strategy(
    strategy: str | Mapping[str, Any], settings: Mapping[str, Any], config_dir: str | None
) -> dict[str, Any]:
    for reserved in {"use", "name"} & set(settings):
        raise ConfigError(f"a strategy has no setting '{reserved}'; name it by the first argument.", reserved)
    from ttsflow import config  # noqa: PLC0415 - Hydra is loaded for whoever makes a pipeline

    if isinstance(strategy, str):
        return config.strategy(strategy, settings, config_dir)
    if not isinstance(strategy, Mapping):
        raise ConfigError(f"a strategy is a name or a mapping, got {strategy!r}.", "strategy")
    return config.strategy_of({**strategy, **settings}, config_dir)


def _sampling(sampling: str | Mapping[str, Any] | None, engine: Any) -> dict[str, Any]:
    """Return the settings of a preset, or those that go with an engine named and not described."""
    named = isinstance(engine, str) and sampling is None
    if not (named or isinstance(sampling, str)):
        return _mapping(sampling, "sampling")
    from ttsflow import config  # noqa: PLC0415 - Hydra is loaded for whoever makes a pipeline

    words = [f"engine={engine}"] if named else [f"sampling={sampling}"]
    return dict(config.compose(words)["sampling"])


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"a mapping of settings is wanted, got {value!r}.", name)
    return dict(value or {})


def _part(value: Any, name: str) -> dict[str, Any] | None:
    """Return a part's mapping; a bare name is a part without settings."""
    if value is None:
        return None
    return {"use": value} if isinstance(value, str) else _mapping(value, name)


def _on(hardware: str | Mapping[str, Any] | None, engine: dict[str, Any]) -> dict[str, Any]:
    """Return an engine with the device it simulates: a name of the config group, or its numbers."""
    if engine["use"] != "sim":
        if hardware is not None:
            raise ConfigError("only engine='sim' simulates a device.", "hardware")
        return engine
    if hardware is not None and "hardware" in engine:
        raise ConfigError("the device is given twice, by `hardware` and in `engine`.", "hardware")
    if isinstance(hardware, Mapping):
        return {**engine, "hardware": hardware}
    if "hardware" in engine:
        return engine
    from ttsflow import config  # noqa: PLC0415 - Hydra is loaded for whoever makes a pipeline

    words = ["engine=sim", *([] if hardware is None else [f"hardware={hardware}"])]
    return {**engine, "hardware": config.compose(words)["hardware"]}


def _engine(model: str | None, engine: Mapping[str, Any] | None) -> dict[str, Any]:
    mapping = {"use": "vllm", **(engine or {})}
    if model is not None:
        if "model" in mapping:
            raise ConfigError("the model is given twice, by `model` and in `engine`.", "model")
        mapping["model"] = model
    elif mapping["use"] == "vllm" and "model" not in mapping:
        raise ConfigError("a model is needed: a folder, a hub id or 'demo'.", "model")
    return mapping
