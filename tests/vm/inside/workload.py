"""Cgroups and worker processes for tests in the guest: a known amount of memory on a known node."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpuset", "cpu", "memory", "hugetlb")
TOUCH = (sys.executable, "-I", "-S", str(Path(__file__).with_name("touch.py")))
"""The command of a worker; its arguments follow."""
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
PATIENCE = 600.0
"""Seconds for anything that takes moments on an idle machine: the emulated arm64 guest needs minutes for some of it."""

T = TypeVar("T")


def eventually(check: Callable[[], T], timeout: float = PATIENCE) -> T:
    """Call `check` until it raises no AssertionError, and return what it returns.

    The kernel adds up some per-cgroup numbers only every few seconds. Raises the last AssertionError
    after `timeout` seconds. Whoever is asked gets time for work of its own.
    """
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(min(max(0.1, 2 * (time.monotonic() - began)), 2.0))


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One cgroup of the v2 tree."""

    path: Path

    @property
    def id(self) -> int:
        """What bpf_get_current_cgroup_id() returns: the inode of the folder."""
        return self.path.stat().st_ino

    def read(self, name: str) -> str:
        return (self.path / name).read_text()

    def write(self, name: str, value: str) -> None:
        (self.path / name).write_text(value)

    def numa_stat(self, kind: str) -> dict[int, int]:
        """One line of memory.numa_stat, such as `anon`: bytes by node."""
        line = re.search(rf"^{kind} (.*)$", self.read("memory.numa_stat"), re.MULTILINE)
        if line is None:
            raise KeyError(f"{self.path}/memory.numa_stat has no line {kind}")
        return {int(node): int(size) for node, size in re.findall(r"N(\d+)=(\d+)", line[1])}


@contextlib.contextmanager
def cgroup(path: str, cpus: str = "", mems: str = "", memory_max: int | None = None) -> Iterator[Cgroup]:
    """Make a cgroup such as `kubepods.slice/kubepods-pod1.slice/c1`; at the end kill what is in it and remove it.

    Parents that are missing are made too (and removed when empty), with all controllers handed down.
    Blank `cpus` and `mems` leave the parent's.
    """
    group = Cgroup(CGROUPS / path)
    made = []
    for folder in (*reversed(group.path.parents), group.path):
        if CGROUPS not in folder.parents:
            continue
        (folder.parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))
        if not folder.exists():
            folder.mkdir()
            made.append(folder)
    try:
        # mems first: a task's memory moves with them, its CPUs do not
        for name, value in (("cpuset.mems", mems), ("cpuset.cpus", cpus), ("memory.max", memory_max)):
            if value not in ("", None):
                group.write(name, str(value))
        yield group
    finally:
        for folder in reversed(made):
            remove_cgroup(Cgroup(folder))


def remove_cgroup(group: Cgroup) -> None:
    """Kill every process in it and remove it, unless other cgroups live below it."""
    if any(path.is_dir() for path in group.path.iterdir()):
        return
    group.write("cgroup.kill", "1")

    def is_empty() -> None:
        assert "populated 0" in group.read("cgroup.events"), f"processes in {group.path} outlive SIGKILL"

    eventually(is_empty)
    group.path.rmdir()


@dataclass(frozen=True, slots=True)
class Worker:
    """A running touch.py."""

    process: subprocess.Popen[str]
    address: int
    size: int
    """Bytes of its mapping; the Python around it holds some 10 MiB more."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_seconds(self) -> float:
        """What it has used, by its own clock (MAKE_PROCESS_CPUCLOCK of include/linux/posix-timers.h)."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def order(self, command: str) -> None:
        """`sleep`, `touch`, `spin` or `refill`; returns once the worker follows it."""
        _pipe(self.process.stdin).write(f"{command}\n")
        _pipe(self.process.stdin).flush()
        answer = _pipe(self.process.stdout).readline()
        assert answer == f"{command}\n", f"the worker answered {answer!r} to {command!r}"

    def execute(self, *arguments: str) -> None:
        """Become another program with these arguments of touch.py; returns once that one is ready."""
        _pipe(self.process.stdin).write(f"execute {' '.join(arguments)}\n")
        _pipe(self.process.stdin).flush()
        answer = _pipe(self.process.stdout).readline()
        assert answer.startswith("ready "), f"the worker answered {answer!r}"

    def bytes_by_node(self) -> dict[int, int]:
        """Where its mapping is, from numa_maps: the truth to hold other readings against."""
        for line in Path(f"/proc/{self.pid}/numa_maps").read_text().splitlines():
            if int(line.split()[0], 16) == self.address:
                kilobytes = re.search(r"kernelpagesize_kB=(\d+)", line)
                assert kilobytes, line
                page = int(kilobytes[1]) << 10
                return {int(node): int(pages) * page for node, pages in re.findall(r"N(\d+)=(\d+)", line)}
        raise AssertionError(f"process {self.pid} has no mapping at {self.address:x} any more")

    def policy(self) -> str:
        """The memory policy of its mapping, as the kernel prints it."""
        for line in Path(f"/proc/{self.pid}/numa_maps").read_text().splitlines():
            if int(line.split()[0], 16) == self.address:
                return line.partition(" ")[2].partition(" anon=")[0]
        raise AssertionError(f"process {self.pid} has no mapping at {self.address:x} any more")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            _pipe(pipe).close()


@contextlib.contextmanager
def worker(
    group: Cgroup,
    size: int = 32 * MIB,
    kind: str = "anon",
    policy: str | None = None,
    nodes: Sequence[int] = (),
    threads: int = 1,
    policy_from: int = 0,
    file: Path | None = None,
    cpus: str = "",
) -> Iterator[Worker]:
    """A process in a cgroup that holds `size` bytes. It sleeps until ordered otherwise; ends with the block.

    `kind` is anon (4 KiB pages), shmem, hugetlb or gigantic (1 GiB); shmem and huge pages can be of a `file`, which
    several workers may map; `policy` is bind, preferred, preferred-many, interleave, weighted-interleave, local or
    bind-sampled (bound, but NUMA balancing takes samples of it) over `nodes`, of all bytes from `policy_from` on.
    `cpus` binds it once it has joined, for before Linux 6.2 joining a cgroup undoes what was bound before.
    """
    arguments = [str(size), "--kind", kind, "--threads", str(threads)]
    if policy:
        arguments += ["--policy", policy, "--policy-from", str(policy_from)]
        arguments += ["--nodes", *map(str, nodes)] if nodes else []
    if file is not None:
        arguments += ["--file", str(file)]
    # The shell joins the cgroup while it is small, then becomes the worker: every page of it is allocated there.
    joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group.path / "cgroup.procs")]
    binding = ["taskset", "--cpu-list", cpus] if cpus else []
    process = subprocess.Popen(
        [*joining, *binding, *TOUCH, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    started = Worker(process, 0, size)
    try:
        words = _pipe(process.stdout).readline().split()
        assert words[:1] == ["ready"], f"the worker did not start: {words}, exit status {process.wait()}"
        yield Worker(process, int(words[1], 16), size)
    finally:
        started.stop()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
