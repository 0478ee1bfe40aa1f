"""A process that holds a known number of bytes under a known memory policy, and uses them on command.

Answers each line on stdin with a line on stdout:

    sleep    do nothing (the state at the start)
    touch    rewrite every page over and over, in all threads
    spin     use the CPU, not the memory
    refill   give all pages back to the kernel and touch them again: allocates exactly `bytes` again
    quit     end; so does the end of stdin
    execute ARGUMENT...   become another touch.py with these arguments, which says `ready` as any other

The first line on stdout is `ready ADDRESS PID`, once all bytes are resident.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import select
import sys
import threading
from collections.abc import Sequence

MAP_HUGE_1GB = 30 << 26
MAP_HUGETLB = 0x40000
PR_SET_THP_DISABLE = 41
POLICIES = {
    "preferred": 1,
    "bind": 2,
    "interleave": 3,
    "local": 4,
    "preferred-many": 5,
    "weighted-interleave": 6,
    "bind-sampled": 2 | 1 << 13,
}
"""MPOL_* of include/uapi/linux/mempolicy.h; the last with MPOL_F_NUMA_BALANCING, so that the kernel takes samples."""
MBIND = {"x86_64": 237, "aarch64": 235}
"""The system call's number by architecture: C libraries have no wrapper for it."""

libc = ctypes.CDLL(None, use_errno=True)


class Memory:
    """One mapping: anonymous private pages, shared memory (of a file, where one is named), or huge pages.

    Those are of the usual size, or `gigantic`: of 1 GiB.
    """

    def __init__(self, size: int, kind: str, file: str | None = None) -> None:
        flags = {
            "anon": mmap.MAP_PRIVATE,
            "shmem": mmap.MAP_SHARED,
            "hugetlb": mmap.MAP_PRIVATE | MAP_HUGETLB,
            "gigantic": mmap.MAP_PRIVATE | MAP_HUGETLB | MAP_HUGE_1GB,
        }[kind]
        if file is None:
            self._map = mmap.mmap(-1, size, flags | mmap.MAP_ANONYMOUS)
        else:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            os.ftruncate(descriptor, size)
            self._map = mmap.mmap(descriptor, size, mmap.MAP_SHARED)
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._kind = kind
        self._spans = [(0, size)]
        """Parts that are filled evenly: each thread writes its share of every one."""
        if kind == "anon":
            self._map.madvise(mmap.MADV_NOHUGEPAGE)
            # Linux 6.7 gives thread stacks the same flags, and would merge ours with one beside it in numa_maps
            self._map.madvise(mmap.MADV_DONTDUMP)

    def bind(self, policy: str, nodes: Sequence[int], start: int = 0) -> None:
        """Set the policy of pages not yet allocated, from a byte to the end: mbind(2)."""
        if start:
            self._spans = [(0, start), (start, self.size)]
        mask = ctypes.c_ulong(sum(1 << node for node in nodes))
        length, bits = self.size - start, 8 * ctypes.sizeof(mask)
        arguments = (self.address + start, length, POLICIES[policy], ctypes.byref(mask), bits, 0)
        if libc.syscall(MBIND[os.uname().machine], *map(_wide, arguments)):
            raise OSError(ctypes.get_errno(), f"mbind to nodes {list(nodes)} ({policy})")

    def fill(self, part: int = 0, parts: int = 1) -> None:
        """Write every byte of one of `parts` equal parts. Runs without Python's lock, so threads run in parallel."""
        for begin, end in self._spans:
            start, stop = (begin + (end - begin) * border // parts for border in (part, part + 1))
            ctypes.memset(self.address + start, 0x5A, stop - start)

    def drop(self) -> None:
        """Give all pages back; shared memory needs MADV_REMOVE, the others MADV_DONTNEED."""
        self._map.madvise(mmap.MADV_REMOVE if self._kind == "shmem" else mmap.MADV_DONTNEED)


def _wide(argument: object) -> object:
    # ctypes passes a plain int as 32 bits
    return ctypes.c_ulong(argument) if isinstance(argument, int) else argument


class Worker:
    """The state that all threads read before each round."""

    def __init__(self, memory: Memory, threads: int) -> None:
        self.memory = memory
        self.threads = threads
        self.state = "sleep"
        self._changed = threading.Condition()

    def obey(self, command: str) -> None:
        if command == "refill":
            self.memory.drop()
            self.memory.fill()
            return
        if command.startswith("execute "):
            os.execv(sys.executable, [sys.executable, "-I", "-S", __file__, *command.split()[1:]])
        if command not in ("sleep", "touch", "spin"):
            raise SystemExit(f"touch.py: unknown command {command!r}")
        with self._changed:
            self.state = command
            self._changed.notify_all()

    def round(self, thread: int) -> None:
        if self.state == "touch":
            self.memory.fill(thread, self.threads)
        elif self.state == "spin":
            sum(range(20000))

    def follow(self, thread: int) -> None:
        """The life of every thread but the first."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.state != "sleep")
            self.round(thread)

    def lead(self) -> None:
        """The first thread works too: a process with one thread is one for the kernel as well."""
        pending = b""
        while True:
            patience = None if self.state == "sleep" else 0
            if select.select([0], [], [], patience)[0]:
                received = os.read(0, 4096)
                *lines, pending = (pending + received).split(b"\n")
                for line in lines:
                    if line == b"quit":
                        return
                    self.obey(line.decode())
                    print(line.decode(), flush=True)
                if not received:
                    return
            self.round(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bytes", type=int)
    parser.add_argument("--kind", choices=("anon", "shmem", "hugetlb", "gigantic"), default="anon")
    parser.add_argument("--policy", choices=POLICIES, help="memory policy of the bytes; none without it")
    parser.add_argument("--nodes", type=int, nargs="+", default=[], help="nodes of the policy")
    parser.add_argument("--policy-from", type=int, default=0, help="the policy is of the bytes from this one on")
    parser.add_argument("--file", help="map this file, and share it with whoever does so too")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    memory = Memory(options.bytes, options.kind, options.file)
    if options.policy:
        memory.bind(options.policy, options.nodes, options.policy_from)
    memory.fill()
    worker = Worker(memory, options.threads)
    for thread in range(1, options.threads):
        threading.Thread(target=worker.follow, args=(thread,), daemon=True).start()
    print(f"ready {memory.address:x} {os.getpid()}", flush=True)
    worker.lead()
    sys.stdout.flush()
    os._exit(0)  # threads that are still at work need no goodbye


if __name__ == "__main__":
    main()
