"""Captured hosts with changes made by hand: what no guest was captured in."""

from __future__ import annotations

import shutil
from pathlib import Path

MIB = 1 << 20
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


CHANGES = {"hugepages-short": hugepages_short}
"""Name of the host -> what writes it, from the folder of the captured hosts."""
