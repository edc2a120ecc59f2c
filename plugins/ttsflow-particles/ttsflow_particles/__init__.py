"""Particle filtering and particle Gibbs as a plugin of ttsflow (arXiv 2502.01618)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttsflow import hookimpl

if TYPE_CHECKING:
    from ttsflow.plugins import Registration

__all__ = ["ttsflow_api", "ttsflow_register"]

#: The plugin API that this was written for.
ttsflow_api = 1


@hookimpl
def ttsflow_register(registry: Registration) -> None:
    """Say what there is; a class is imported when a config first names it."""
    registry.add("stage", "resample", "ttsflow_particles.resample:Resample")
    registry.add("stage", "gibbs", "ttsflow_particles.gibbs:Gibbs")
    registry.add("stage", "posterior", "ttsflow_particles.posterior:Posterior")
    registry.add_configs("ttsflow_particles.conf")
