"""A signal ends a run even when Python drops the exception it raises."""

import os
import signal

import pytest

from ttsflow import interrupt
from ttsflow.run import run_config

CONFIG = {
    "strategy": {"use": "sequence", "stages": {"sample": {"use": "generate", "n": 4}}},
    "engine": {"use": "fake"},
    "task": {"use": "arithmetic", "size": 20},
    "concurrency": 1,
}


class Swallows:
    """Receives a signal while it is being finalised, where an exception is lost."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_is_lost_still_ends_the_run(tmp_path):
    with interrupt.handled():
        Swallows()
        assert interrupt.received() == signal.SIGTERM
        with pytest.raises(interrupt.Interrupted):
            run_config(CONFIG, tmp_path / "run")
    assert '"status": "partial"' in (tmp_path / "run" / "summary.json").read_text()


def test_further_signals_do_not_disturb_the_clean_end():
    with interrupt.handled():
        with pytest.raises(interrupt.Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.received() == signal.SIGINT
        with pytest.raises(interrupt.Interrupted):
            interrupt.check()


def test_the_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with interrupt.handled():
        assert signal.getsignal(signal.SIGTERM) is not before
        interrupt.check()
    assert signal.getsignal(signal.SIGTERM) is before
