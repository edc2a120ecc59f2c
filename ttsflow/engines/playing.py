"""What all engines have in common that play trajectories: the text is their source's."""

from __future__ import annotations

from ttsflow.paths import PathSource
from ttsflow.types import Prompt, Tokens

__all__ = ["Playing"]


class Playing:
    """An engine in virtual time: it may jump, and its source knows prompts and texts."""

    def __init__(self, paths: PathSource) -> None:
        self.leap: int | None = None
        self.advanced = 0
        self._paths = paths

    def encode(self, prompt: Prompt) -> Tokens:
        """Return the token ids of a prompt."""
        return self._paths.encode(prompt)

    def tokenize(self, text: str) -> Tokens:
        """Return the token ids of a text within a trajectory, where the source can go on behind it."""
        return self._paths.tokenize(text)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of tokens."""
        return self._paths.decode(tokens)
