"""Where trajectories come from that no model decodes: what engines in virtual time play."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Capabilities
from ttsflow.types import Prompt, Tokens

__all__ = ["PathSource", "PathsPart", "Play"]


class Play(Protocol):
    """What a request will turn out to be, known beforehand: an engine in virtual time plays it."""

    request: EngineRequest
    length: int
    """Tokens it decodes until its end."""

    @property
    def last(self) -> int | None:
        """The id of its last token, None where nothing can follow it."""
        ...

    def news(self, upto: int, *, ended: bool) -> Progress:
        """Return the news of having grown to ``upto`` tokens since the last news."""
        ...


class PathSource(Protocol):
    """Where trajectories come from that no model decodes."""

    def play(self, request: EngineRequest, context: int) -> Play:
        """Return what a request plays, ``context`` the most tokens of prompt and output together.

        A pure function of the request's prompt and seed, or of its problem and path.
        """
        ...

    def encode(self, prompt: Prompt) -> Tokens:
        """Return the token ids of a prompt, as many as it has on a real engine."""
        ...

    def tokenize(self, text: str) -> Tokens:
        """Return the token ids of a text within a trajectory."""
        ...

    def decode(self, tokens: Tokens) -> str:
        """Return the text of tokens."""
        ...

    def reset(self) -> None:
        """Forget what was played. Raises ``EngineDead`` when the source has changed."""
        ...


@runtime_checkable
class PathsPart(Protocol):
    """Settings of a path source; ``check``, ``source`` and ``most_samples`` as an engine may have them."""

    @property
    def capabilities(self) -> Capabilities:
        """What an engine that plays these paths will be able to do."""
        ...

    def open_paths(self) -> PathSource:
        """Return the paths. Raises ``DataError``."""
        ...
