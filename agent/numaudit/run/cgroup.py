"""The cgroup of a command: the nodes and CPUs it was given, and no more memory than it asked for; of one that is only
measured, all that its caller may use.

Source: Documentation/admin-guide/cgroup-v2.rst (cpuset, memory, hugetlb).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies, huge_page_label, parse_process_cgroups
from numaudit.kernel.cgroup_writer import OwnCgroup, available_controllers, own_child
from numaudit.kernel.host import Host, explain, read_text
from numaudit.memorymanager.commands import CommandRequest
from numaudit.memorymanager.outcome import Placement
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, NodeSet

_NEEDED = ("cpuset", "memory")


def mount(host: Host, wanted: CommandRequest) -> Path:
    """The cgroup2 mount, where it can hold a command. Raises Unavailable with what is missing and what to do."""
    unified = find_hierarchies(host).unified
    boot = "boot with systemd.unified_cgroup_hierarchy=1 (and without cgroup_disable)"
    if unified is None:
        raise Unavailable(
            f"`numaudit run` restricts a command to nodes by cgroup version 2, which is not mounted here; {boot}"
        )
    try:
        offered = available_controllers(unified)
    except OSError as error:
        raise Unavailable(f"{explain(error)}; {boot}") from None
    for name in (*_NEEDED, *(("hugetlb",) if wanted.huge_pages else ())):
        if name not in offered:
            raise Unavailable(
                f"a command needs the {name} controller of cgroup version 2, and {unified} does not offer it: "
                f"cgroup version 1 has it, or it is not delegated to this container; {boot}"
            )
    return unified


def make(
    unified: Path, parent: str, name: str, wanted: CommandRequest, placement: Placement, machine: Machine
) -> OwnCgroup:
    """Make a command's cgroup. Raises Unavailable where the kernel refuses, or grants less than it was asked for."""
    has_huge_pages = "hugetlb" in available_controllers(unified)
    controllers = (*_NEEDED, *(("hugetlb",) if has_huge_pages else ()))
    group = own_child(unified, parent, name, controllers)
    try:
        assert placement.memory_nodes is not None
        group.write("cpuset.mems", str(placement.memory_nodes))
        if placement.cpus is not None:
            group.write("cpuset.cpus", str(placement.cpus))
        group.write("memory.max", str(wanted.memory))
        if has_huge_pages:
            for file, size in _huge_page_limits(wanted.huge_pages, machine).items():
                group.write(file, str(size))
        _check(group, placement.memory_nodes, placement.cpus)
    except BaseException:
        group.remove()
        raise
    return group


def _huge_page_limits(asked: Mapping[int, int], machine: Machine) -> dict[str, int]:
    """Of sizes that it did not ask for it gets none, as a pod's container: they may be promised to others."""
    sizes = {pages.page_size for node in machine.nodes for pages in node.huge_pages}
    return {
        f"hugetlb.{huge_page_label(size)}.{limit}": asked.get(size, 0)
        for size in sizes
        for limit in ("max", "rsvd.max")
    }


def _check(group: OwnCgroup, nodes: NodeSet, cpus: CpuSet | None) -> None:
    """The kernel takes a cpuset that the group above does not have, and then grants what that has."""
    given = NodeSet.parse(read_text(group.path / "cpuset.mems.effective"))
    if given != nodes:
        raise Unavailable(
            f"{group.path} may use {given.in_words}, not {nodes.in_words}: the cgroups above it allow no others"
        )
    if cpus is not None:
        own = CpuSet.parse(read_text(group.path / "cpuset.cpus.effective"))
        if own != cpus:
            raise Unavailable(
                f"{group.path} may use {own.in_words}, not {cpus.in_words}: the cgroups above it allow no others"
            )


@contextmanager
def own_group(host: Host) -> Iterator[OwnCgroup]:
    """A child of our own cgroup, removed at the end unless the command left processes in it.

    A cgroup with processes cannot hand controllers down, the root alone can: elsewhere the child's memory is counted
    with its parent's. Raises Unavailable where cgroup version 2 does not count memory, or we may not make one.
    """
    hierarchies = find_hierarchies(host)
    if hierarchies.unified is None or not hierarchies.is_v2:
        raise Unavailable(
            f"cgroup {hierarchies.mode}: `numaudit` finds the processes of a command by its "
            "cgroup, which must be of version 2; "
            "boot with systemd.unified_cgroup_hierarchy=1"
        )
    try:
        own = parse_process_cgroups(read_text(host.proc / "self/cgroup")).get("", "/")
    except OSError as error:
        raise Unavailable(explain(error)) from None
    group = own_child(hierarchies.unified, own, f"numaudit-assert-{os.getpid()}", ("memory",) if own == "/" else ())
    try:
        yield group
    finally:
        with suppress(OSError):
            group.path.rmdir()
