"""A working model that reads texts and gives numbers, such as a reward model: what it offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ttsflow.types import Message, Tokens

__all__ = ["Pooled", "Pooler"]


class Pooled(NamedTuple):
    """What a model says of one text: numbers by the place of a token in it, or why there are none.

    A place that was asked for and is absent was served from the prefix cache, which keeps no numbers.
    """

    id: str
    rows: Mapping[int, tuple[float, ...]]
    reason: str = ""


@runtime_checkable
class Pooler(Protocol):
    """Reads texts. Driven by one thread, like an engine; nothing happens but in ``step``."""

    @property
    def context(self) -> int:
        """Most tokens of a text."""
        ...

    @property
    def caches(self) -> bool:
        """Whether it finds the beginnings of texts that it has read before, and leaves their numbers out."""
        ...

    @property
    def bos(self) -> str:
        """The text of the token that begins a document, empty when the model has none."""
        ...

    def render(self, turns: Sequence[Message]) -> str:
        """Return the turns of a chat as the model's template writes them, special tokens included."""
        ...

    def tokenize(self, text: str, *, special: bool = False) -> Tokens:
        """Return the token ids of a text; with ``special``, those that the tokenizer puts around one."""
        ...

    def continuation(self, text: str) -> Tokens:
        """Return the token ids of a text that stands behind another one."""
        ...

    def decode(self, tokens: Tokens) -> str:
        """Return the text of tokens, special tokens included."""
        ...

    def submit(self, id: str, tokens: Tokens, places: Sequence[int], *, cached: bool = True) -> None:
        """Queue a text under a new id; ``places`` are the tokens whose numbers are wanted.

        Without ``cached`` the whole text is read, whatever the prefix cache has of it.
        """
        ...

    def abort(self, ids: Sequence[str]) -> None:
        """Forget texts; no news of them follows. Unknown ids are ignored."""
        ...

    def step(self) -> list[Pooled]:
        """Advance by one iteration and return what is done. Raises ``EngineDead``."""
        ...

    def reset(self) -> None:
        """Forget everything that could make a later run differ."""
        ...

    def close(self) -> None:
        """Free all resources; may be called twice."""
        ...
