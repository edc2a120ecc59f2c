"""The trajectories of a run that was made, from its trace; those it did not draw are drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ttsflow.engines.law import Played
from ttsflow.engines.segments import Segments
from ttsflow.engines.trace_file import Piece, Trace, read_trace
from ttsflow.errors import DataError, EngineDead
from ttsflow.files import named_path
from ttsflow.lineage import content_id, derive
from ttsflow.ops import EngineRequest
from ttsflow.protocols import Capabilities
from ttsflow.types import Prompt, Tokens

__all__ = ["Traced", "TracedPaths"]

#: Characters of a step that may stand behind its separator: the last token may reach beyond it.
_BEYOND = 16
#: Runs that are named when a folder holds several and is none itself.
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Traced:
    """Plays the trace of the run in the folder ``run``, made with any engine.

    A request that the run made, by problem and path, decodes what it decoded. Any other one decodes what one
    at the same depth of the same problem did, drawn by its seed: so a run of 8 samples says how one of 32
    would go. Probes and rollouts are drawn from their own kind. Prompts have as many tokens as they had.

    A request that ends elsewhere than those of the run (a step where it decoded whole trajectories, or the
    other way round) is refused.
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

    def _trace(self) -> Trace:
        folder = named_path(self.run, "run")
        file = folder / "trace.jsonl"
        try:
            stamp = file.stat().st_mtime_ns
        except OSError as error:
            runs = sorted(str(below.parent) for below in folder.glob("*/trace.jsonl"))
            known = f" Runs below it: {', '.join(runs[:_NAMED])}{', ...' if runs[_NAMED:] else ''}." * bool(
                runs
            )
            raise DataError(
                f"{self.run} holds no trace.jsonl: {error.strerror}; give a run made with trace=true.{known}",
                "run",
            ) from error
        return read_trace(str(file), stamp)


class TracedPaths:
    """Plays a trace."""

    def __init__(self, trace: Trace, current: Callable[[], Trace]) -> None:
        self._trace = trace
        self._current = current
        self._segments = Segments()
        self._donors: dict[tuple[str, str | None, int, tuple[str, ...]], Sequence[Piece]] = {}

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
        piece = self._piece(request)
        text = piece.text if request.aside != "probe" else self._answer(piece.text, request)
        room = max(0, min(request.max_tokens, context - len(request.prompt)))
        stop = next((word for word in request.stop if word in text), None)
        finish: Literal["stop", "length"] = "length"
        length = max(1, piece.tokens)
        if length > room:
            length, stop = room, None
        elif stop is not None or piece.finish == "stop":
            finish = "stop"
        elif piece.finish == "step" and length < room:
            raise _refused(request, f"the run ended it as a step of {length} tokens, and here it goes on")
        parts = [(max(1, piece.tokens), text)]
        return Played(request, self._segments.add(request.seed, length, parts, None), finish, stop)

    def _piece(self, request: EngineRequest) -> Piece:
        """Return what the run decoded for a request, or what stands in for it."""
        kinds = self._trace.pieces.get(request.problem)
        if kinds is None:
            count = len(self._trace.pieces)
            raise DataError(
                f"the trace has no problem {request.problem!r}, but {count} others; run the task it was made "
                f"with, and no more of it: `limit={count}` if those are its first.",
                "engine.paths.run",
            )
        known = kinds.get(request.aside)
        if known is None:
            kind = f"{request.aside}s" if request.aside else "candidates but probes and rollouts"
            raise DataError(
                f"the trace has no {kind} of problem {request.problem!r}, which this strategy asks for; play "
                "a run that was made with it.",
                "engine.paths.run",
            )
        piece = known.get(request.path)
        if piece is not None and piece.finish != "aborted":
            beyond = _beyond(piece, request.stop)
            if beyond is not None:
                raise _refused(request, f"the run went on behind {beyond!r}, and here it ends there")
            return piece
        donors = self._donors_of(request)
        if piece is not None:
            # It had come so far when it was ended, so it was at least as long.
            least = piece.tokens
            donors = [donor for donor in donors if donor.tokens >= least] or donors
        return donors[derive("donor", request.seed) % len(donors)]

    def _donors_of(self, request: EngineRequest) -> Sequence[Piece]:
        """Return the pieces that end as a request does, at its depth or at the nearest one that has any."""
        depth = len(request.path)
        key = request.problem, request.aside, depth, request.stop
        if key not in self._donors:
            known = self._trace.pieces[request.problem][request.aside]
            whole = {path: piece for path, piece in known.items() if piece.finish != "aborted"}
            whole = whole or dict(known)
            near = min((abs(len(path) - depth), len(path)) for path in whole)[1]
            there = [piece for path, piece in sorted(whole.items()) if len(path) == near]
            donors = [piece for piece in there if _beyond(piece, request.stop) is None]
            if not donors:
                beyond = _beyond(there[0], request.stop)
                raise _refused(request, f"the run went on behind {beyond!r}, and here it ends there")
            self._donors[key] = donors
        return self._donors[key]

    def _answer(self, text: str, request: EngineRequest) -> str:
        """Return what a probe decoded, without the words that it was asked with."""
        words = self._segments.behind(request.prompt)
        if not text.startswith(words):
            raise _refused(request, f"the run did not ask it with the words {words!r}")
        return text.removeprefix(words)


def _beyond(piece: Piece, stop: Sequence[str]) -> str | None:
    """Return the string of ``stop`` at which a piece would have ended earlier, if there is one."""
    room = _BEYOND if piece.finish == "step" else 0
    for word in stop:
        place = piece.text.find(word)
        if place >= 0 and len(piece.text) - place - len(word) > room:
            return word
    return None


def _refused(request: EngineRequest, reason: str) -> DataError:
    path = ".".join(map(str, request.path))
    return DataError(
        f"the trace cannot say what candidate {path} of problem {request.problem!r} decodes: {reason}. Play "
        "it with the strategy, the separator and the limits of a step that the run was made with.",
        "engine.paths.run",
    )
