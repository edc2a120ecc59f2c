"""What stands around an engine and has its protocol: everything is passed on but what a subclass changes."""

from __future__ import annotations

from collections.abc import Sequence

from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Capabilities, Engine
from ttsflow.types import Prompt, Tokens

__all__ = ["Decorated"]


class Decorated:
    """An engine around the engine ``inner``."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.capabilities: Capabilities = inner.capabilities

    @property
    def dead(self) -> bool:
        """Whether the engine has failed."""
        return bool(getattr(self.inner, "dead", False))

    @property
    def capacity(self) -> int:
        """Sequences decoded at once."""
        return self.inner.capacity

    @property
    def context(self) -> int:
        """Most tokens of prompt and output together."""
        return self.inner.context

    def now(self) -> float:
        """Return seconds on the engine's clock."""
        return self.inner.now()

    def encode(self, prompt: Prompt) -> Tokens:
        """Return the token ids of a prompt."""
        return self.inner.encode(prompt)

    def tokenize(self, text: str) -> Tokens:
        """Return the token ids of a text within a trajectory."""
        return self.inner.tokenize(text)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of output tokens."""
        return self.inner.decode(tokens)

    def submit(self, request: EngineRequest) -> None:
        """Queue a request; its id must be new."""
        self.inner.submit(request)

    def abort(self, ids: Sequence[str]) -> None:
        """End requests now."""
        self.inner.abort(ids)

    def step(self) -> list[Progress]:
        """Advance by one iteration and return the news. Raises ``EngineDead``."""
        return self.inner.step()

    def reset(self) -> None:
        """Forget everything that could make a later run differ."""
        self.inner.reset()

    def close(self) -> None:
        """Free all resources."""
        self.inner.close()
