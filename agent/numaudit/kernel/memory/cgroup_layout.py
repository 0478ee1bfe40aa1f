"""Layout of the kernel's memory counters by node and effective cpuset of a cgroup, from the kernel's own description
(BTF). Pure.

Two forms of the counters are known. On 6.1 a cgroup has a place for every counter of a node, by the kernel's
enumeration; on 6.12 and newer only for those that cgroups have, in an order of their own, which BTF does not hold.
That is derived here and taken only if it comes out as long as the kernel's; what it says is proven against
memory.numa_stat before it is used.
Source: include/linux/{cgroup-defs,kernfs,memcontrol,mmzone}.h, mm/memcontrol.c (memcg_node_stat_items, memory_stats,
memcg_page_state_unit), kernel/cgroup/cpuset.c and cpuset-internal.h.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kernel.memory.numa_stat import MOVE_ROWS
from numaudit.kernel.tracing.btf import Btf, Shape

WORD = 8
_ITEMS = "node_stat_item"
_ALL_ITEMS = "NR_VM_NODE_STAT_ITEMS"
_ROWS = {
    "anon": "NR_ANON_MAPPED",
    "file": "NR_FILE_PAGES",
    "shmem": "NR_SHMEM",
    "file_mapped": "NR_FILE_MAPPED",
    "hugetlb": "NR_HUGETLB",
    "pgdemote_kswapd": "PGDEMOTE_KSWAPD",
    "pgdemote_direct": "PGDEMOTE_DIRECT",
    "pgdemote_khugepaged": "PGDEMOTE_KHUGEPAGED",
    "pgdemote_proactive": "PGDEMOTE_PROACTIVE",
    "pgpromote_success": "PGPROMOTE_SUCCESS",
    "kernel_stack": "NR_KERNEL_STACK_KB",
    "pagetables": "NR_PAGETABLE",
    "sec_pagetables": "NR_SECONDARY_PAGETABLE",
    "slab_reclaimable": "NR_SLAB_RECLAIMABLE_B",
    "slab_unreclaimable": "NR_SLAB_UNRECLAIMABLE_B",
}
"""Row of memory.numa_stat -> its counter. The order is that of the columns of a walk (bpf/residency.bpf.c)."""
_REQUIRED = ("anon", "file", "shmem")
KERNEL_ROWS = frozenset({"kernel_stack", "pagetables", "sec_pagetables", "slab_reclaimable", "slab_unreclaimable"})
"""Rows that are wanted as a sum: the last ones."""
_IN_BYTES = ("slab_reclaimable", "slab_unreclaimable")
_IN_KIB = ("kernel_stack",)
_COMPACTED = (
    "NR_INACTIVE_ANON", "NR_ACTIVE_ANON", "NR_INACTIVE_FILE", "NR_ACTIVE_FILE", "NR_UNEVICTABLE",
    "NR_SLAB_RECLAIMABLE_B", "NR_SLAB_UNRECLAIMABLE_B",
    "WORKINGSET_REFAULT_ANON", "WORKINGSET_REFAULT_FILE", "WORKINGSET_ACTIVATE_ANON", "WORKINGSET_ACTIVATE_FILE",
    "WORKINGSET_RESTORE_ANON", "WORKINGSET_RESTORE_FILE", "WORKINGSET_NODERECLAIM",
    "NR_ANON_MAPPED", "NR_FILE_MAPPED", "NR_FILE_PAGES", "NR_FILE_DIRTY", "NR_WRITEBACK",
    "NR_SHMEM", "NR_SHMEM_THPS", "NR_FILE_THPS", "NR_ANON_THPS",
    "NR_VMALLOC", "NR_KERNEL_STACK_KB", "NR_PAGETABLE", "NR_SECONDARY_PAGETABLE", "NR_SWAPCACHE",
    "PGPROMOTE_SUCCESS", "PGDEMOTE_KSWAPD", "PGDEMOTE_DIRECT", "PGDEMOTE_KHUGEPAGED", "PGDEMOTE_PROACTIVE",
    "PGSTEAL_KSWAPD", "PGSTEAL_DIRECT", "PGSTEAL_KHUGEPAGED", "PGSTEAL_PROACTIVE", "PGSTEAL_ANON", "PGSTEAL_FILE",
    "PGSCAN_KSWAPD", "PGSCAN_DIRECT", "PGSCAN_KHUGEPAGED", "PGSCAN_PROACTIVE", "PGSCAN_ANON", "PGSCAN_FILE", "PGREFILL",
    "NR_HUGETLB",
)  # fmt: skip
"""The order of memcg_node_stat_items as on 6.12 and 6.18. A kernel has those of them that its enumeration has."""


class KernelCounter(Struct, frozen=True):
    """One counter of a node."""

    index: int
    """Among the words that a cgroup has for a node."""
    unit: int
    """Bytes that 1 stands for."""


class MaskLayout(Struct, frozen=True):
    """Place of a mask of nodes or CPUs, in bytes from the start of its structure."""

    offset: int
    is_pointer: bool
    size: int
    """Bytes that it has; the last ones stand for CPUs or nodes that no machine has."""


class CpusetLayout(Struct, frozen=True):
    """The effective cpuset."""

    css: int
    """Offset of the pointer to it in struct cgroup."""
    nodes: MaskLayout
    cpus: MaskLayout


class CgroupLayout(Struct, frozen=True):
    """Offsets in bytes. What is not named otherwise is the place of a pointer to the next structure."""

    directory: int
    """struct cgroup: its directory."""
    id: int
    """struct kernfs_node: the directory's inode, which is the cgroup's id."""
    flags: int
    """struct cgroup_subsys_state, with which each controller's own structure begins."""
    visible: int
    """A bit of the flags: the controller is switched on here. Otherwise another one needs it, and it has no files."""
    memory: int
    """struct cgroup: its struct mem_cgroup, or NULL."""
    nodes: int
    """struct mem_cgroup: pointers to a structure for each node."""
    counters: int
    """struct mem_cgroup_per_node: struct lruvec_stats, or a pointer to it."""
    counters_is_pointer: bool
    words: int
    """struct lruvec_stats: the counters themselves, with all descendants."""
    length: int
    """Number of counters of a node."""
    rows: Mapping[str, KernelCounter]
    """Row of memory.numa_stat -> its counter, as far as this kernel has it; anon, file and shmem are the first."""
    cpuset: CpusetLayout | None
    """None = this kernel has none, or does not say where."""


def cgroup_layout(btf: Btf, page_size: int, is_tiered: bool = False) -> CgroupLayout:
    """Of this kernel; `is_tiered`: with the counters of moves between memory tiers.

    Raises Unavailable, with what is missing or of another type, and ParseError for broken BTF.
    """
    memory, subsystems = _controller(btf, "memory_cgrp_id", "mem_cgroup")
    nodes, pointers = _member(btf, "mem_cgroup", "nodeinfo")
    _require(pointers, "mem_cgroup.nodeinfo", "array")
    _require_pointer(btf, pointers.of, "mem_cgroup.nodeinfo[]", "mem_cgroup_per_node")
    counters, stats = _member(btf, "mem_cgroup_per_node", "lruvec_stats")
    if stats.kind == "pointer":
        _require_pointer(btf, stats, "mem_cgroup_per_node.lruvec_stats", "lruvec_stats")
    elif (stats.kind, stats.name) != ("struct", "lruvec_stats"):
        raise _other("mem_cgroup_per_node.lruvec_stats")
    words, state = _member(btf, "lruvec_stats", "state")
    _require(state, "lruvec_stats.state", "array")
    if btf.shape(state.of).size != WORD or not state.length:
        raise _other("lruvec_stats.state")
    directory, kn = _member(btf, "cgroup", "kn")
    _require_pointer(btf, kn, "cgroup.kn", "kernfs_node")
    inode, number = _member(btf, "kernfs_node", "id")
    if (number.kind, number.size) != ("int", WORD):
        raise _other("kernfs_node.id")
    flags, visible = _visible(btf)
    return CgroupLayout(
        directory, inode, flags, visible, subsystems + memory, nodes, counters, stats.kind == "pointer", words,
        state.length, _rows(btf, state.length, page_size, is_tiered), _cpuset(btf),
    )  # fmt: skip


def _rows(btf: Btf, length: int, page_size: int, is_tiered: bool) -> dict[str, KernelCounter]:
    """Index of each row's counter, by the enumeration or by the derived order."""
    every = btf.value(_ITEMS, _ALL_ITEMS)
    if every is None:
        raise Unavailable(f"this kernel's BTF has no {_ALL_ITEMS} in enum {_ITEMS}")
    if length == every:
        found = {row: btf.value(_ITEMS, item) for row, item in _ROWS.items()}
    else:
        order = [item for item in _COMPACTED if btf.value(_ITEMS, item) is not None]
        if len(order) != length:
            raise Unavailable(
                f"this kernel has {length} counters by cgroup and node, and {len(order)} were expected, "
                "so their order is not known"
            )
        place = {item: index for index, item in enumerate(order)}
        found = {row: place.get(item) for row, item in _ROWS.items()}
    lacking = [_ROWS[row] for row in _REQUIRED if found[row] is None]
    if lacking:
        raise Unavailable(f"this kernel's BTF has no {lacking[0]} in enum {_ITEMS}")
    unwanted = () if is_tiered else MOVE_ROWS
    return {
        row: KernelCounter(index, _unit(row, page_size))
        for row, index in found.items()
        if index is not None and row not in unwanted
    }


def _unit(row: str, page_size: int) -> int:
    return 1 if row in _IN_BYTES else 1024 if row in _IN_KIB else page_size


def _visible(btf: Btf) -> tuple[int, int]:
    """Offset of the flags, and the flag."""
    flags, number = _member(btf, "cgroup_subsys_state", "flags")
    if (number.kind, number.size) != ("int", 4):
        raise _other("cgroup_subsys_state.flags")
    visible = btf.constant("CSS_VISIBLE")
    if visible is None:
        raise Unavailable("this kernel's BTF has no CSS_VISIBLE")
    return flags, visible


def _cpuset(btf: Btf) -> CpusetLayout | None:
    """Its masks are copied by their size, so each must be a structure that is one, or a pointer to one."""
    try:
        controller, subsystems = _controller(btf, "cpuset_cgrp_id", "cpuset")
        nodes, cpus = (_mask(btf, name) for name in ("effective_mems", "effective_cpus"))
    except Unavailable:
        return None
    return CpusetLayout(subsystems + controller, nodes, cpus)


def _mask(btf: Btf, name: str) -> MaskLayout:
    """nodemask_t, or cpumask_var_t: an array of one struct cpumask, or a pointer to one (CONFIG_CPUMASK_OFFSTACK)."""
    offset, shape = _member(btf, "cpuset", name)
    is_pointer = shape.kind == "pointer"
    if is_pointer or (shape.kind == "array" and shape.length == 1):
        shape = btf.shape(shape.of)
    if shape.kind != "struct" or not shape.size or shape.size % WORD:
        raise _other(f"cpuset.{name}")
    return MaskLayout(offset, is_pointer, shape.size)


def _controller(btf: Btf, number: str, structure: str) -> tuple[int, int]:
    """Offset of its pointer among those of all controllers; offset of these in struct cgroup.

    The pointer is to a css, which must be the first thing in the controller's own structure.
    """
    subsystems, pointers = _member(btf, "cgroup", "subsys")
    _require(pointers, "cgroup.subsys", "array")
    _require_pointer(btf, pointers.of, "cgroup.subsys[]", "cgroup_subsys_state")
    index = btf.value("cgroup_subsys_id", number)
    if index is None or index >= pointers.length:
        raise Unavailable(f"this kernel's BTF has no {number} in enum cgroup_subsys_id")
    first, css = _member(btf, structure, "css")
    if first or (css.kind, css.name) != ("struct", "cgroup_subsys_state"):
        raise _other(f"{structure}.css")
    return index * WORD, subsystems


def _member(btf: Btf, structure: str, name: str) -> tuple[int, Shape]:
    found = btf.member(structure, name)
    if found is None or found.bits % 8:
        raise Unavailable(f"this kernel's BTF has no {structure}.{name}")
    return found.bits // 8, btf.shape(found.type)


def _require(shape: Shape, what: str, kind: str) -> None:
    if shape.kind != kind:
        raise _other(what)


def _require_pointer(btf: Btf, pointer: Shape | int, what: str, target: str) -> None:
    shape = btf.shape(pointer) if isinstance(pointer, int) else pointer
    _require(shape, what, "pointer")
    to = btf.shape(shape.of)
    if (to.kind, to.name) != ("struct", target):
        raise _other(what)


def _other(what: str) -> Unavailable:
    return Unavailable(f"this kernel's {what} is of another type than numaudit knows")
