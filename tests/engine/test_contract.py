"""Real vLLM is held to the same contract as any engine."""

import pytest

from ttsflow.testing.contracts import EngineContract

pytestmark = pytest.mark.engine


class TestVLLM(EngineContract):
    """The shared engine; its fixture resets it before each test."""
