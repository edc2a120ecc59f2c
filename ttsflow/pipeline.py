"""The Python API: a strategy as an object, without a config file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttsflow.choosers import check_gold
from ttsflow.composing.arguments import (
    budgeted,
    engine_of,
    engines_of,
    group_of,
    on_hardware,
    part_of,
    sampling_of,
    strategy_of,
)
from ttsflow.composing.assemble import assemble
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
    hub id or "demo"; ``engine`` holds further engine settings, or names another engine; ``engines``
    are further ones by name, for stages that ask for one. ``verifier`` is a
    name or a mapping. ``kind`` says what an answer is: number, math, choice or text; ``chat`` whether a
    question is put as a chat message or continued as raw text. A ``task`` replaces both and brings its
    own problems. ``sampling`` is the name of a preset or a mapping as in the config. So is ``budget``, whose
    mapping may start from a preset by the key ``preset``. ``cost`` are further cost models by name. ``meter``
    counts joules, which ``attribution`` shares out, and ``load`` is what controllers know of others: each is
    the name of a config file, or a mapping.

    Raises ``ConfigError``, ``MissingExtra`` and ``PluginError`` at once; the model is loaded by the
    first question and stays loaded for other pipelines of the same engine settings.
    """

    def __init__(
        self,
        strategy: str | Mapping[str, Any],
        *,
        model: str | None = None,
        engine: str | Mapping[str, Any] | None = None,
        engines: Mapping[str, str | Mapping[str, Any]] | None = None,
        verifier: str | Mapping[str, Any] | None = None,
        task: str | Mapping[str, Any] | None = None,
        hardware: str | Mapping[str, Any] | None = None,
        kind: Kind = "number",
        chat: bool = True,
        sampling: str | Mapping[str, Any] | None = None,
        budget: str | Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        meter: str | Mapping[str, Any] | None = None,
        attribution: str = "token_share",
        load: str | Mapping[str, Any] | None = None,
        seed: int = 0,
        concurrency: int = 8,
        config_dir: str | None = None,
        **settings: Any,
    ) -> None:
        own_task = part_of(task, "task")
        self._plain = None if own_task else Plain(kind=kind, chat=chat)
        if isinstance(engine, Mapping) and engine.get("use") == "sim" and sampling is None:
            sampling = "simulated"
        drawn = sampling_of(sampling, engine)
        mapping: dict[str, Any] = {
            "strategy": strategy_of(strategy, settings, config_dir),
            "engine": on_hardware(hardware, engine_of(model, part_of(engine, "engine"))),
            "engines": engines_of(engines),
            "task": own_task,
            "verifier": part_of(verifier, "verifier"),
            "sampling": drawn,
            **budgeted(budget, cost, drawn, config_dir),
            "meter": group_of(meter, "meter", config_dir),
            "load": group_of(load, "load", config_dir),
            "attribution": attribution,
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
