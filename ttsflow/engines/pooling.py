"""A model that reads texts and gives numbers, such as a reward model: its settings. Imports no vllm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ttsflow.engines.pooler import Pooler
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ConfigError
from ttsflow.protocols import EnginePart

__all__ = ["Pooling", "Readable", "on_vllm"]

#: What a verifier's `engine` may be in a config: with `use: vllm`, as everywhere, or without it.
Readable = EnginePart | VLLM

#: Engine arguments that belong to how a model is read, and where that is said instead.
_RESERVED: Mapping[str, str] = {
    "convert": "how the model is read follows from the verifier's own settings",
    "pooler_config": "how the model is read follows from the verifier's own settings",
    "logits_processors": "this engine decodes nothing",
}


def on_vllm(engine: Readable) -> VLLM:
    """Return the settings of the engine that reads a model. Raises ``ConfigError`` for another one."""
    if not isinstance(engine, VLLM):
        raise ConfigError(
            "a model is read by the engine `vllm` alone; write {use: vllm, model: ...}, or leave `use` out",
            "engine",
        )
    return engine


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
        for old, new in self.rename.items():
            if old == new:
                raise ConfigError(f"{old!r} is replaced by itself; name another beginning", "rename")
        said: dict[str, str] = {}
        for name, text in self.words.items():
            word = text.strip()
            if not word:
                raise ConfigError("is empty; give the text of one token", name)
            if len(word.split()) > 1:
                raise ConfigError(f"{text!r} is more than one word; give the text of one token", name)
            if word in said:
                raise ConfigError(f"{text!r} is what `{said[word]}` is; they are two tokens", name)
            said[word] = name

    def check(self) -> None:
        """Raise what would make ``open`` fail, as far as it shows without importing torch or vllm."""
        from ttsflow.engines.vllm_check import check  # noqa: PLC0415 - only when asked

        try:
            check(self.engine, decodes=False)
        except ConfigError as error:
            raise error.below("engine") from error

    def misfit(self, architectures: Iterable[str], tasks: Iterable[str], wanted: Iterable[str]) -> str:
        """Return what to say of a model that vLLM has loaded for tasks that give no scores."""
        if self.per_token:
            what = "`verifier.read` says what kind of model it is"
        else:
            what = (
                "one that gives a text a score is a sequence classifier, named by `verifier.engine.model`; a "
                "model that writes is asked by verifier=judge"
            )
        return (
            f"vLLM loaded {self.engine.model!r} ({', '.join(architectures)}) as a model for "
            f"{', '.join(sorted(tasks)) or 'nothing'}; scores need {' or '.join(wanted)}: {what}. Where "
            "vLLM does not know the class of a reward model, `verifier.architecture` names its base model's."
        )

    def open(self) -> Pooler:
        """Load the model. Raises ``MissingExtra``, ``ConfigError``, ``ModelError``."""
        try:
            self.check()
            from ttsflow.engines.vllm_pool import VLLMPooler  # noqa: PLC0415 - imports torch and vllm

            return VLLMPooler(self)
        except ConfigError as error:
            inside = error.below("engine") if error.path.startswith("args.") else error
            raise inside.below("verifier") from error
