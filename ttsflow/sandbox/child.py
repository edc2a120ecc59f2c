"""The three processes of one run.

The *watchdog* is started by ttsflow. It enters the jail, keeps the time, ends the others and waits for them;
when ttsflow lets go of it or dies, it ends everything. The *tester* runs the tests. The *worker*, its child,
is the only one that runs the code: it was forked before the tests were read, so that they are nowhere in its
memory, and it has no way to the report. What it returns is copied as plain values (``values``). Ending
early, patching builtins or equalling everything therefore passes no test.

This module is loaded by a bare interpreter and imports only what loads fast.
"""

from __future__ import annotations

import builtins
import os
import select
import sys
import time
from types import CodeType, ModuleType

from ttsflow.sandbox import jail, values

TYPE_CHECKING = False  # typing takes longer to load than most code takes to run
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

__all__ = ["main"]

_KILL = 9
_FRAME = 16 << 20  # bytes of the largest message
_TEXT = 300  # characters of an error that are told
_TESTER_MIB = 512


class Gone(Exception):
    """The worker has ended, or says what is no message."""


def main(job: int) -> None:
    """Run the job in the file ``job``; standard input is the leash, standard output takes the report."""
    parent = os.getpid()
    try:
        _watch(job)
    except BaseException as error:  # noqa: BLE001 - whatever happens here is a failure of the sandbox
        if os.getpid() == parent:
            _say(1, "broken", _told(error))
    finally:
        os._exit(0)


def _watch(job: int) -> None:
    """Start the tester, end it in time, and leave nothing behind."""
    settings = values.decode(_receive(job))
    null = os.open("/dev/null", os.O_RDWR)
    if "typing" in settings["code"]:
        import typing  # noqa: F401, PLC0415 - once, for both children
    jail.adopt_orphans()
    way = jail.enter(settings["isolation"], settings["disk_mib"])
    jail.drop_rights()
    _say(1, "isolation", way)
    until = time.monotonic() + settings["seconds"]
    tester = os.fork()
    if tester == 0:
        _apart(_test, settings, job, null)
    waiter = select.poll()
    ended = os.pidfd_open(tester)
    waiter.register(ended, select.POLLIN)
    waiter.register(0, 0)  # the other end of standard input was closed
    left = until - time.monotonic()
    news = waiter.poll(max(0.0, left) * 1000)
    if not news:
        _say(1, "time", "")
    os.kill(tester, _KILL)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def _apart(function: Any, *arguments: Any) -> NoReturn:
    """Run a child's part; whatever happens, it never goes on as its parent."""
    try:
        jail.die_with_parent()
        function(*arguments)
    finally:
        os._exit(1)


# --- the tester ----------------------------------------------------------------------------------------


def _test(settings: Mapping[str, Any], job: int, null: int) -> None:
    report = os.dup(1)
    for place in (0, 1, 2):
        os.dup2(null, place)
    asks, ask = os.pipe()
    replies, reply = os.pipe()
    worker = os.fork()
    if worker == 0:
        _only(asks, reply)
        _apart(_work, settings, asks, reply)
    os.close(asks)
    os.close(reply)
    tests = values.decode(_receive(job))
    os.close(job)
    channel = _Channel(ask, replies, worker)
    try:
        _shut(settings, _TESTER_MIB)
        channel.ready()
    except BaseException as error:  # noqa: BLE001 - no code has run yet: whatever it is, it is not the code's
        return _say(report, "broken", f"rights cannot be taken away: {_told(error)}")
    try:
        channel.ready()
    except BaseException as error:  # noqa: BLE001 - the code may raise anything
        _say(report, "fail", f"does not load: {_told(error)}")
        return _say(report, "end", "")
    _say(report, "loaded", "")
    names: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(tests["setup"], names)  # noqa: S102 - the data set's own text, in the jail
    except BaseException as error:  # noqa: BLE001 - it may raise anything, which says nothing about the code
        return _say(report, "broken", f"the setup of the tests: {_told(error)}")
    names["candidate"] = names[settings["entry"]] = channel.call
    for test in tests["tests"]:
        problem = _failure(test, dict(names), channel)
        _say(report, "pass" if problem is None else "fail", problem or "")
        if problem is not None and tests["until_failure"]:
            break
    return _say(report, "end", "")


def _shut(settings: Mapping[str, Any], memory_mib: int) -> None:
    """Take away what this process may not do."""
    jail.limit(memory_mib, seconds=settings["cpu"], disk_mib=settings["disk_mib"], files=settings["files"])
    jail.filter_calls(writing=settings["isolation"] == "namespaces")


def _failure(test: str, names: dict[str, Any], channel: _Channel) -> str | None:
    """Run one test; return why it failed, None when it passed."""
    try:
        exec(test, names)  # noqa: S102 - as above
    except BaseException as error:  # noqa: BLE001 - a test may raise anything
        return channel.gone or _told(error)
    # A test that catches everything must not pass without the code.
    return channel.gone


class _Channel:
    """Calls the code, which runs in the worker."""

    def __init__(self, ask: int, replies: int, worker: int) -> None:
        self._ask = ask
        self._replies = replies
        self._worker = worker
        self.gone: str | None = None

    def ready(self) -> None:
        """Wait until the worker is shut in, the next time until the code is loaded; raise what was raised."""
        self._result()

    def call(self, *arguments: Any, **named: Any) -> Any:
        """Call the function with copies of the arguments; return a copy of its result, or raise."""
        try:
            _send(self._ask, values.encode((arguments, named)))
        except OSError as error:
            raise Gone(self._lost()) from error
        return self._result()

    def _result(self) -> Any:
        try:
            kind, value = values.decode(_receive(self._replies))
        except (OSError, EOFError) as error:
            raise Gone(self._lost()) from error
        except (ValueError, TypeError) as error:
            self.gone = "what the code returned cannot be read"
            raise Gone(self.gone) from error
        if kind == "gave":
            return value
        raise _raised(*value)

    def _lost(self) -> str:
        """Return how the worker ended."""
        if self.gone is None:
            for _ in range(100):
                process, status = os.waitpid(self._worker, os.WNOHANG)
                if process:
                    code = os.waitstatus_to_exitcode(status)
                    how = (
                        f"was ended by signal {-code}" if code < 0 else f"ended itself with exit code {code}"
                    )
                    break
                time.sleep(0.001)
            else:
                how = "ended the connection"
            self.gone = f"the code {how}"
        return self.gone


def _raised(name: str, text: str) -> Exception:
    """Return the exception the code raised, when it is a plain builtin one; else one that names it.

    One that ends an iteration would end that of a test, which had then checked nothing. As in a generator
    (PEP 479) it becomes another one.
    """
    kind = getattr(builtins, name, None)
    if kind in (StopIteration, StopAsyncIteration):
        return RuntimeError(f"the code raised {name}: {text}".rstrip(": "))
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(text)
        except TypeError:
            pass
    return Exception(f"{name}: {text}")


# --- the worker ----------------------------------------------------------------------------------------


def _work(settings: Mapping[str, Any], asks: int, reply: int) -> None:
    code, entry = settings["code"], settings["entry"]
    try:
        _shut(settings, settings["memory_mib"])
    except Exception as error:  # noqa: BLE001 - a limit that does not fit raises one of several
        return _send(reply, _failed(error))
    _send(reply, values.encode(("gave", None)))
    os.environ.clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "ttsflow"]:
        del sys.modules[name]
    module = ModuleType("solution")
    sys.modules["solution"] = module
    try:
        compiled: CodeType = compile(code, "<solution>", "exec", dont_inherit=True)
        exec(compiled, module.__dict__)  # noqa: S102 - this is the jail
        function = module.__dict__[entry]
    except KeyError:
        return _send(reply, values.encode(("raised", ("NameError", f"there is no {entry}"))))
    except BaseException as error:  # noqa: BLE001 - the code may raise anything
        return _send(reply, _failed(error))
    _send(reply, values.encode(("gave", None)))
    while True:
        arguments, named = values.decode(_receive(asks))
        try:
            answer = values.encode(("gave", function(*arguments, **named)))
        except BaseException as error:  # noqa: BLE001 - the code may raise anything
            answer = _failed(error)
        _send(reply, answer)


def _failed(error: BaseException) -> bytes:
    try:
        text = str(error)[:_TEXT]
    except BaseException:  # noqa: BLE001 - the code may have its own exceptions
        text = ""
    return values.encode(("raised", (type(error).__name__, text)))


def _only(*kept: int) -> None:
    """Close all files but the standard ones and these."""
    start = 3
    for place in (*sorted(kept), 1 << 16):
        os.closerange(start, place)
        start = place + 1


# --- messages ------------------------------------------------------------------------------------------


def _send(file: int, data: bytes) -> None:
    """Write a message: its length in 4 bytes, and its bytes."""
    rest = memoryview(len(data).to_bytes(4, "big") + data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _receive(file: int) -> bytes:
    """Read a message. Raises ``EOFError`` when there is none, ``ValueError`` when it is too long."""
    size = int.from_bytes(_exactly(file, 4), "big")
    if size > _FRAME:
        msg = f"a message of {size} bytes"
        raise ValueError(msg)
    return _exactly(file, size)


def _exactly(file: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(file, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _told(error: BaseException) -> str:
    if isinstance(error, Gone):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except BaseException:  # noqa: BLE001 - as above
        return type(error).__name__


def _say(report: int, kind: str, text: str) -> None:
    """Write a line of the report."""
    line = " ".join(f"{kind} {text}".split())[:_TEXT]
    os.write(report, line.encode("utf-8", "replace") + b"\n")
