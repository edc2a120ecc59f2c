"""The one hook a plugin implements.

::

    from ttsflow.hookspecs import hookimpl

    @hookimpl
    def ttsflow_register(registry):
        registry.add("verifier", "spelling", "my_package.spelling:Spelling")
        registry.add_configs("my_package.conf")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from ttsflow.plugins import Registration

__all__ = ["PROJECT", "hookimpl", "hookspec", "ttsflow_register"]

PROJECT = "ttsflow"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def ttsflow_register(registry: Registration) -> None:
    """Add parts with ``registry.add(kind, name, target)``, config groups with ``add_configs``."""
