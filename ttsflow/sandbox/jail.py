"""Takes rights away from this process and all that come from it, for good.

Two ways. ``namespaces``: an own user, mounts, processes, network and IPC. Of the files only Python's library
and the system's are left, to read; ``/tmp`` is a small memory disk that goes with the process. ``limits``,
where the kernel forbids that: the files stay those of the user, to read; with Landlock (Linux 5.13) only the
same libraries. In both, the seccomp filter of ``syscalls`` follows.
"""

# pathlib takes longer to load than most code takes to run.
# ruff: noqa: PTH102, PTH103, PTH112, PTH114, PTH115, PTH118, PTH123, PTH211

from __future__ import annotations

import ctypes
import os
import resource
import sys
from ctypes import c_char_p, c_int, c_long, c_uint32, c_ulong, c_ushort, c_void_p

from ttsflow.sandbox import syscalls

__all__ = ["adopt_orphans", "die_with_parent", "drop_rights", "enter", "filter_calls", "limit"]

_libc = ctypes.CDLL(None, use_errno=True)

# linux/sched.h: CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS
_NEW = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
_NOSUID, _NODEV, _BIND, _REC, _PRIVATE = 2, 4, 4096, 16384, 1 << 18  # linux/mount.h
_READ_ONLY, _RECURSIVE, _HERE, _DETACH = 1, 0x8000, -100, 2
_PDEATHSIG, _DUMPABLE, _SECCOMP, _SUBREAPER, _NO_NEW_PRIVS = 1, 4, 22, 36, 38  # linux/prctl.h
_NOBODY = 65534
_TMP = "/tmp"  # noqa: S108 - inside, where it is a memory disk of the code alone
_INODES = 1000


def enter(way: str, disk_mib: int) -> str:
    """Go where the code may run, and return the way in words. Raises ``OSError``."""
    if way == "namespaces":
        _into_namespaces(disk_mib)
        return way
    os.chdir("/")
    _prctl(_NO_NEW_PRIVS, 1)
    return f"{way} and landlock" if _read_only_libraries() else way


def drop_rights() -> None:
    """Give up every capability; become a process that others without any cannot look into."""
    _prctl(_NO_NEW_PRIVS, 1)
    header, none = (c_uint32 * 2)(0x20080522, 0), (c_uint32 * 6)()
    _call("capset", header, none)
    _prctl(_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Become the parent of all descendants that lose theirs, so that none is left unwaited for."""
    _prctl(_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed as soon as the parent is gone."""
    _prctl(_PDEATHSIG, 9)


def limit(memory_mib: int, *, seconds: int, disk_mib: int, files: int) -> None:
    """Limit this process's memory, processor time, bytes per file and open files."""
    for name, value in (
        (resource.RLIMIT_AS, memory_mib << 20),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, disk_mib << 20),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        hard = resource.getrlimit(name)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (most, most))


def filter_calls(*, writing: bool) -> None:
    """Allow this process the calls of ``syscalls`` alone."""
    code = syscalls.program(os.getpid(), writing=writing)
    buffer = ctypes.create_string_buffer(code, len(code))
    filters = _Program(len(code) // 8, ctypes.cast(buffer, c_void_p))
    _prctl(_NO_NEW_PRIVS, 1)
    _prctl(_SECCOMP, 2, ctypes.addressof(filters))


class _Program(ctypes.Structure):
    _fields_ = [("length", c_ushort), ("filters", c_void_p)]


def _libraries() -> list[str]:
    """Return the folders that an interpreter loads modules and shared libraries from, outer ones first."""
    system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store"]
    own = [os.path.join(sys.base_prefix, "lib"), *(os.path.realpath(folder) for folder in sys.path)]
    found: list[str] = []
    for folder in (*system, "/usr/share/zoneinfo", *own):
        if os.path.isdir(folder) and not any(f"{folder}/".startswith(f"{one}/") for one in found):
            found.append(folder)
    return found


def _into_namespaces(disk_mib: int) -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEW)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_NOBODY} {user} 1"),
        ("gid_map", f"{_NOBODY} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _mount(None, "/", None, _REC | _PRIVATE)
    # The new root may cover a folder that is needed no more; nothing of it is seen outside.
    root = "/proc"
    _mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "size=1m,nr_inodes=200,mode=755")
    for name in (_TMP, "/dev"):
        os.mkdir(root + name)
    room = f"size={disk_mib}m,nr_inodes={_INODES},mode=777"
    _mount("tmpfs", root + _TMP, "tmpfs", _NOSUID | _NODEV, room)
    for folder in _libraries():
        if os.path.islink(folder):
            os.symlink(os.readlink(folder), root + folder)
        else:
            os.makedirs(root + folder, exist_ok=True)
            _mount(folder, root + folder, None, _BIND | _REC)
            _make_read_only(root + folder, _RECURSIVE)
    for device in ("/dev/null", "/dev/zero", "/dev/urandom"):
        os.close(os.open(root + device, os.O_CREAT | os.O_WRONLY))
        _mount(device, root + device, None, _BIND)
    os.chdir(root)
    _syscall("pivot_root", b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir(_TMP)
    _make_read_only("/", 0)


def _make_read_only(path: str, flags: int) -> None:
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY)
    _syscall("mount_setattr", _HERE, path.encode(), flags, attributes, ctypes.sizeof(attributes))


def _read_only_libraries() -> bool:
    """Forbid all files but the libraries; return whether the kernel can."""
    nothing = c_void_p(None)
    version = _libc.syscall(syscalls.number("landlock_create_ruleset"), nothing, c_ulong(0), c_ulong(1))
    if version < 1:
        return False
    # linux/landlock.h: 13 rights over files in version 1, later ones added a bit each.
    rights = (1 << 13) - 1 | (version >= 2) << 13 | (version >= 3) << 14 | (version >= 5) << 15
    handled = ctypes.c_uint64(rights)
    rules = _syscall("landlock_create_ruleset", ctypes.byref(handled), ctypes.sizeof(handled), 0)
    for folder in _libraries():
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = ctypes.create_string_buffer(
            (1 << 2 | 1 << 3).to_bytes(8, "little") + place.to_bytes(4, "little")
        )
        _syscall("landlock_add_rule", rules, 1, rule, 0)
        os.close(place)
    _syscall("landlock_restrict_self", rules, 0)
    os.close(rules)
    return True


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    texts = (None if text is None else text.encode() for text in (source, target, kind))
    _call("mount", *(c_char_p(text) for text in texts), c_ulong(flags), c_char_p(data.encode() or None))


def _prctl(option: int, value: int, more: int = 0) -> None:
    _call("prctl", c_int(option), c_ulong(value), c_ulong(more), c_ulong(0), c_ulong(0))


def _syscall(name: str, *arguments: object) -> int:
    wide = [c_long(one) if isinstance(one, int) else one for one in arguments]
    return _call("syscall", c_long(syscalls.number(name)), *wide, told=name)


def _call(name: str, *arguments: object, told: str = "") -> int:
    function = getattr(_libc, name)
    function.restype = c_long if name == "syscall" else c_int
    result: int = function(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{told or name}: {os.strerror(code)}")
    return result
