"""A model that reads texts and gives numbers, such as a reward model: its settings. Imports no vllm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ConfigError
from ttsflow.types import Message, Tokens

__all__ = ["Pooled", "Pooler", "Pooling"]

#: Engine arguments that belong to how a model is read, and where that is said instead.
_RESERVED: Mapping[str, str] = {
    "convert": "how the model is read follows from the verifier's own settings",
    "pooler_config": "how the model is read follows from the verifier's own settings",
    "logits_processors": "this engine decodes nothing",
}


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


@dataclass(frozen=True, slots=True)
class Pooling:
    """How a model is loaded to be read, on an engine of its own beside the one that generates.

    ``per_token``: numbers for every token, else for the whole text. With ``words`` the model is a language
    model, and a token's numbers are its logits of these words as the next token; the keys are the settings
    that name them. ``architecture`` is a class of vLLM's that reads the checkpoint, where the one named in
    it is unknown to vLLM: the base model of a checkpoint that has a head ``score`` on top. ``labels`` is
    how many numbers that head gives, where the checkpoint does not say. ``rename`` replaces beginnings of
    weight names. With ``cache`` the prefix cache is read.
    """

    engine: VLLM
    per_token: bool = True
    words: Mapping[str, str] = field(default_factory=dict)
    architecture: str | None = None
    labels: int | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    cache: bool = True

    def __post_init__(self) -> None:
        for name in self.engine.args:
            if name in _RESERVED:
                raise ConfigError(f"cannot be set here: {_RESERVED[name]}", f"engine.args.{name}")
        if self.rename and self.engine.args.get("load_format", "auto") != "auto":
            raise ConfigError("weights are renamed with the load format `auto` only", "rename")
        for name, text in self.words.items():
            if not text.strip():
                raise ConfigError("is empty; give the text of one token", name)

    def check(self) -> None:
        """Raise what would make ``open`` fail, as far as it shows without importing torch or vllm."""
        from ttsflow.engines.vllm_check import check  # noqa: PLC0415 - only when asked

        try:
            check(self.engine, decodes=False)
        except ConfigError as error:
            raise error.below("engine") from error

    def open(self) -> Pooler:
        """Load the model. Raises ``MissingExtra``, ``ConfigError``, ``ModelError``."""
        try:
            self.check()
            from ttsflow.engines.vllm_pool import VLLMPooler  # noqa: PLC0415 - imports torch and vllm

            return VLLMPooler(self)
        except ConfigError as error:
            inside = error.below("engine") if error.path.startswith("args.") else error
            raise inside.below("verifier") from error
