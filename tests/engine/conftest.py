"""One real engine for all tests of this folder: loading it is what takes the time."""

import pytest

from ttsflow.engines import warm
from ttsflow.engines.vllm import VLLM

PART = VLLM("demo", dtype="float32", seats=16, context=1024, kv_gib=0.25)


@pytest.fixture(scope="session", autouse=True)
def _closed_at_the_end():
    yield
    warm.close_all()


@pytest.fixture
def engine():
    """Return the shared engine, reset; it is opened again if a test has opened another one."""
    return warm.acquire(PART)
