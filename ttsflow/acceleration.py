"""Settings of what makes a run faster and leaves its answers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.memory import MemorySetting

__all__ = ["PLAIN", "Acceleration", "Speculation"]

#: Rounds ahead beyond which nothing is worth beginning.
_DEEPEST = 4
#: As published (FastTTS, arXiv 2509.00195).
_KEEP_RATIO = 0.85


@dataclass(frozen=True, slots=True)
class Speculation:
    """Steps that are decoded before a search asks for them, on seats that would stay empty.

    ``mode`` exact: under the seeds they will be asked for with, so that nothing changes but time. ``shared``
    is the published way: one continuation of a candidate is begun, and all its children begin with it, the
    first with all of it, the others with the share ``keep_ratio``. It is biased: siblings are no longer
    independent samples, so that their texts are others than without it.

    ``depth`` rounds ahead at most. The children of the likeliest survivors are begun first; with ``tiers``
    above 1 the fewer of a candidate's children are begun, the lower the tier of its chance. With ``curve``
    none is begun that is not worth its time by the measured cost of an iteration; without it, seats and
    memory are the only limits. With ``verify`` a step that has ended early, and is likely to be asked about,
    is scored along with those that have to be.
    """

    mode: Literal["exact", "shared"] = "exact"
    depth: int = 2
    tiers: int = 1
    curve: bool = True
    verify: bool = False
    keep_ratio: float = _KEEP_RATIO

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= _DEEPEST:
            raise ConfigError(f"between 1 and {_DEEPEST} rounds ahead, got {self.depth}.", "depth")
        if self.tiers < 1:
            raise ConfigError(f"at least one tier is needed, got {self.tiers}.", "tiers")
        if not 0 < self.keep_ratio < 1:
            raise ConfigError(f"a share lies above 0 and below 1, got {self.keep_ratio}.", "keep_ratio")
        if self.mode == "exact" and self.keep_ratio != _KEEP_RATIO:
            raise ConfigError("only `mode: shared` reads it.", "keep_ratio")


@dataclass(frozen=True, slots=True)
class Acceleration:
    """What an engine does besides decoding what it is asked; each can be switched off.

    ``prefix_order``: requests that share a prefix run next to each other, and no more at once than the KV
    cache holds. ``speculation``: likely steps are begun early. ``eager_verify``: candidates are scored as
    they end, not when all have ended. ``verifier_cache``: whether the verifier's model keeps what it has
    read, None as it says itself. ``memory``: KV caches and seats of both models come from a plan.
    ``pool`` is the file of a pool of samples: what it holds is played, and what is decoded is added.
    ``check_exact`` is the share of problems that are run once more on the engine as it is, to see whether
    anything differs.
    """

    prefix_order: bool = False
    speculation: Speculation | bool = False
    eager_verify: bool = False
    verifier_cache: bool | None = None
    memory: MemorySetting = None
    pool: str | None = None
    check_exact: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.check_exact <= 1:
            raise ConfigError(f"a share lies between 0 and 1, got {self.check_exact}.", "check_exact")
        if self.pool is not None and self.biased:
            raise ConfigError(
                "with `speculation.mode: shared` a text depends on what else was running, so no other run "
                "can use it; leave one of them out.",
                "pool",
            )

    @property
    def biased(self) -> bool:
        """Whether it changes what is sampled."""
        speculation = self.speculates
        return speculation is not None and speculation.mode == "shared"

    @property
    def speculates(self) -> Speculation | None:
        """The settings of speculation, None where it is off; true alone means the defaults."""
        if isinstance(self.speculation, bool):
            return Speculation() if self.speculation else None
        return self.speculation


#: An engine as it is.
PLAIN = Acceleration()
