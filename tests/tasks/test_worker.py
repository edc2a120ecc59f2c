"""The process behind graders that may hang: what its owner sees of it."""

import os
import sys

import pytest

from ttsflow.tasks.worker import GradingError, Worker

ECHO = """
import sys, json, time, os
print("{}", flush=True)
for line in sys.stdin:
    said = json.loads(line)
    if said == "hang":
        time.sleep(60)
    if said == "die":
        os._exit(3)
    print(json.dumps([said, os.environ.get("MARK")]), flush=True)
"""


@pytest.fixture
def echo():
    made = Worker("echo", lambda: [sys.executable, "-c", ECHO], startup=60, environment={"MARK": "1"})
    yield made
    made.close()


def test_questions_and_replies_in_order(echo):
    assert echo.pid is None
    for number in range(3):
        echo.ask(number)
    assert [echo.reply(30) for _ in range(3)] == [[number, "1"] for number in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize(("word", "text"), [("hang", "no reply within 0.2 s"), ("die", "has died")])
def test_one_that_hangs_or_dies_is_replaced(echo, word, text):
    echo.ask("a")
    assert echo.reply(30) == ["a", "1"]
    first = echo.pid
    echo.ask(word)
    with pytest.raises(GradingError, match=text):
        echo.reply(0.2 if word == "hang" else 30)
    echo.ask("b")
    assert echo.reply(30) == ["b", "1"]
    assert echo.pid != first


def test_closing_twice_ends_the_process(echo):
    echo.ask("a")
    process = echo._process
    echo.close()
    echo.close()
    assert process.poll() is not None
    assert echo.pid is None


def test_a_forked_copy_does_not_touch_the_process(echo):
    echo.ask("a")
    process = echo._process
    echo._owner = os.getpid() + 1
    echo.close()
    assert process.poll() is None
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_one_that_cannot_start_says_so():
    broken = Worker("broken", lambda: [sys.executable, "-c", "raise SystemExit"], startup=30)
    with pytest.raises(GradingError, match="the broken process has died"):
        broken.ask("a")
