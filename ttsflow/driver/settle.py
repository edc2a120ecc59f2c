"""From what a stage asks to what an engine decodes, and back to a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ttsflow.driver.flight import Asked, Border
from ttsflow.errors import ConfigError, suggest
from ttsflow.lineage import Path, seed_of
from ttsflow.ops import EngineRequest, Progress, Request
from ttsflow.protocols import Engine, Task
from ttsflow.types import Answer, Candidate, Problem, Sampling, Tokens

__all__ = ["Rules"]


class Rules:
    """The parts of a run that say how text is made and read: engines, task and sampling.

    ``engines`` are the further ones, by name.
    """

    def __init__(
        self,
        engine: Engine,
        task: Task,
        sampling: Sampling,
        seed: int,
        logprobs: int = 0,
        *,
        certainty: bool = False,
        keep_logprobs: bool = False,
        engines: Mapping[str, Engine] | None = None,
    ) -> None:
        self.engine = engine
        self.engines = engines or {}
        self.task = task
        self.sampling = sampling
        self.seed = seed
        self.logprobs = logprobs
        self.certainty = certainty
        self.keep_logprobs = keep_logprobs
        self.stop = tuple(dict.fromkeys((*task.stop, *sampling.stop)))
        self._greedy = replace(sampling, temperature=0.0)
        self._reach = max(map(len, self.stop), default=1) - 1

    def decoder(self, request: Request) -> Engine:
        """Return the engine that decodes a request.

        Raises ``ValueError`` for one that there is not, and for a parent that another one has decoded.
        """
        name, parent = request.decoder, request.parent
        if parent is not None and parent.engine != name:
            theirs, ours = (
                f"engine `{one}`" if one else "the engine of the run" for one in (parent.engine, name)
            )
            msg = f"a candidate of {theirs} cannot go on with {ours}: their tokens differ."
            raise ValueError(msg)
        if not name:
            return self.engine
        if name not in self.engines:
            msg = f"this run has no engine '{name}' under `engines`. {suggest(name, self.engines)}"
            raise ValueError(msg)
        return self.engines[name]

    def prefix(self, request: Request) -> Tokens:
        """Return the tokens that stand between the prompt and what ``request`` decodes."""
        before = request.parent.tokens if request.parent else ()
        if request.probe is None:
            return before
        return before + self.decoder(request).tokenize(request.probe or self.task.probe)

    def border(self, request: Request, prompt: Tokens, prefix: Tokens) -> Border:
        """Return where ``request`` ends at the latest."""
        done, context = len(prefix), self.decoder(request).context
        # A probe is no part of the trajectory, so only the context limits it.
        most = self.sampling.max_tokens - done if request.probe is None else context
        room = min(most, context - len(prompt) - done)
        if request.unit == "whole":
            return Border(room, room, None)
        step = self.sampling.max_step_tokens if request.step_tokens is None else request.step_tokens
        if request.unit == "tokens":
            return Border(min(room, step), room, None)
        separator = self.task.separator if request.separator is None else request.separator
        if separator in self.stop:
            raise ConfigError(
                f"the step separator {separator!r} is also a stop string, so that every trajectory would "
                "end with its first step; set another `separator` on the generate stage.",
                "strategy",
            )
        return Border(min(room, step), room, separator)

    def asked(self, id: str, request: Request, path: Path, prompt: Tokens) -> Asked:
        """Return a request at its place in the lineage, with its borders."""
        prefix = self.prefix(request)
        border = self.border(request, prompt, prefix)
        return Asked(id, request, path, border=border, prefix=prefix, decode=self.decoder(request).decode)

    def engine_request(
        self,
        asked: Asked,
        problem: Problem,
        prompt: Tokens,
        *,
        priority: int,
        stream: bool,
    ) -> EngineRequest:
        """Return the request as an engine takes it: token ids, lineage seed, final limits."""
        border = asked.border
        stop = self.stop if border.separator is None else (*self.stop, border.separator)
        return EngineRequest(
            id=asked.id,
            prompt=prompt + asked.prefix,
            sampling=self._greedy if asked.request.greedy else self.sampling,
            seed=seed_of(self.seed, problem.id, asked.path),
            max_tokens=border.limit,
            stop=stop,
            logprobs=self.logprobs,
            priority=priority,
            stream=stream,
            certainty=self.certainty,
            problem=problem.id,
            path=asked.path,
            aside=asked.request.aside,
        )

    def candidate(self, problem: Problem, asked: Asked, prompt: Tokens, end: Progress) -> Candidate:
        """Return the candidate that a request has become.

        Text is decoded from all tokens of the trajectory, so that nothing of a token that reaches past
        a separator is lost; stop strings are looked for in that text, so that one that straddles two
        steps ends the trajectory just where it would have ended undivided.
        """
        parent, trace, probe = asked.request.parent, asked.trace, asked.request.probe
        tokens, decode = (*asked.prefix, *trace.tokens), self.decoder(asked.request).decode
        text = decode(tokens)
        finish = end.finish
        if finish in {"stop", "length"}:
            known = len(parent.text) if parent else 0
            cut = self._stopped_at(text, known if probe is None else len(decode(asked.prefix)))
            if cut is not None:
                finish, text = "stop", text[:cut]
            elif self._at_step_border(asked, end):
                finish = "step"
        return Candidate(
            path=asked.path,
            prompt=prompt,
            tokens=tokens,
            text=text,
            finish=finish,
            seed=seed_of(self.seed, problem.id, asked.path),
            answer=self._answer(text, problem, asked) if finish == "stop" or probe is not None else None,
            tokens_new=len(trace.tokens),
            logprobs=(*(parent.logprobs if parent else ()), *trace.logprobs),
            certainties=(*(parent.certainties if parent else ()), *trace.certainties),
            reason=end.reason,
            extra=parent.extra if parent else {},
            engine=asked.engine,
        )

    def _answer(self, text: str, problem: Problem, asked: Asked) -> Answer | None:
        """Return what a text answers; of a probe only its words and what follows them are read."""
        parent = asked.request.parent
        known = len(parent.text) if parent and asked.request.probe is not None else 0
        found = self.task.answer(text[known:], problem)
        # An empty answer is none: it must not be able to win a vote.
        return found if found is not None and found.key else None

    @staticmethod
    def _at_step_border(asked: Asked, end: Progress) -> bool:
        border = asked.border
        if end.finish == "stop":
            return border.separator is not None and end.stop == border.separator
        # Cut by the limit per step, with room left for the trajectory: a step like any other.
        return border.limit <= len(asked.trace.tokens) < border.room

    def _stopped_at(self, text: str, known: int) -> int | None:
        start = max(0, known - self._reach)
        found = [(text.find(stop, start), stop) for stop in self.stop]
        # The one that is complete first, as when no step had come between.
        places = [(place + len(stop), place) for place, stop in found if place >= 0]
        return min(places)[1] if places else None
