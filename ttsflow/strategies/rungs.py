"""Numbers of samples at which a strategy looks again, or between which it chooses."""

from __future__ import annotations

from ttsflow.errors import ConfigError

__all__ = ["check_rungs", "rungs_to"]


def check_rungs(rungs: tuple[int, ...]) -> None:
    """Refuse numbers of samples that do not rise. Raises ``ConfigError``."""
    if not rungs or rungs[0] < 1 or sorted(set(rungs)) != [*rungs]:
        raise ConfigError(f"numbers of samples that rise from at least 1, got {[*rungs]}.", "rungs")


def rungs_to(rungs: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the rungs below ``n``, and ``n`` at last."""
    return (*(rung for rung in rungs if rung < n), n)
