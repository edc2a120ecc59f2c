"""One real engine for all tests of this folder: loading it is what takes the time."""

import warnings
from contextlib import contextmanager

import pytest

from ttsflow.engines import warm
from ttsflow.engines.demo_model import demo_model_path
from ttsflow.engines.vllm import VLLM

PART = VLLM("demo", dtype="float32", seats=16, context=1024, kv_gib=0.25)


@pytest.fixture(scope="session", autouse=True)
def _closed_at_the_end():
    yield
    warm.close_all()


@pytest.fixture(scope="session")
def open_engine():
    """Return what gives the shared engine, reset; it is opened again if a test has opened another one."""
    return lambda: warm.acquire(PART)


@pytest.fixture
def engine(open_engine):
    """Return the shared engine, reset."""
    return open_engine()


@pytest.fixture
def counting():
    """Return a context that counts the tokens vLLM's own scheduler takes in, whatever is reported."""
    return _counting


@contextmanager
def _counting(engine):
    scheduler = engine._core.engine_core.engine_core.scheduler
    plain, total = scheduler.update_from_output, [0]

    def update_from_output(plan, output):
        total[0] += sum(len(ids) for ids in output.sampled_token_ids)
        return plain(plan, output)

    scheduler.update_from_output = update_from_output
    try:
        yield total
    finally:
        del scheduler.update_from_output


@pytest.fixture(scope="session")
def plain_model():
    """Return a plain forward pass of the demo model: the log-probabilities at every output token."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(demo_model_path(), dtype=torch.float32)

    def logprobs(prompt, tokens):
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *tokens]])).logits[0]
        return logits[len(prompt) - 1 : -1].double().log_softmax(dim=-1)

    return logprobs
