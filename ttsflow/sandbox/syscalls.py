"""Which system calls are left to untrusted code, as a seccomp filter.

What is not listed fails with "operation not permitted": no new processes and programs, no sockets, no signals
to others, no tracing, no shared memory, no mounts. Where files must not be written, a file opens for reading
only. The filter holds for all that comes after it and cannot be taken off.

Numbers are those of the kernel's ``asm/unistd_64.h`` (x86_64) and ``asm-generic/unistd.h`` (aarch64).
"""

from __future__ import annotations

import errno
import os
from struct import pack

__all__ = ["NUMBERS", "number", "program"]

#: Calls that are always allowed, as name:x86_64:aarch64.
_PLAIN = """
    read:0:63 write:1:64 readv:19:65 writev:20:66 pread64:17:67 preadv:295:69 close:3:57
    close_range:436:436 fstat:5:80 newfstatat:262:79 statx:332:291 stat:4 lstat:6 lseek:8:62 mmap:9:222
    mprotect:10:226 munmap:11:215 mremap:25:216 brk:12:214 madvise:28:233 mincore:27:232
    rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 rt_sigpending:127:136
    rt_sigtimedwait:128:137 rt_sigsuspend:130:133 sigaltstack:131:132 access:21 faccessat:269:48
    faccessat2:439:439 readlink:89 readlinkat:267:78 getcwd:79:17 chdir:80:49 fchdir:81:50 pipe:22
    pipe2:293:59 dup:32:23 dup2:33 dup3:292:24 select:23 pselect6:270:72 poll:7 ppoll:271:73
    epoll_create:213 epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232 epoll_pwait:281:22
    epoll_pwait2:441:441 eventfd:284 eventfd2:290:19 timerfd_create:283:85 timerfd_settime:286:86
    timerfd_gettime:287:87 sched_yield:24:124 sched_getaffinity:204:123 nanosleep:35:101
    clock_nanosleep:230:115 clock_gettime:228:113 clock_getres:229:114 gettimeofday:96:169 time:201
    times:100:153 getrusage:98:165 getrlimit:97:163 sysinfo:99:179 uname:63:160 getpid:39:172
    getppid:110:173 gettid:186:178 getuid:102:174 geteuid:107:175 getgid:104:176 getegid:108:177
    getresuid:118:148 getresgid:120:150 getgroups:115:158 getpgrp:111 getpgid:121:155 getsid:124:156
    umask:95:166 exit:60:93 exit_group:231:94 futex:202:98 futex_waitv:449:449 set_robust_list:273:99
    get_robust_list:274:100 set_tid_address:218:96 rseq:334:293 arch_prctl:158 getrandom:318:278
    getdents64:217:61 statfs:137:43 fstatfs:138:44 fadvise64:221:223 membarrier:324:283
    restart_syscall:219:128 getitimer:36:102 setitimer:38:103 alarm:37 pause:34 recvfrom:45:207
    shutdown:48:210 getsockopt:55:209 setsockopt:54:208 getsockname:51:204 getpeername:52:205
    wait4:61:260 waitid:247:95
"""

#: Calls that change files, allowed where those are private.
_WRITING = """
    pwrite64:18:68 pwritev:296:70 unlink:87 unlinkat:263:35 rename:82 renameat:264:38 renameat2:316:276
    rmdir:84 mkdir:83 mkdirat:258:34 truncate:76:45 ftruncate:77:46 link:86 linkat:265:37 symlink:88
    symlinkat:266:36 chmod:90 fchmod:91:52 fchmodat:268:53 utimensat:280:88 utime:132 utimes:235
    fallocate:285:47 fsync:74:82 fdatasync:75:83 sendfile:40:71 copy_file_range:326:285
"""

#: Calls of which some are allowed, and calls that only ttsflow makes.
_OTHERS = """
    open:2 openat:257:56 openat2:437:437 ioctl:16:29 fcntl:72:25 kill:62:129 tgkill:234:131 clone:56:220
    clone3:435:435 prlimit64:302:261 socketpair:53:199 sendto:44:206
    pivot_root:155:41 mount_setattr:442:442 landlock_create_ruleset:444:444 landlock_add_rule:445:445
    landlock_restrict_self:446:446
"""

_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000  # numbers from here on are a second door to the calls of x86_64

_LOAD, _AND, _EQUAL, _LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH = 0, 4  # places in struct seccomp_data

_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)
_THREAD = 0x10000  # CLONE_THREAD
_FCNTL = (0, 1, 2, 3, 4, 1030, 1032)  # F_DUPFD, F_GETFD ... F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FI(N)CLEX

_Line = tuple[int, int, int, int]


def _column(table: str, machine: str) -> dict[str, int]:
    rows = [entry.split(":") for entry in table.split()]
    place = list(_ARCHES).index(machine) + 1
    return {row[0]: int(row[place]) for row in rows if len(row) > place}


#: The numbers of all calls named here, by machine.
NUMBERS = {machine: _column(_PLAIN + _WRITING + _OTHERS, machine) for machine in _ARCHES}


def number(name: str) -> int:
    """Return a call's number on this machine. Raises ``OSError`` on one whose numbers are not known."""
    machine = os.uname().machine
    if machine not in NUMBERS:
        raise OSError(errno.ENOSYS, f"system calls of {machine} are not known; known: {', '.join(NUMBERS)}")
    return NUMBERS[machine][name]


def program(pid: int, *, writing: bool) -> bytes:
    """Return the filter for a process: BPF instructions. Raises ``OSError`` on an unknown machine.

    ``pid`` is the process as it sees itself, the only one it may send signals to.
    """
    known = NUMBERS[os.uname().machine] if number("read") is not None else {}
    allowed = _PLAIN + (_WRITING if writing else "")
    lines = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _ARCHES[os.uname().machine]),
        _result(_KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_LEAST, 0, 1, _X32),
        _refusal(errno.EPERM),
    ]
    for entry in allowed.split():
        name = entry.partition(":")[0]
        lines += _on(known.get(name), [_result(_ALLOW)])
    for name, body in _judged(pid, writing=writing).items():
        lines += _on(known.get(name), body)
    lines.append(_refusal(errno.EPERM))
    return b"".join(pack("=HBBI", *line) for line in lines)


def _judged(pid: int, *, writing: bool) -> dict[str, list[_Line]]:
    """Return the rules of calls that depend on their arguments."""
    no, yes, unknown = _refusal(errno.EPERM), _result(_ALLOW), _refusal(errno.ENOSYS)
    to_self = [_argument(0), (_EQUAL, 0, 1, pid), yes, no]

    def opening(place: int) -> list[_Line]:
        return [yes] if writing else [_argument(place), (_ANY_BIT, 0, 1, _TO_WRITE), no, yes]

    def one_of(values: tuple[int, ...], error: int) -> list[_Line]:
        tests = [line for value in values for line in ((_EQUAL, 0, 1, value), yes)]
        return [_argument(1), *tests, _refusal(error)]

    return {
        "open": opening(1),
        "openat": opening(2),
        "openat2": [unknown],
        "clone": [_argument(0), (_ANY_BIT, 0, 1, _THREAD), yes, no],
        "clone3": [unknown],  # its flags are out of reach; the C library then uses clone
        "kill": to_self,
        "tgkill": to_self,
        "prlimit64": [_argument(0), (_EQUAL, 0, 1, 0), yes, no],
        "fcntl": one_of(_FCNTL, errno.EPERM),
        "ioctl": one_of(_IOCTL, errno.ENOTTY),
        # A pair of streams is a pipe; a pair of datagram sockets could still write to others.
        "socketpair": [_argument(1), (_AND, 0, 0, 0xF), (_EQUAL, 0, 1, 1), yes, no],
        "sendto": [
            _argument(4),
            (_EQUAL, 1, 0, 0),
            no,
            (_LOAD, 0, 0, _place(4) + 4),
            (_EQUAL, 0, 1, 0),
            yes,
            no,
        ],
    }


def _on(call: int | None, body: list[_Line]) -> list[_Line]:
    return [] if call is None else [(_EQUAL, 0, len(body), call), *body]


def _result(value: int) -> _Line:
    return (_RETURN, 0, 0, value)


def _refusal(error: int) -> _Line:
    return _result(_ERROR | error)


def _place(argument: int) -> int:
    return 16 + 8 * argument


def _argument(index: int) -> _Line:
    """Load the lower half of an argument; both machines are little-endian."""
    return (_LOAD, 0, 0, _place(index))
