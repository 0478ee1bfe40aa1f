"""A process that binds itself step by step, as its argument says: a list of steps as JSON.

    ["policy", MODE, NODES]   set_mempolicy(2); "default" has no nodes
    ["cpus", CPUS]            sched_setaffinity(2) of the calling thread
    ["touch", MEBIBYTES]      use private memory for the first time
    ["share", FILE, MEBIBYTES] map a file, and use what nobody has used yet
    ["thread", CPUS]          start a thread there, which counts on which nodes it runs
    ["seccomp"]               refuse the calls of memory policies, as runtimes do, and give up CAP_SYS_NICE

It then prints one line of JSON, and another one for each line on stdin: pages of each part by node (move_pages(2)), the
seconds of each thread by CPU (its own clock), and the error numbers of refused steps.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
_PAGE = 4096
_PR_SET_THP_DISABLE = 41
_POLICIES = {"default": 0, "bind": 2}
_CALLS = ("set_mempolicy", "get_mempolicy", "mbind", "move_pages", "capget", "capset")
_NUMBERS = dict(
    zip(
        _CALLS,
        {"x86_64": (238, 239, 237, 279, 125, 126), "aarch64": (237, 236, 235, 239, 90, 91)}[os.uname().machine],
        strict=True,
    )
)
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[os.uname().machine]
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38
_ALLOW, _EPERM, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
_SYS_NICE = 23
_CAPABILITY_VERSION = 0x20080522

_refused: list[int] = []
_parts: list[tuple[int, int]] = []
_ran: list[Counter[int]] = []
_maps: list[mmap.mmap] = []


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def policy(mode: str, nodes: list[int]) -> None:
    mask = ctypes.c_ulong(sum(1 << node for node in nodes))
    of_nodes = (None, 0) if mode == "default" else (ctypes.byref(mask), 8 * ctypes.sizeof(mask))
    if libc.syscall(_NUMBERS["set_mempolicy"], _POLICIES[mode], of_nodes[0], ctypes.c_ulong(of_nodes[1])):
        _refused.append(ctypes.get_errno())


def touch(mebibytes: int, file: str | None = None) -> None:
    size = mebibytes << 20
    if file is None:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    else:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, size)
        memory = mmap.mmap(descriptor, size, mmap.MAP_SHARED)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.memset(address, 0x5A, size)
    _maps.append(memory)
    _parts.append((address, size))


def thread(cpus: list[int]) -> None:
    ran: Counter[int] = Counter()
    _ran.append(ran)
    started = threading.Event()

    def work() -> None:
        for cpu in cpus:
            os.sched_setaffinity(0, {cpu})
            until = time.thread_time() + 0.05
            before = time.thread_time_ns()
            while time.thread_time() < until:
                pass
            ran[cpu] += time.thread_time_ns() - before
        os.sched_setaffinity(0, set(cpus))
        started.set()
        threading.Event().wait()

    threading.Thread(target=work, daemon=True).start()
    started.wait()


def seccomp() -> None:
    """As the default profile of Docker for a process without CAP_SYS_NICE."""
    header, data = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.syscall(_NUMBERS["capget"], header, data) == 0
    for word in range(3):
        data[word] &= ~(1 << _SYS_NICE)
    assert libc.syscall(_NUMBERS["capset"], header, data) == 0
    calls = [_NUMBERS[name] for name in ("set_mempolicy", "get_mempolicy", "mbind")]
    lines = [(_LOAD, 0, 0, 4), (_EQUALS, 1, 0, _AUDIT_ARCH), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    for place, number in enumerate(calls):
        lines.append((_EQUALS, len(calls) - place, 0, number))
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EPERM)]
    instructions = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    program = _Program(len(lines), instructions)
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0


def truth() -> dict[str, Any]:
    pages = [dict(_by_node(address, size)) for address, size in _parts]
    return {"pages": pages, "threads": [dict(one) for one in _ran], "refused": _refused, "pid": os.getpid()}


def _by_node(address: int, size: int) -> Counter[int]:
    count = size // _PAGE
    pages = (ctypes.c_void_p * count)(*range(address, address + size, _PAGE))
    status = (ctypes.c_int * count)()
    if libc.syscall(_NUMBERS["move_pages"], 0, ctypes.c_ulong(count), pages, None, status, 0):
        raise OSError(ctypes.get_errno(), "move_pages")
    return Counter(status)


STEPS: dict[str, Callable[..., None]] = {
    "policy": policy,
    "cpus": lambda cpus: os.sched_setaffinity(0, set(cpus)),
    "touch": touch,
    "share": lambda file, mebibytes: touch(mebibytes, file),
    "thread": thread,
    "seccomp": seccomp,
}


def main() -> None:
    libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
    for name, *arguments in json.loads(sys.argv[1]):
        STEPS[name](*arguments)
    print(json.dumps(truth()), flush=True)
    for _ in sys.stdin:
        print(json.dumps(truth()), flush=True)


if __name__ == "__main__":
    main()
