"""The trajectories of a run that was made, from its trace; those it did not draw are drawn from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path as File
from typing import Any, Literal, NamedTuple

from ttsflow.engines.law import Played
from ttsflow.engines.segments import Segments
from ttsflow.errors import DataError, EngineDead
from ttsflow.lineage import Path, content_id, derive
from ttsflow.ops import EngineRequest
from ttsflow.protocols import Capabilities
from ttsflow.types import Prompt, Tokens

__all__ = ["Traced", "TracedPaths"]


class _Piece(NamedTuple):
    """What a request of the run decoded: so many tokens, its text, and how it ended."""

    tokens: int
    text: str
    finish: str


class _Trace(NamedTuple):
    """A run: the pieces of each problem by path, and the tokens of its prompt by the prompt's id."""

    pieces: Mapping[str, Mapping[Path, _Piece]]
    prompts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Traced:
    """Plays the trace of the run in the folder ``run``, made with any engine.

    A request that the run made, by problem and path, decodes what it decoded. Any other one decodes what one
    at the same depth of the same problem did, drawn by its seed: so a run of 8 samples says how one of 32
    would go. Prompts have as many tokens as they had.
    """

    run: str

    @property
    def capabilities(self) -> Capabilities:
        """Seeds, continuation and aborts; nothing is known of single tokens."""
        return Capabilities()

    def check(self) -> None:
        """Raise ``DataError`` when there is no trace."""
        self._trace()

    def open_paths(self) -> TracedPaths:
        """Return the paths. Raises ``DataError``."""
        return TracedPaths(self._trace(), self._trace)

    def _trace(self) -> _Trace:
        file = File(self.run).expanduser() / "trace.jsonl"
        try:
            stamp = file.stat().st_mtime_ns
        except OSError as error:
            raise DataError(
                f"{self.run} holds no trace.jsonl: {error.strerror}; give a run made with trace=true",
                "run",
            ) from error
        return _read(str(file), stamp)


@lru_cache(maxsize=4)
def _read(file: str, stamp: int) -> _Trace:
    del stamp
    pieces: dict[str, dict[Path, _Piece]] = {}
    texts: dict[tuple[str, Path], str] = {}
    prompts: dict[str, int] = {}
    with File(file).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                event: dict[str, Any] = json.loads(line)
                kind, problem = event["event"], event["problem"]
                if kind == "start" and "prompt_tokens" in event:
                    prompts[event["prompt"]] = int(event["prompt_tokens"])
                if kind != "candidate" or event["finish"] == "failed" or event.get("aside"):
                    continue
                path = tuple(event["path"])
                texts[problem, path] = text = event["text"]
                parent = texts.get((problem, path[:-1]), "")
                said = text.removeprefix(parent)
                piece = _Piece(int(event["tokens_new"]), said, event["finish"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(f"{file}:{number}: is no event of a trace: {error}", "run") from error
            pieces.setdefault(problem, {})[path] = piece
    if not pieces:
        raise DataError(f"{file} has no candidates", "run")
    return _Trace(pieces, prompts)


class TracedPaths:
    """Plays a trace."""

    def __init__(self, trace: _Trace, current: Callable[[], _Trace]) -> None:
        self._trace = trace
        self._current = current
        self._segments = Segments()
        self._donors: dict[tuple[str, int], Sequence[_Piece]] = {}

    def reset(self) -> None:
        """Forget what was played. Raises ``EngineDead`` when the trace has changed."""
        if self._current() is not self._trace:
            raise EngineDead("the trace has changed since it was read")
        self._segments.reset()

    def encode(self, prompt: Prompt) -> Tokens:
        """Return as many ids as the prompt had tokens, or one for every four characters."""
        return self._segments.encode(prompt, self._trace.prompts.get(content_id(repr(prompt))))

    def tokenize(self, text: str) -> Tokens:
        """Return one id for every few characters."""
        return self._segments.encode(text)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of ids."""
        return self._segments.decode(tokens)

    def play(self, request: EngineRequest, context: int) -> Played:
        """Return what the run decoded for this request, or would have. Raises ``DataError``."""
        known = self._trace.pieces.get(request.problem)
        if known is None:
            raise DataError(
                f"the trace has no problem {request.problem!r}; run the task it was made with",
                "engine.paths.run",
            )
        piece = known.get(request.path)
        if piece is None or piece.finish == "aborted":
            donors = self._donors_of(request.problem, len(request.path))
            if piece is not None:
                # It had come so far when it was ended, so it was at least as long.
                least = piece.tokens
                donors = [donor for donor in donors if donor.tokens >= least] or donors
            piece = donors[derive("donor", request.seed) % len(donors)]
        room = max(0, min(request.max_tokens, context - len(request.prompt)))
        stop = next((word for word in request.stop if piece.text.endswith(word)), None)
        finish: Literal["stop", "length"] = "length"
        length = max(1, piece.tokens)
        if length > room:
            length, stop = room, None
        elif stop is not None or piece.finish == "stop":
            finish = "stop"
        parts = [(max(1, piece.tokens), piece.text)]
        return Played(request, self._segments.add(request.seed, length, parts, None), finish, stop)

    def _donors_of(self, problem: str, depth: int) -> Sequence[_Piece]:
        """Return the pieces at a depth, or at the nearest one that has any."""
        key = problem, depth
        if key not in self._donors:
            whole = {
                p: piece for p, piece in self._trace.pieces[problem].items() if piece.finish != "aborted"
            }
            whole = whole or dict(self._trace.pieces[problem])
            near = min((abs(len(path) - depth), len(path)) for path in whole)[1]
            self._donors[key] = [piece for path, piece in sorted(whole.items()) if len(path) == near]
        return self._donors[key]
