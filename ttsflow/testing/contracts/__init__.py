"""Contract classes: inherit one in your tests, give it your part, and pytest runs the rest.

Example::

    class TestMyVerifier(VerifierContract):
        @pytest.fixture
        def part(self):
            return MyVerifier()

Most need a fixture ``part``, the settings; ``EngineContract`` needs ``engine``, one that is open.
"""

from __future__ import annotations

import pytest

# What a failing assertion compares is shown as in any test.
pytest.register_assert_rewrite(*(f"{__name__}.{room}" for room in ("engines", "measures", "parts", "stages")))

from ttsflow.testing.contracts.engines import EngineContract, decode_all  # noqa: E402 - rewritten from here on
from ttsflow.testing.contracts.measures import (  # noqa: E402
    ControllerContract,
    CostContract,
    LoadContract,
    MeterContract,
)
from ttsflow.testing.contracts.parts import PartContract, TaskContract, VerifierContract  # noqa: E402
from ttsflow.testing.contracts.stages import (  # noqa: E402
    PredictorContract,
    StageContract,
    UntilContract,
    WatchContract,
)

__all__ = [
    "ControllerContract",
    "CostContract",
    "EngineContract",
    "LoadContract",
    "MeterContract",
    "PartContract",
    "PredictorContract",
    "StageContract",
    "TaskContract",
    "UntilContract",
    "VerifierContract",
    "WatchContract",
    "decode_all",
]
