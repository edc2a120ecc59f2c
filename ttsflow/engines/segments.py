"""Token ids of trajectories that no model decoded: every id knows the piece it is of, and its place there.

Prompts are cut into chunks of characters, one id each, so that equal beginnings have equal ids. What a
request decodes is one piece: ids that count on from a number made of its seed. The text of a piece comes in
parts, each with the token at which it is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from ttsflow.lineage import derive
from ttsflow.types import Prompt, Tokens

__all__ = ["FIRST_PIECE", "PLACE", "Segment", "Segments"]

_SHIFT = 20
#: The bits of an id that are its place in its piece.
PLACE = (1 << _SHIFT) - 1
#: Ids below are chunks of text, ids from here on are of pieces.
FIRST_PIECE = 1 << 32


class Segment:
    """What one request decodes: ``length`` tokens, parts of text by the token that completes them.

    ``state`` is what its source needs to go on behind it.
    """

    __slots__ = ("base", "length", "parts", "state")

    def __init__(self, base: int, length: int, parts: Sequence[tuple[int, str]], state: Any) -> None:
        self.base = base
        self.length = length
        self.parts = parts
        self.state = state

    def tokens(self, start: int, end: int) -> Tokens:
        """Return the ids of the tokens from ``start`` up to ``end``."""
        return tuple(range(self.base + start, self.base + end))

    def text(self, start: int, end: int) -> str:
        """Return the text that is complete within these tokens."""
        if end - start == self.length:
            return "".join([text for _, text in self.parts])
        return "".join([text for place, text in self.parts if start < place <= end])


class Segments:
    """All pieces of one engine by their ids, and the chunks of its prompts."""

    def __init__(self, chunk: float = 4.0) -> None:
        self._chunk = chunk
        self._texts: dict[int, str] = {}
        self._known: dict[int, Segment] = {}
        self._ends: dict[int, Segment] = {}
        self._seeds: dict[int, int] = {}

    def reset(self) -> None:
        """Forget all pieces."""
        self._known.clear()
        self._ends.clear()
        self._seeds.clear()

    def encode(self, prompt: Prompt, count: int | None = None) -> Tokens:
        """Return the ids of a prompt, ``count`` where it is known; a chat is its turns with their roles."""
        text = prompt if isinstance(prompt, str) else "".join(f"{m.role}: {m.content}\n" for m in prompt)
        chunk = len(text) / count if count else self._chunk
        count = count or round(len(text) / chunk) or int(bool(text))
        ids, start = [], 0
        for end in [*(round((i + 1) * chunk) for i in range(count - 1)), len(text)][:count]:
            piece = text[start:end]
            ids.append(self._chunk_id(piece))
            start = end
        return tuple(ids)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of token ids."""
        parts, place, size = [], 0, len(tokens)
        while place < size:
            token = tokens[place]
            if token < FIRST_PIECE:
                parts.append(self._texts.get(token, ""))
                place += 1
                continue
            piece, start = self._known[token >> _SHIFT], token & PLACE
            count = min(piece.length - start, size - place)
            if tokens[place + count - 1] != token + count - 1:
                # It was ended early, and something else follows.
                count = next(i for i in range(count) if tokens[place + i] != token + i)
            parts.append(piece.text(start, start + count))
            place += count
        return "".join(parts)

    def add(self, seed: int, length: int, parts: Sequence[tuple[int, str]], state: Any) -> Segment:
        """Return the piece of a request with this seed; asked again, it is the same one."""
        number = derive("piece", seed) >> _SHIFT | 1 << 42
        while self._seeds.setdefault(number, seed) != seed:
            number += 1
        base = number << _SHIFT
        piece = self._ends.get(base + length - 1)
        if piece is None:
            piece = self._ends[base + length - 1] = Segment(base, length, parts, state)
            # Where a limit or a stop string ends one early, the longest has the text of both.
            if self._known.setdefault(number, piece).length < length:
                self._known[number] = piece
        return piece

    def before(self, prompt: Tokens) -> tuple[Segment | None, bool]:
        """Return the last piece in a prompt, and whether words stand behind it."""
        size = _pieces_end(prompt)
        if not size:
            return None, False
        last = prompt[size - 1]
        return self._ends.get(last) or self._known.get(last >> _SHIFT), size < len(prompt)

    def part(self, prompt: Tokens) -> tuple[Segment, int, Segment | None] | None:
        """Return the piece of which a prompt ends with a part, the tokens of that, and the piece before it.

        None where it ends with a whole piece.
        """
        last = prompt[-1] if prompt else 0
        piece = self._known.get(last >> _SHIFT)
        done = (last & PLACE) + 1
        if piece is None or last in self._ends or done >= piece.length:
            return None
        size = _pieces_end(prompt[: len(prompt) - done])
        before = prompt[size - 1] if size else 0
        return piece, done, self._ends.get(before) or self._known.get(before >> _SHIFT)

    def behind(self, prompt: Tokens) -> str:
        """Return the words that stand behind the last piece of a prompt."""
        return self.decode(prompt[_pieces_end(prompt) :])

    def _chunk_id(self, piece: str) -> int:
        number = crc32(piece.encode("utf-8", "surrogatepass"))
        while self._texts.setdefault(number, piece) != piece:
            number = (number + 1) % FIRST_PIECE
        return number


def _pieces_end(prompt: Tokens) -> int:
    """Return the place behind the last token of a prompt that a piece decoded."""
    size = len(prompt)
    while size and prompt[size - 1] < FIRST_PIECE:
        size -= 1
    return size
