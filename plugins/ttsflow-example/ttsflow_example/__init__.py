"""A plugin of ttsflow, small and whole, to copy from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttsflow import hookimpl

if TYPE_CHECKING:
    from ttsflow.plugins import Registration

__all__ = ["ttsflow_api", "ttsflow_register"]

#: The plugin API that this was written for; another one is refused with a message that says so.
ttsflow_api = 1


@hookimpl
def ttsflow_register(registry: Registration) -> None:
    """Say what there is; a class is imported when a config first names it."""
    registry.add("stage", "drop_outliers", "ttsflow_example.outliers:DropOutliers")
    registry.add("verifier", "variety", "ttsflow_example.variety:Variety")
    registry.add("cost", "carbon", "ttsflow_example.carbon:Carbon")
    registry.add_configs("ttsflow_example.conf")
