"""The report of this very host, against the kernel's own files and numastat, with a known amount of memory."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies, find_hierarchies
from numaudit.kernel.host import Host
from processes.agent_process import PATIENCE, eventually

MIB = 1 << 20
ANON, SHARED = 64 * MIB, 16 * MIB
INTERPRETER = 24 * MIB
"""What Python itself may hold beside the known amount."""
PENDING = MIB
"""cgroup v1 counts pages on the LRU lists, and each CPU holds back some dozen newer ones in batches."""
HOLD = """
import mmap, os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
private = mmap.mmap(-1, int(sys.argv[2]), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
descriptor = os.memfd_create("known")
os.ftruncate(descriptor, int(sys.argv[3]))
shared = mmap.mmap(descriptor, int(sys.argv[3]))
for memory in (private, shared):
    for page in range(0, len(memory), 4096):
        memory[page] = 1
print("ready", flush=True)
sys.stdin.read()
"""

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or os.geteuid() != 0,
        reason="needs root on a Linux host: it makes a cgroup",
    ),
]


@dataclass(frozen=True)
class Workload:
    """A process that holds a known amount, alone in its group."""

    path: str
    folder: Path
    pid: int


@pytest.fixture(scope="module")
def hierarchies() -> Hierarchies:
    try:
        return find_hierarchies(Host())
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def workload(hierarchies: Hierarchies) -> Iterator[Workload]:
    path = f"/numaudit-test-{os.getpid()}"
    folder = Path(f"{hierarchies.memory}{path}")
    folder.mkdir()
    try:
        if not (folder / "memory.numa_stat").exists():
            pytest.skip("the memory controller is not enabled for the top groups (cgroup.subtree_control)")
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, folder, str(ANON), str(SHARED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert eventually(lambda: _has_been_added_up(folder))  # memory.numa_stat may lag by some seconds
            yield Workload(path, folder, process.pid)
        finally:
            process.communicate("")
    finally:
        folder.rmdir()


def _has_been_added_up(folder: Path) -> bool:
    """Whether what HOLD touched is in memory.numa_stat, but for what CPUs hold back (in bytes, in pages on v1)."""
    text = (folder / "memory.numa_stat").read_text()
    found = re.search(r"^(?:anon|total)(?:=\d+)? (.*)$", text, re.MULTILINE)
    assert found is not None
    unit = 1 if text.startswith("anon ") else os.sysconf("SC_PAGE_SIZE")
    wanted = ANON if unit == 1 else ANON + SHARED
    return sum(int(value) * unit for value in re.findall(r"N\d+=(\d+)", found[1])) >= wanted - PENDING


@pytest.fixture(scope="module")
def container(workload: Workload) -> dict[str, Any]:
    """The workload as `numaudit report` shows it."""
    command = [sys.executable, "-c", "from numaudit.cli.main import run; run()"]
    done = subprocess.run(
        [*command, "report", workload.path, "-o", "json"], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    (found,) = json.loads(done.stdout)["containers"]
    assert isinstance(found, dict)
    return found


def _raw(workload: Workload, row: str, unit: int) -> dict[int, int]:
    """One row of memory.numa_stat, read by other means than the product's."""
    (line,) = re.findall(rf"^{row}(?:=\d+)? (.*)$", (workload.folder / "memory.numa_stat").read_text(), re.MULTILINE)
    return {int(node): int(value) * unit for node, value in re.findall(r"N(\d+)=(\d+)", line)}


def _sum(container: dict[str, Any], *types: str) -> dict[int, int]:
    return {row["numaNode"]: sum(row[f"{kind}Bytes"] or 0 for kind in types) for row in container["resident"]}


def test_the_report_finds_the_known_amount(container: dict[str, Any]) -> None:
    assert ANON + SHARED - PENDING <= container["judgedBytes"] <= ANON + SHARED + INTERPRETER
    assert sum(_sum(container, "anon", "shmem").values()) == container["judgedBytes"]


def test_the_report_is_what_memory_numa_stat_says(
    container: dict[str, Any], workload: Workload, hierarchies: Hierarchies
) -> None:
    if hierarchies.is_v2:
        anon, shmem, file = (_raw(workload, row, 1) for row in ("anon", "shmem", "file"))
        assert _sum(container, "anon") == anon
        assert _sum(container, "shmem") == shmem
        assert _sum(container, "file") == {node: file[node] - shmem[node] for node in file}
    else:
        page = os.sysconf("SC_PAGE_SIZE")
        for kind in ("anon", "file", "unevictable"):
            raw = _raw(workload, f"hierarchical_{kind}", page)
            assert _sum(container, kind) == pytest.approx(raw, abs=PENDING)  # batches may empty between two reads


def test_the_mappings_hold_the_known_amounts_by_kind(container: dict[str, Any]) -> None:
    kinds: dict[str, int] = {}
    for one in container["mappings"]["kinds"]:
        kinds[one["name"]] = kinds.get(one["name"], 0) + one["bytes"]
    assert kinds["shmem"] == SHARED
    assert ANON <= kinds["anon"] <= ANON + INTERPRETER
    assert (container["mappings"]["processesRead"], container["mappings"]["processes"]) == (1, 1)
    assert {one["name"] for one in container["mappings"]["policies"]} == {"default"}


@pytest.mark.skipif(shutil.which("numastat") is None, reason="numastat (package numactl) is not installed")
def test_numastat_agrees_on_every_node(container: dict[str, Any], workload: Workload) -> None:
    """numastat counts all that the process maps: memory of the group, and file pages that others brought in."""
    done = subprocess.run(["numastat", "-p", str(workload.pid)], capture_output=True, text=True, check=True)
    header = re.findall(r"Node (\d+)", done.stdout)
    (total,) = re.findall(r"^Total +(.*)$", done.stdout, re.MULTILINE)
    by_node = dict(zip(map(int, header), (float(field) * MIB for field in total.split()[:-1]), strict=True))
    mapped: dict[int, int] = {}
    for one in container["mappings"]["kinds"]:
        mapped[one["numaNode"]] = mapped.get(one["numaNode"], 0) + one["bytes"]
    assert by_node.keys() >= mapped.keys()
    for node, size in by_node.items():
        assert abs(size - mapped.get(node, 0)) <= MIB / 10, (node, size, mapped)
    assert sum(by_node.values()) >= container["judgedBytes"]


def test_the_accounts_of_each_node_agree_within_five_percent(workload: Workload) -> None:
    command = [sys.executable, "-c", "from numaudit.cli.main import run; run()", "report", "-o", "json"]
    for last in (*[False] * 9, True):  # others use this host while the two accounts are read
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
        report = json.loads(done.stdout)
        assert len(report["residual"]) == len(report["nodes"])
        off = [row for row in report["residual"] if abs(row["residualBytes"]) > max(0.05 * row["nodeBytes"], 16 * MIB)]
        if not off:
            break
        assert not last, off
