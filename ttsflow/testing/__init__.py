"""For authors of parts: fakes that need no model, and contract classes to inherit from.

``FakeEngine``, ``FakeVerifierPart`` and ``FakeTask`` run any strategy in milliseconds; ``drive`` runs
one stage with replies of your own; ``run_fake`` runs a strategy on the fakes, ``Heard`` is a trace that
stays in memory. The contract classes of
``ttsflow.testing.contracts`` (imported there, since they need pytest) hold a part to its protocol.
"""

from __future__ import annotations

from ttsflow.testing.drive import drive, run_fake
from ttsflow.testing.fake import FakeEngine
from ttsflow.testing.heard import Heard
from ttsflow.testing.parts import FakeEnginePart, FakeTask, FakeVerifierPart

__all__ = ["FakeEngine", "FakeEnginePart", "FakeTask", "FakeVerifierPart", "Heard", "drive", "run_fake"]
