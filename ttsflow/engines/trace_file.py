"""What a trace says of the requests of its run: which were asked, what they decoded, how they ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path as File
from typing import Any, NamedTuple, TypeVar, get_args

from ttsflow.errors import DataError
from ttsflow.fields import TEXT, Form, Wrong, get, shown
from ttsflow.lineage import Path
from ttsflow.types import Finish

__all__ = ["MOST", "Piece", "Trace", "read_trace"]

#: Tokens of one request, and of one prompt: as many ids as a piece has.
MOST = 1 << 20

T = TypeVar("T")


class Piece(NamedTuple):
    """What a request of the run decoded: so many tokens, its text, and how it ended.

    Of a probe the text begins with the words that were put behind its parent.
    """

    tokens: int
    text: str
    finish: str


class Trace(NamedTuple):
    """A run: the pieces of each problem by what they were for and by path, prompts' tokens by prompt id.

    What they were for is None in the search itself, else ``probe`` or ``rollout``.
    """

    pieces: Mapping[str, Mapping[str | None, Mapping[Path, Piece]]]
    prompts: Mapping[str, int]


def _whole(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST else None


def _path(value: Any) -> Path | None:
    if not isinstance(value, list) or not value:
        return None
    numbers = [number for number in value if _whole(number) is not None]
    return tuple(numbers) if len(numbers) == len(value) else None


_WHOLE: Form[int] = Form(f"a whole number from 0 to {MOST:,}", _whole)
_PATH: Form[Path] = Form("a list of one whole number or more, none below 0", _path)
_FINISH: Form[str] = Form(
    f"one of {', '.join(get_args(Finish))}", lambda value: value if value in get_args(Finish) else None
)


@lru_cache(maxsize=4)
def read_trace(file: str, stamp: int) -> Trace:
    """Return what a ``trace.jsonl`` says; ``stamp`` is when it was changed, so that it is read anew then.

    Raises ``DataError`` with the line that is none of a trace, and when there is no candidate.
    """
    del stamp
    pieces: dict[str, dict[str | None, dict[Path, Piece]]] = {}
    texts: dict[tuple[str, Path], str] = {}
    prompts: dict[str, int] = {}
    try:
        with File(file).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    _take(json.loads(line), pieces, texts, prompts)
                except (Wrong, ValueError, RecursionError) as error:
                    raise DataError(f"{file}:{number}: is no event of a trace: {error}", "run") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}", "run") from error
    if not pieces:
        raise DataError(f"{file} has no candidates", "run")
    return Trace(pieces, prompts)


def _take(
    event: Any,
    pieces: dict[str, dict[str | None, dict[Path, Piece]]],
    texts: dict[tuple[str, Path], str],
    prompts: dict[str, int],
) -> None:
    """Take in one event. Raises ``Wrong``, and ``ValueError`` for half a character."""
    if not isinstance(event, Mapping):
        raise Wrong(f"must be an object, found {shown(event)}")
    kind, problem = _need(event, "event", TEXT), _need(event, "problem", TEXT)
    if kind == "start" and "prompt_tokens" in event:
        prompts[_need(event, "prompt", TEXT)] = _need(event, "prompt_tokens", _WHOLE)
    if kind != "candidate":
        return
    path, text, finish = (
        _need(event, "path", _PATH),
        _need(event, "text", TEXT),
        _need(event, "finish", _FINISH),
    )
    if "engine" in event:
        raise Wrong(f"a candidate of engine {shown(event['engine'])}; a trace of one engine alone is played")
    # Text that is no UTF-8 could be played, but neither be written nor be printed.
    text.encode()
    problem.encode()
    tokens = _need(event, "tokens_new", _WHOLE)
    if finish == "failed":
        return
    texts[problem, path] = text
    before = texts.get((problem, path[:-1]), "")
    if not text.startswith(before):
        # A character whose bytes were cut at the border of two steps reads otherwise once it is whole.
        before = before.rstrip("\ufffd")
    said = text.removeprefix(before)
    aside = get(event, "aside", TEXT, None)
    pieces.setdefault(problem, {}).setdefault(aside, {})[path] = Piece(tokens, said, finish)


def _need(event: Mapping[str, Any], name: str, form: Form[T]) -> T:
    """Return a field that every such event has. Raises ``Wrong``."""
    found = get(event, name, form, None)
    if found is None:
        raise Wrong(f"`{name}` must be {form.what}, found {shown(event[name]) if name in event else 'none'}")
    return found
