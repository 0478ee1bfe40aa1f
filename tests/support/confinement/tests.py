"""The agent in its container, with the rights of each profile: tests for this host (tests/image) and for the guests.

Whoever imports them has the fixtures `node` and `profile`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
import pytest

from confinement.agent import CHECKOUT, ConfinedAgent, cgroup_folders, running
from confinement.node import LOADED_WITHIN, PROFILES, NodeHere
from confinement.tries import BARE, ROOT, USER
from processes.agent_process import eventually

_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
_BY_ID = {"prog": 13, "map": 14, "link": 30}
"""BPF_*_GET_FD_BY_ID of include/uapi/linux/bpf.h."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def held_by(pids: Iterable[int]) -> frozenset[tuple[str, int]]:
    """`prog`, `map` or `link`, and the kernel's number, of all that these processes have open."""
    found = set()
    for pid in pids:
        for info in Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found |= {
                    (kind, int(number))
                    for kind, number in re.findall(r"^(prog|map|link)_id:\s*(\d+)$", info.read_text(), re.MULTILINE)
                }
    return frozenset(found)


def still_there(kind: str, number: int) -> bool:
    asked = ctypes.create_string_buffer(struct.pack("I", number), 16)
    descriptor = _LIBC.syscall(_BPF, _BY_ID[kind], asked, 16)
    if descriptor >= 0:
        os.close(descriptor)
        return True
    if ctypes.get_errno() != errno.ENOENT:
        raise OSError(ctypes.get_errno(), f"bpf({kind} {number})")
    return False


SIZE = 48 << 20
PYTHON_ITSELF = 32 << 20
WORKER = CHECKOUT / "tests/vm/inside/touch.py"
QUICK = {"NUMAUDIT_INTERVAL": "1s", "NUMAUDIT_WEB_TIMEOUT": "60s"}
WITH_PROBES = ("restricted", "pages", "privileged")
IS_V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()


CLAIMS: Mapping[str, Sequence[str]] = {
    "use files of other users' processes through proc": (f"/proc/PID/root of {USER}", f"/proc/PID/root of {ROOT}"),
    "read the memory of other processes": (f"memory of {USER}", f"memory of {ROOT}"),
    "trace other processes": (f"ptrace of {USER}", f"ptrace of {ROOT}"),
    "signal other users' processes": (f"signal to {USER}",),
    "read other users' environments": (f"environment of {USER}",),
    "find out where single pages of others are": tuple(f"page's node of {whose}" for whose in (USER, ROOT, BARE)),
    "write to its own root": ("write to /",),
    "write to the kernel's settings": ("write to /sys", "write to /proc/sys", "write to tracefs"),
    "write to the kubelet's folder": ("write to the kubelet's folder",),
    "see the volumes of other pods": ("other pods' volumes", "write to other pods' volumes"),
    "open other users' files": ("another user's file", "files by handle"),
    "mount or change to the host's mounts": ("mount", "the host's mounts", "chroot"),
    "make a user namespace": ("user namespace",),
    "load kernel modules": ("kernel module",),
    "read the kernel's log and addresses": ("kernel log", "kernel's addresses"),
    "open raw sockets": ("raw socket",),
    "set the clock": ("clock",),
    "make device nodes": ("device nodes",),
    "raise its priority": ("higher priority",),
    "change processes by BPF, or see others' programs": ("BPF writes into processes", "others' BPF programs"),
}
"""What the restricted profile may not, on any kernel -> the tries that hold it."""
FORBIDDEN = frozenset(tried for tries in CLAIMS.values() for tried in tries)
ADMITTED = frozenset(
    (
        *("BPF map", "BPF reads kernel memory", "BPF sends signals", "perf events of all processes", "tracefs"),
        *("kubelet's checkpoint", "kubelet's keys", "write to a cgroup"),
        *(f"numa_maps of {whose}" for whose in (USER, ROOT, BARE)),
        *(f"environment of {whose}" for whose in (ROOT, BARE)),
        *(f"signal to {whose}" for whose in (ROOT, BARE)),
        *(f"{what} of {BARE}" for what in ("/proc/PID/root", "memory", "ptrace")),
    )
)
"""What the restricted profile may, at least on some kernels; docs/security.md says so."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A cgroup with one process that holds SIZE bytes, and sleeps."""

    cgroup: str
    pid: int
    orders: IO[str]

    def spin(self) -> None:
        """From now on: before, it would only make the agent's start slow."""
        print("spin", file=self.orders, flush=True)

    def cpu_seconds(self) -> float:
        """By its own clock (MAKE_PROCESS_CPUCLOCK of include/linux/posix-timers.h)."""
        return time.clock_gettime(~self.pid << 3 | 2)


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    name = f"numaudit-test-{os.getpid()}"
    memory, *others = [place for place in cgroup_folders("/") if _counts_memory(place)]
    assert not others
    if IS_V2:
        # When the agent's pod is the first that needs it, what the neighbour has by then is the root's.
        (memory / "cgroup.subtree_control").write_text("+memory")
    group = memory / name
    group.mkdir()
    joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs")]
    command = [*joining, sys.executable, "-I", "-S", str(WORKER), str(SIZE)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    try:
        assert process.stdout.readline().startswith("ready")
        yield Neighbour(f"/{name}", process.pid, process.stdin)
    finally:
        process.kill()
        process.communicate()
        assert eventually(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


@pytest.mark.one_kernel
def test_what_is_known_of_a_neighbour_is_served_and_the_end_leaves_nothing(
    node: NodeHere, profile: str, neighbour: Neighbour
) -> None:
    before = _mounts()
    with running(node.pod(*PROFILES[profile], **QUICK)) as agent:
        assert eventually(lambda: SIZE <= _bytes_of(agent, neighbour.cgroup) <= SIZE + PYTHON_ITSELF, LOADED_WITHIN)
        if profile in WITH_PROBES and IS_V2:
            assert eventually(lambda: _counts_cpu_time(agent), LOADED_WITHIN), agent.log()
            used = neighbour.cpu_seconds()
            neighbour.spin()
            assert eventually(lambda: _cpu_seconds_of(agent, neighbour.cgroup) > used, LOADED_WITHIN)
            assert _cpu_seconds_of(agent, neighbour.cgroup) <= neighbour.cpu_seconds()
        (listed,) = (one for one in agent.report()["containers"] if one["path"] == neighbour.cgroup)
        assert listed["judgedBytes"] >= SIZE
        left = _Traces.of(agent)
        assert bool(left.bpf) == (profile in WITH_PROBES and IS_V2)
        assert agent.memory_peak < _limit(agent) * 0.8
        begun = time.monotonic()
        assert agent.kill("TERM") == 0, agent.log()
        assert time.monotonic() - begun < _grace(node, profile)
        assert left.now(agent) == []
    assert not agent.folder.exists()
    assert cgroup_folders(agent.cgroup) == []
    assert _mounts() == before


@pytest.mark.one_kernel
def test_a_kill_leaves_nothing_either(node: NodeHere, profile: str) -> None:
    with running(node.pod(*PROFILES[profile])) as agent:
        if profile in WITH_PROBES and IS_V2:
            assert eventually(lambda: _counts_cpu_time(agent), LOADED_WITHIN), agent.log()
        left = _Traces.of(agent)
        agent.kill("KILL")
        assert eventually(lambda: left.now(agent) == []), left.now(agent)
    assert cgroup_folders(agent.cgroup) == []


@pytest.fixture(scope="module")
def may(node: NodeHere) -> dict[str, str]:
    """What was tried with the rights of deploy/base as it is -> `yes`, or the error's name."""
    return node.tried(node.pod())


@pytest.mark.one_kernel
def test_cgroups_are_read_only_where_they_are_of_version_2(may: dict[str, str]) -> None:
    assert (may["write to a cgroup"] == "yes") != IS_V2


@pytest.mark.parametrize("claim", sorted(CLAIMS))
@pytest.mark.one_kernel
def test_the_restricted_profile_may_not(claim: str, may: dict[str, str]) -> None:
    assert [tried for tried in CLAIMS[claim] if may[tried] == "yes"] == []


@pytest.mark.one_kernel
def test_what_the_restricted_profile_may_is_admitted(may: dict[str, str]) -> None:
    assert {tried for tried, answer in may.items() if answer == "yes"} <= ADMITTED
    assert may.keys() == FORBIDDEN | ADMITTED


@dataclass(frozen=True, slots=True)
class _Traces:
    """What an agent has that should go with it."""

    processes: Sequence[psutil.Process]
    bpf: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, agent: ConfinedAgent) -> _Traces:
        processes = [first := psutil.Process(agent.pid), *first.children(recursive=True)]
        pids = [one.pid for one in processes]
        assert [place for folder in cgroup_folders(agent.cgroup) for place in folder.iterdir() if place.is_dir()] == []
        return cls(processes, held_by(pids))

    def now(self, agent: ConfinedAgent) -> list[str]:
        """What is still there."""
        processes = [f"process {one.pid}" for one in self.processes if one.is_running()]
        bpf = [f"BPF {kind} {number}" for kind, number in self.bpf if still_there(kind, number)]
        return [*processes, *bpf, *(f"file {name}" for name in agent.written)]


def _counts_memory(hierarchy: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return "memory" in (hierarchy / "cgroup.controllers").read_text()
    return (hierarchy / "memory.numa_stat").exists()


def _bytes_of(agent: ConfinedAgent, cgroup: str) -> float:
    wanted = {("container", cgroup), ("type", "anon")}
    found = agent.samples().get("numaudit_container_resident_bytes", {})
    return sum(value for labels, value in found.items() if wanted <= labels)


def _counts_cpu_time(agent: ConfinedAgent) -> bool:
    return agent.value("numaudit_feature_enabled", feature="bpf_cpu_time") == 1


def _cpu_seconds_of(agent: ConfinedAgent, cgroup: str) -> float:
    found = agent.samples().get("numaudit_container_cpu_seconds_total", {})
    return sum(value for labels, value in found.items() if ("container", cgroup) in labels)


def _limit(agent: ConfinedAgent) -> int:
    for folder in cgroup_folders(agent.cgroup):
        for file in ("memory.max", "memory.limit_in_bytes"):
            with contextlib.suppress(FileNotFoundError):
                return int((folder / file).read_text())
    raise AssertionError("the container has no memory limit")


def _grace(node: NodeHere, profile: str) -> int:
    return int(node.pod(*PROFILES[profile]).template["spec"]["terminationGracePeriodSeconds"])


def _mounts() -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "numaudit-pod" in line]
