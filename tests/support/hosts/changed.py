"""Captured hosts with changes made by hand: what no guest was captured in."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from numaudit.checkpoints.formats import memory, seal
from numaudit.checkpoints.formats.memory import MemoryCheckpoint

MIB, GIB = 1 << 20, 1 << 30
CAPTURED = "kubernetes-four-nodes"
_EATEN = 14 * 2 * MIB
_BURSTABLE = "sys/fs/cgroup/kubepods/burstable/pod5e0d5731043445fe02375c8b68565590"
_CONTAINER = "8c66ce7af190d10902b515ecabe585905b4340a2bee94dbd9b0a9e26f6b72a01"
_PROCESS = 955
_MAPS = (
    "2aaaaac00000 bind:1 file=/anon_hugepage\\040(deleted) huge anon=14 dirty=14 N1=14 kernelpagesize_kB=2048\n"
    "7f0000000000 weighted interleave:0-1 anon=512 dirty=512 N0=384 N1=128 kernelpagesize_kB=4\n"
)


def hugepages_short(captured: Path, target: Path) -> None:
    """kubernetes-four-nodes, where the Burstable pod uses 14 of node 1's 16 huge pages, under a memory policy."""
    shutil.copytree(captured / CAPTURED, target, symlinks=True)
    (target / "sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages").write_text("2\n")
    pools = target / "sys/kernel/mm/hugepages"
    for size, files in (("1048576", (0, 0, 0, 0)), ("2048", (64, 0, 0, 0))):
        folder = pools / f"hugepages-{size}kB"
        folder.mkdir(parents=True)
        names = ("nr_hugepages", "resv_hugepages", "surplus_hugepages", "nr_overcommit_hugepages")
        for name, pages in zip(names, files, strict=True):
            (folder / name).write_text(f"{pages}\n")
    weights = target / "sys/kernel/mm/mempolicy/weighted_interleave"
    weights.mkdir(parents=True)
    for node in range(4):
        (weights / f"node{node}").write_text("3\n" if node == 0 else "1\n")
    own = target / _BURSTABLE / _CONTAINER
    for group in (own, own.parent, own.parent.parent):
        (group / "hugetlb.2MB.numa_stat").write_text(f"total={_EATEN} N0=0 N1={_EATEN} N2=0 N3=0\n")
    all_pods = 16 * MIB
    (own.parents[2] / "hugetlb.2MB.numa_stat").write_text(
        f"total={_EATEN + all_pods} N0=0 N1={_EATEN} N2={all_pods} N3=0\n"
    )
    with (target / f"proc/{_PROCESS}/numa_maps").open("a") as lines:
        lines.write(_MAPS)


_WITH_LARGE_PAGES = (1, 2)
_LARGE = "hugepages-1Gi"
_USER = "0d569ce0f05fc2c0bab03a82b5d8a86b8ab4bfddb57c06124f5deaeb2762652f"
_PROMISED = "8e193a43d4362c1386fed20b209f1e29"


def page_sizes(captured: Path, target: Path) -> None:
    """kubernetes-four-nodes with 2 pages of 1 GiB on nodes 1 and 2. A pod was promised both of node 2, beside pages of
    2 MiB, and uses one there and one of node 1.
    """
    shutil.copytree(captured / CAPTURED, target, symlinks=True)
    for node in _WITH_LARGE_PAGES:
        folder = target / f"sys/devices/system/node/node{node}"
        for name, pages in (("nr", 2), ("free", 1)):
            (folder / f"hugepages/hugepages-1048576kB/{name}_hugepages").write_text(f"{pages}\n")
        meminfo = (folder / "meminfo").read_text()
        for name, more in (("MemTotal", 3 * GIB), ("MemFree", GIB), ("MemUsed", 2 * GIB)):
            meminfo = re.sub(rf"({name}:\s+)(\d+)", lambda found, more=more: _more(found, more // 1024), meminfo)  # type: ignore[misc]
        (folder / "meminfo").write_text(meminfo)
    _promise_large_pages(target / "var/lib/kubelet/memory_manager_state")
    pods = target / "numaudit/pods.json"
    pods.write_text(pods.read_text().replace('"hugepages-2Mi":"32Mi"', f'"{_LARGE}":"2Gi","hugepages-2Mi":"32Mi"'))
    for name in ("podresources-allocatable.pb", "podresources-list.pb"):
        (target / "numaudit" / name).unlink()
    pod = target / f"sys/fs/cgroup/kubepods/pod{_PROMISED}"
    for group in (pod / _USER, pod, pod.parent):
        (group / "hugetlb.1GB.numa_stat").write_text(f"total={2 * GIB} N0=0 N1={GIB} N2={GIB} N3=0\n")


def _more(found: re.Match[str], more: int) -> str:
    return f"{found[1]}{int(found[2]) + more}"


def _promise_large_pages(file: Path) -> None:
    document = json.loads(file.read_text())
    for node in _WITH_LARGE_PAGES:
        tables = document["machineState"][str(node)]["memoryMap"]
        for kind, more in ((_LARGE, 2 * GIB), ("memory", GIB)):
            for figure in ("total", "allocatable", "free"):
                tables[kind][figure] += more
        tables["memory"]["total"] += 2 * GIB
    large = document["machineState"]["2"]["memoryMap"][_LARGE]
    large["reserved"], large["free"] = large["free"], 0
    document["machineState"]["2"]["numberOfAssignments"] += 1
    document["entries"][_PROMISED]["app"].insert(0, {"numaAffinity": [2], "type": _LARGE, "size": 2 * GIB})
    changed = memory.parse(json.dumps(document).encode())
    whole = MemoryCheckpoint.of(changed.policy_name, changed.state, version=(1, 36))
    file.write_bytes(seal.write(whole))


CHANGES = {"hugepages-short": hugepages_short, "page-sizes": page_sizes}
"""Name of the host -> what writes it, from the folder of the captured hosts."""
