"""Code that attacks the sandbox fails in time, learns nothing, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import psutil
import pytest

import ttsflow
from ttsflow.errors import ConfigError
from ttsflow.sandbox import runs, syscalls, values
from ttsflow.sandbox.runs import Job, Limits, Sandbox, isolation, run

SHORT = Limits(seconds=0.25, memory_mib=128, disk_mib=4)
LONG = Limits(seconds=20, memory_mib=128, disk_mib=4)
LOOP = "def f(*_):\n    while True: pass"
TO_ALL_FILES = """
import os
def f():
    for n in range(64):
        try: os.write(n, {0})
        except OSError: pass
"""


def works(way):
    try:
        isolation(way)
    except ConfigError:
        return False
    return True


KNOWN = ("namespaces", "limits")
WORKING = [way for way in KNOWN if works(way)]


def ways(*slow):
    """Return all ways to isolate code, those that do not work here skipped, those of ``slow`` marked so."""
    for way in KNOWN:
        skipped = pytest.mark.skipif(way not in WORKING, reason=f"{way} do not work here")
        yield pytest.param(way, marks=[skipped, pytest.mark.slow] if way in slow else skipped)


WAYS = [*ways()]


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch):
    """Fail a test after which a process, a file or an open pipe is left."""
    groups = []
    start = runs._Run.__init__

    def watched(self, *arguments):
        start(self, *arguments)
        groups.append(self._process.pid)

    monkeypatch.setattr(runs._Run, "__init__", watched)
    folders = [Path(tempfile.gettempdir()), Path.cwd(), Path("/dev/shm")]
    before = [set(folder.iterdir()) for folder in folders], len([*Path("/proc/self/fd").iterdir()])
    yield
    assert members(groups) == []
    new = [set(folder.iterdir()) - old for folder, old in zip(folders, before[0], strict=True)]
    # Others use the same folders: only what the code below would leave counts.
    assert not [path for found in new for path in found if path.name.startswith("mark")]
    assert len([*Path("/proc/self/fd").iterdir()]) == before[1]


def members(groups):
    """Return the processes that belong to these groups, in whatever namespace, zombies included."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) in groups:
                found.append((process.pid, process.name(), process.status()))
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def code(text):
    return textwrap.dedent(text)


def ran(source, *tests, way="auto", limits=LONG, **settings):
    return run(Job(code(source), "f", tests or ("assert f() is None",), limits=limits, **settings), way)


# --- what it is for ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_right_code_passes_and_wrong_code_does_not(way):
    good = ran("import math\ndef f(x, y=1): return math.floor(x) + y", "assert f(1.5, y=2) == 3", way=way)
    assert (good.passed, good.share, good.reason, good.broken) == (True, 1.0, "", False)
    assert good.isolation.startswith(way)
    bad = ran("def f(x): return x", "assert f(1) == 1", "assert f(2) == 3, 'not 3'", "1 / 0", way=way)
    assert (bad.passed, bad.share, bad.broken) == (False, pytest.approx(1 / 3), False)
    assert bad.reason == "test 2 of 3: AssertionError: not 3"


def test_tests_have_a_setup_and_both_names_of_the_function():
    setup = "import math\ndef twice(x): return 2 * x"
    same = "def twice(x): return 0\ndef f(x): return x"
    assert ran(same, "assert twice(f(1)) == 2 and candidate(3) == 3 and math.pi > 3", setup=setup).passed


@pytest.mark.slow
def test_without_tests_the_code_has_to_load():
    assert run(Job("def f(): pass", "f")).share == 1.0
    for source, reason in (
        ("def f(:", "SyntaxError"),
        ("import nowhere\ndef f(): pass", "ModuleNotFoundError"),
        ("def g(): pass", "NameError: there is no f"),
        ("f = 1 / 0", "ZeroDivisionError"),
        ("", "NameError"),
        ("\0", "null bytes"),
        ("(" * 300 + ")" * 300, "SyntaxError"),
    ):
        result = run(Job(source, "f"))
        assert (result.passed, result.share, result.broken) == (False, 0.0, False)
        assert reason in result.reason


def test_exceptions_of_the_code_reach_the_tests():
    raises = (
        "def f(x):\n    if x: raise KeyError('no')\n    class Own(Exception): pass\n    raise Own('mine')"
    )
    test = "try:\n    f({0})\nexcept {1}:\n    pass\nelse:\n    assert False"
    assert ran(raises, test.format(1, "KeyError"), test.format(0, "Exception")).passed
    assert "Own: mine" in ran(raises, "f(0)").reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["StopIteration", "StopAsyncIteration"])
def test_an_exception_that_ends_an_iteration_ends_none_of_a_test(name):
    source = f"def f(x): raise {name}('over')"
    for test in (
        "for a, b in zip(map(f, [1, 2]), [2, 3]): assert a == b",
        "assert list(map(f, [1, 2])) == []",
        "assert list(iter(lambda: f(1), None)) == []",
    ):
        result = ran(source, test)
        assert (result.passed, result.broken) == (False, False)
        assert f"RuntimeError: the code raised {name}: over" in result.reason


def test_the_first_failure_can_be_the_last_test():
    tests = ("assert f()", "assert f()")
    assert ran("def f(): return 0", *tests, until_failure=True).reason.startswith("test 1 of 2")
    stopped = ran("def f(): raise SystemExit", *tests, until_failure=True)
    assert stopped.reason == "test 1 of 2: Exception: SystemExit"


def test_the_order_of_a_set_is_the_same_in_every_run():
    source = "def f(): return list({'a', 'b', 'c', 'd', 'e'})"
    first = ran(source, "raise Exception(f())").reason
    assert first == ran(source, "raise Exception(f())").reason


# --- attacks -------------------------------------------------------------------------------------------

#: Code that would pass tests without being right, and what the reason must hold.
TRICKS = {
    "exits early": ("import os\nos._exit(0)\ndef f(): pass", "ended itself with exit code 0"),
    "exits in the call": ("import os\ndef f(): os._exit(0)", "ended itself with exit code 0"),
    "raises SystemExit": ("raise SystemExit(0)", "SystemExit"),
    "raises KeyboardInterrupt": ("def f(): raise KeyboardInterrupt", "KeyboardInterrupt"),
    "equals everything": ("class E:\n    def __eq__(self, o): return True\ndef f(): return E()", "Assert"),
    "a number that equals everything": (
        "class E(int):\n    def __eq__(self, o): return True\n    __hash__ = None\ndef f(): return E(7)",
        "AssertionError",
    ),
    "patches builtins": (
        """
        import builtins, sys, os
        for module in (builtins, os, sys):
            for name in dir(module):
                try: setattr(module, name, lambda *a, **k: True)
                except Exception: pass
        """,
        "",
    ),
    "forges the report": (TO_ALL_FILES.format(r"b'\npass\nend\n' * 9"), "cannot be read"),
    "answers nonsense": (TO_ALL_FILES.format(r"b'\0\0\0\1x' * 9"), "cannot be read"),
    "promises a huge answer": (TO_ALL_FILES.format(r"b'\xff' * 9"), "cannot be read"),
    "returns too deep": ("def f():\n    x = []\n    for _ in range(10**5): x = [x]\n    return x", "deep"),
    "returns itself": ("def f():\n    x = []\n    x.append(x)\n    return x", "deep"),
    "reads input": ("def f(): return input()", "EOFError"),
}

#: Code that would do harm, its limits, and what the reason must hold.
ATTACKS = {
    "loop": (LOOP, SHORT, "not done after 0.25 s"),
    "loop at loading": ("while True: pass", SHORT, "not done after 0.25 s"),
    "ignores signals": (
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n" + LOOP,
        SHORT,
        "not done",
    ),
    "stops itself": ("import os\ndef f(): os.kill(os.getpid(), 19)", SHORT, "not done"),
    "sleeps": ("import time\ndef f(): time.sleep(1000)", SHORT, "not done"),
    "fork bomb": ("import os\ndef f():\n    while True: os.fork()", LONG, "PermissionError"),
    "program": (
        "import subprocess\ndef f(): subprocess.run(['/bin/sh', '-c', 'id'])",
        LONG,
        "PermissionError",
    ),
    "program in place": ("import os\ndef f(): os.execv('/bin/sh', ['sh'])", LONG, "Error"),
    "thread bomb": (
        "import threading\ndef f():\n    while True: threading.Thread(target=threading.Event().wait).start()",
        LONG,
        "can't start new thread",
    ),
    "memory": ("def f():\n    x = []\n    while True: x.append(bytearray(1 << 20))", LONG, "MemoryError"),
    "shared memory": ("import os\ndef f(): os.memfd_create('x')", LONG, "PermissionError"),
    "prints without end": ("def f():\n    while True: print('x' * 100000)", SHORT, "not done"),
    "fills the disk": (
        """
        def f():
            for n in range(1000):
                with open(f'mark{n}', 'wb') as file: file.write(bytes(1 << 20))
        """,
        LONG,
        "Error",
    ),
    "many files": ("def f():\n    for n in range(10**6): open(f'mark{n}', 'w').close()", LONG, "Error"),
    "many open files": ("import os\nh = []\ndef f():\n    while True: h.append(os.pipe())", LONG, "OSError"),
    "deep recursion": ("import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()", SHORT, ""),
    "crashes": ("import ctypes\ndef f(): ctypes.string_at(0)", LONG, "signal 11"),
    "aborts": ("import os\ndef f(): os.abort()", LONG, "signal 6"),
    "network": ("import socket\ndef f(): socket.create_connection(('127.0.0.1', 22))", LONG, "Error"),
    "any socket": ("import socket\ndef f(): socket.socket(socket.AF_UNIX)", LONG, "PermissionError"),
    "datagrams": (
        "import socket\ndef f(): socket.socketpair(type=socket.SOCK_DGRAM)",
        LONG,
        "PermissionError",
    ),
    "kills its parent": ("import os\ndef f(): os.kill(os.getppid(), 9)", LONG, "PermissionError"),
    "kills everyone": ("import os\ndef f(): os.kill(-1, 9)", LONG, "PermissionError"),
    "kills its group": ("import os\ndef f(): os.killpg(0, 9)", LONG, "PermissionError"),
    "leaves its group": ("import os\ndef f(): os.setsid()", LONG, "PermissionError"),
    "signals by a file": (
        "import fcntl, os\ndef f(): fcntl.fcntl(0, fcntl.F_SETOWN, 1)",
        LONG,
        "PermissionError",
    ),
    "raises its limits": (
        "import resource\ndef f(): resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        LONG,
        "not allowed",
    ),
    "gets a new namespace": (
        "import ctypes\ndef f():\n    if ctypes.CDLL(None).unshare(0x10000000): raise OSError",
        LONG,
        "OSError",
    ),
    "traces its parent": (
        "import ctypes, os\ndef f():\n    if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0): raise OSError",
        LONG,
        "OSError",
    ),
}


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_passes_no_test(name):
    source, reason = TRICKS[name]
    result = ran(source, "assert f() == 'right'")
    assert (result.passed, result.broken) == (False, False)
    assert reason in result.reason


@pytest.mark.slow
@pytest.mark.parametrize("way", [*ways(*WORKING[1:])])
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_fails_in_time(name, way):
    source, limits, reason = ATTACKS[name]
    started = time.monotonic()
    result = ran(source, "assert f() == 'right'", way=way, limits=limits)
    assert time.monotonic() - started < limits.seconds + 10  # the rest is for a machine under load
    assert not result.passed
    assert not result.broken
    assert reason in result.reason
    assert (result.isolation or "").startswith(way)


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_can_be_read(way, monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET_TOKEN", "secret-in-environ")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret-in-file")
    source = f"""
    import glob, os
    def f():
        found = [repr(dict(os.environ))]
        own, parent, asker = '/proc/self/', f'/proc/{{os.getppid()}}/', '/proc/{os.getpid()}/'
        paths = [{str(secret)!r}, '/etc/passwd', own + 'environ', parent + 'environ', asker + 'mem']
        for path in [*paths, *glob.glob('/proc/*/environ'), *glob.glob('/proc/*/cmdline'), asker + 'environ']:
            try: found.append(open(path, 'rb').read(1 << 16).decode('latin1'))
            except OSError: pass
        return ' '.join(found)
    """
    result = ran(source, "raise Exception('read: ' + f())", way=way)
    if result.isolation == "limits":
        pytest.skip("without Landlock files can be read")
    assert result.reason.replace("test 1 of 1: Exception: ", "").startswith("read: {}")
    assert "secret" not in result.reason
    assert "root:" not in result.reason


@pytest.mark.parametrize("way", WAYS)
def test_no_file_of_the_user_can_be_changed(way, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("kept")
    target = str(kept)
    source = f"""
    import os, shutil
    def f():
        done = []
        target, folder = {target!r}, {str(tmp_path)!r}
        for action in (
            lambda: open(target, 'w'),
            lambda: open(target, 'a'),
            lambda: os.remove(target),
            lambda: os.rename(target, target + 'x'),
            lambda: os.chmod(target, 0),
            lambda: os.truncate(target, 0),
            lambda: os.symlink('/', target + 'y'),
            lambda: os.mkdir(folder + '/mark'),
            lambda: shutil.rmtree(folder),
            lambda: open(os.__file__, 'a'),
            lambda: open('/usr/lib/mark', 'w'),
            lambda: os.utime(target),
            lambda: open('/dev/shm/mark', 'w'),
        ):
            try: action()
            except OSError: pass
            else: done.append(1)
        return len(done)
    """
    assert ran(source, "assert f() == 0, f()", way=way).reason == ""
    assert kept.read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.slow
def test_there_is_a_small_folder_to_write_to_in_namespaces():
    if not works("namespaces"):
        pytest.skip("namespaces do not work here")
    source = """
    import os, tempfile
    def f():
        with tempfile.TemporaryFile('w+') as file:
            file.write('x'); file.seek(0)
            return file.read(), os.listdir(), os.listdir('/')
    """
    assert ran(source, "assert f() == ('x', [], ['x'])", way="namespaces").reason != ""
    assert ran(source, "assert f()[:2] == ('x', [])", way="namespaces").passed


@pytest.mark.parametrize("way", WAYS)
def test_the_tests_are_nowhere_in_the_memory_of_the_code(way):
    source = """
    import gc, sys
    def f():
        seen, frame = [], sys._getframe()
        while frame: seen.append(repr(frame.f_locals) + repr(list(frame.f_globals))); frame = frame.f_back
        seen += [repr(thing) for thing in gc.get_objects() if isinstance(thing, (str, list, tuple, dict))]
        wanted = ' '.join(['the', 'right', 'answer'])
        return wanted if wanted in ''.join(seen) else 'nothing'
    """
    assert "nothing" in ran(source, "got = f(); assert got == 'the right answer', got", way=way).reason


def test_a_test_that_catches_everything_needs_the_code_all_the_same():
    quiet = "try:\n    f()\nexcept BaseException:\n    pass"
    assert not ran("import os\ndef f(): os._exit(0)", quiet).passed
    assert ran("def f(): raise SystemExit", quiet).passed


@pytest.mark.slow
def test_threads_and_common_libraries_work():
    source = """
    from collections import Counter, deque
    from dataclasses import dataclass
    import asyncio, bisect, concurrent.futures, datetime, decimal, fractions, functools, hashlib, heapq
    import itertools, json, random, re, statistics, string, threading, typing
    @dataclass
    class Pair:
        a: 'int'
    def f(n):
        async def nothing(): return 1
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            total = sum(pool.map(lambda x: x, range(n)))
        return total + asyncio.run(nothing()), Counter('aab'), Pair(1).a, hashlib.md5(b'').hexdigest()[:4]
    """
    assert ran(source, "assert f(4) == (7, {'a': 2, 'b': 1}, 1, 'd41d')").reason == ""


# --- many runs, and their ends ------------------------------------------------------------------------


def finish(sandbox, number, seconds=60):
    done, until = {}, time.monotonic() + seconds
    while len(done) < number and time.monotonic() < until:
        done.update(sandbox.step())
        time.sleep(0.005)
    return done


@pytest.mark.slow
def test_a_sandbox_runs_so_many_at_once_and_waits_for_none():
    sandbox = Sandbox(workers=2)
    sandbox.submit("loop", Job(LOOP, "f", ("f()",), limits=SHORT))
    for number in range(4):
        sandbox.submit(
            str(number), Job(f"def f(): return {number}", "f", (f"assert f() == {number}",), limits=LONG)
        )
    started = time.monotonic()
    sandbox.step()
    assert time.monotonic() - started < 0.2
    assert len(sandbox._running) == 2
    done = finish(sandbox, 5)
    assert {name for name, result in done.items() if result.passed} == {"0", "1", "2", "3"}
    assert "not done" in done["loop"].reason
    sandbox.close()


@pytest.mark.slow
def test_cancelled_and_closed_runs_are_ended():
    sandbox = Sandbox(workers=2)
    for number in range(3):
        sandbox.submit(str(number), Job(LOOP, "f", ("f()",), limits=LONG))
    sandbox.cancel(["0", "2", "unknown"])
    sandbox.submit("good", Job("def f(): pass", "f", limits=LONG))
    assert list(finish(sandbox, 1)) == ["good"]
    assert list(sandbox._running) == ["1"]
    sandbox.close()
    sandbox.close()
    assert sandbox.step() == []


@pytest.mark.slow
def test_everything_ends_with_the_process_that_asked(tmp_path):
    script = "from ttsflow.sandbox.runs import *\n" + code(
        f"""
        from ttsflow.sandbox import runs
        one = runs._Run(Job({LOOP!r}, "f", ("f()",), limits=Limits(seconds=600)), isolation("auto"))
        print(one._process.pid, flush=True)
        runs._wait(one)
        """
    )
    root = str(Path(ttsflow.__file__).parent.parent)
    asker = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=root)
    group = int(asker.stdout.readline())
    until = time.monotonic() + 30
    while len(members([group])) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(members([group])) == 3
    asker.send_signal(signal.SIGKILL)
    asker.wait()
    asker.stdout.close()
    while [one for one in members([group]) if one[2] != "zombie"] and time.monotonic() < until:
        time.sleep(0.02)
    assert [one for one in members([group]) if one[2] != "zombie"] == []


@pytest.mark.slow
def test_a_sandbox_that_fails_says_so_and_is_no_failed_test(monkeypatch):
    isolation("auto")
    monkeypatch.setattr(runs, "_BOOT", "import nowhere")
    broken = run(Job("def f(): pass", "f", ("f()",)))
    assert (broken.broken, broken.passed) == (True, False)
    assert "the sandbox failed" in broken.reason
    monkeypatch.setattr(runs, "_BOOT", "import time; time.sleep(60)")
    monkeypatch.setattr(runs, "_STARTUP", 0.1)
    late = run(Job("def f(): pass", "f", ("f()",), limits=Limits(seconds=0.1)))
    assert late.broken
    assert "did not answer in time" in late.reason


def test_a_setup_that_fails_says_nothing_about_the_code():
    result = ran("def f(): pass", setup="import nowhere")
    assert result.broken
    assert "the setup of the tests: ModuleNotFoundError" in result.reason


def test_an_isolation_that_does_not_work_is_refused_with_what_the_kernel_said(monkeypatch):
    monkeypatch.setattr(
        runs, "_BOOT", runs._BOOT.replace("import sys, types;", "import sys, types, resource;")
    )
    with pytest.raises(ConfigError, match="there is no 'strong'; known: auto, namespaces, limits"):
        isolation("strong")
    isolation.cache_clear()
    monkeypatch.setattr(runs, "_WAYS", ("nowhere",))
    monkeypatch.setattr(runs, "_BOOT", "import os; os.write(1, b'broken unshare: not permitted')")
    try:
        with pytest.raises(
            ConfigError, match="nowhere: the sandbox failed: unshare: not permitted"
        ) as caught:
            isolation("auto")
    finally:
        isolation.cache_clear()
    assert caught.value.path == "isolation"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seconds", 0),
        ("seconds", 2e6),
        ("seconds", float("inf")),
        ("seconds", float("nan")),
        ("memory_mib", 8),
        ("memory_mib", 10**13),
        ("disk_mib", 10**13),
        ("files", 10**7),
    ],
)
def test_limits_are_checked(field, value):
    with pytest.raises(ConfigError) as caught:
        Limits(**{field: value})
    assert caught.value.path == {"seconds": "timeout"}.get(field, field)


@pytest.mark.parametrize("way", WAYS)
def test_the_largest_limits_work(way):
    most = Limits(seconds=1e6, memory_mib=1 << 40, disk_mib=1 << 40, files=1 << 20)
    assert ran("def f(): pass", way=way, limits=most).passed


@pytest.mark.parametrize("field", ["memory_mib", "disk_mib"])
def test_a_limit_that_cannot_be_set_is_no_wrong_code(field):
    limits = Limits(seconds=20)
    object.__setattr__(limits, field, 10**14)
    result = run(Job("def f(): pass", "f", ("f()",), limits=limits), "auto")
    assert (result.broken, result.passed) == (True, False)
    assert "rights cannot be taken away: OverflowError" in result.reason or "mount" in result.reason


def test_code_cannot_say_that_the_sandbox_is_broken():
    forged = values.encode(("raised", ("OverflowError", "no room")))
    message = len(forged).to_bytes(4, "big") + forged
    result = ran(TO_ALL_FILES.format(repr(message)) + "f()", "assert f()")
    assert (result.broken, result.passed) == (False, False)
    assert "does not load: OverflowError" in result.reason


# --- values and calls ---------------------------------------------------------------------------------


VALUES = [None, True, False, 0, -1, 255, -128, 1 << 4000, 0.5, float("inf"), 2j, "", "\u00e9\ud800", b"\0"]


@pytest.mark.parametrize(
    "value", [*VALUES, VALUES, [], (1,), {1, 2}, frozenset(), {"a": [1, (2, {3: None})]}, [True, 1]]
)
def test_values_survive(value):
    copy = values.decode(values.encode(value))
    assert copy == value
    assert type(copy) is type(value)


def test_other_objects_become_what_they_are_based_on_or_foreign():
    class Name(str):
        __slots__ = ()

    assert type(values.decode(values.encode(Name("a")))) is str
    foreign = values.decode(values.encode([iter([])]))[0]
    assert isinstance(foreign, values.Foreign)
    assert foreign != foreign.__class__("list_iterator")
    assert "list_iterator" in repr(foreign)


@pytest.mark.parametrize(
    "data",
    [b"", b"?", b"NN", b"i\0\0\0\5", b"l\xff\xff\xff\xff", b"s\0\0\0\1\xff", b"e\0\0\0\1l\0\0\0\0", b"f1"],
)
def test_what_is_no_value_is_refused(data):
    with pytest.raises(ValueError, match="value"):
        values.decode(data)


def test_call_numbers_are_those_of_the_kernel():
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.is_file():
        pytest.skip("the kernel's headers are not installed")
    words = [line.split() for line in header.read_text().splitlines() if line.startswith("#define __NR_")]
    known = {word[1].removeprefix("__NR_"): int(word[2]) for word in words}
    missing = {
        name: number
        for name, number in syscalls.NUMBERS["x86_64"].items()
        if known.get(name, number) != number
    }
    assert missing == {}


def test_an_unknown_machine_has_no_filter(monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: type("U", (), {"machine": "abacus"}))
    with pytest.raises(OSError, match="abacus"):
        syscalls.program(1, writing=False)
