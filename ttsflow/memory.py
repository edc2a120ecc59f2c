"""The setting ``engine.memory``: that the memory of the device is planned, and what for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ttsflow.errors import ConfigError

__all__ = ["Memory", "MemorySetting", "Method", "memory_of"]

#: How batches are searched for, see ``ttsflow.costs.search``.
Method = Literal["linear", "coarse", "golden"]


@dataclass(frozen=True, slots=True)
class Memory:
    """Two models' KV caches and seats come from a plan, not from the settings of their engines.

    ``share`` of the device is for both together. ``prompt``, ``path`` and ``step`` are the tokens expected of
    a typical candidate: of its prompt, decoded when a round begins, and of a step (None: of the law of
    ``engine.paths``, else a guess from the limits of ``sampling``). With ``shared`` prompts and paths that
    several candidates go on from are counted once. ``offload: never`` keeps both models on the device.
    ``method`` is how batches are searched for.
    """

    method: Method = "linear"
    share: float = 0.9
    prompt: int | None = None
    path: int | None = None
    step: int | None = None
    shared: bool = True
    offload: Literal["auto", "never"] = "auto"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"a share of the memory lies above 0 and up to 1, got {self.share}.", "share")
        for name, least in (("prompt", 0), ("path", 0), ("step", 1)):
            value = getattr(self, name)
            if value is not None and not least <= value <= 10**9:
                raise ConfigError(f"must be at least {least} tokens, or null, got {value}.", name)


#: What may stand in a config: null, the word that means every default, or a mapping.
MemorySetting = Memory | Literal["auto"] | None


def memory_of(setting: MemorySetting) -> Memory | None:
    """Return the settings of a plan, None where memory is shared by hand."""
    return Memory() if setting == "auto" else setting
