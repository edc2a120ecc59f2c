"""The one hook a plugin implements.

::

    from ttsflow.hookspecs import hookimpl

    ttsflow_api = 1  # the version of this API that it was written for

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

__all__ = ["API_VERSION", "PROJECT", "hookimpl", "hookspec", "ttsflow_register"]

PROJECT = "ttsflow"

#: The version of what a plugin may rely on: hook, protocols, operations and types. It is raised when a plugin
#: that was written for the one before may no longer work; with ``ttsflow_api`` a plugin says which it wants.
API_VERSION = 1

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def ttsflow_register(registry: Registration) -> None:
    """Add parts with ``registry.add(kind, name, target)``, config groups with ``add_configs``."""
