"""Rules about the kernel's pages: huge ones, movable ones, and those that it moves to slower nodes."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.containermanager.memory.state import hugepages_name
from numaudit.evaluation.setup.rule import CannotJudge, Fault, SetupEvidence, SetupRule
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

_NEARLY_ALL = 0.9
"""Share of a node's pages in ZONE_MOVABLE from which on hardly any is left for what cannot be moved."""


def _hugepages_uneven(evidence: SetupEvidence) -> Iterator[Fault]:
    nodes = [node for node in evidence.machine.nodes if node.id in evidence.machine.with_cpus and node.memory]
    for size in sorted({pages.page_size for node in nodes for pages in node.huge_pages}):
        by_node = {
            node.id: pages.total - (pages.surplus or 0)
            for node in nodes
            for pages in node.huge_pages
            if pages.page_size == size
        }
        if len(set(by_node.values())) > 1:
            shown = ", ".join(f"node {id_} has {count}" for id_, count in by_node.items())
            yield Fault(f"huge pages of {in_units(size)}: {shown}", NodeSet.from_ids(by_node))


def _hugepages_late(evidence: SetupEvidence) -> Iterator[Fault]:
    """The map has the pools as they were when the kubelet started, surplus pages included."""
    if not evidence.intent.machine:
        raise CannotJudge("the Memory Manager's map of the nodes is not known")
    for id_, mapped in evidence.intent.machine.items():
        node = evidence.machine.by_id.get(id_)
        for pages in () if node is None else node.huge_pages:
            name, now = hugepages_name(pages.page_size), pages.total * pages.page_size
            table, surplus = mapped.memory_map.get(name), (pages.surplus or 0) * pages.page_size
            if table is not None and table.total not in (now, now - surplus):
                yield Fault(
                    f"node {id_} has {in_units(now)} of {name}, and the kubelet counts {in_units(table.total)}",
                    NodeSet.of(id_),
                )


def _overcommit_huge(evidence: SetupEvidence) -> Iterator[Fault]:
    for pool in evidence.snapshot.huge_page_pools:
        if pool.overcommit is None:
            raise CannotJudge(f"nr_overcommit_hugepages of {in_units(pool.page_size)} is not known")
        if pool.overcommit:
            yield Fault(f"nr_overcommit_hugepages of {in_units(pool.page_size)} is {pool.overcommit}")


def _demotion(evidence: SetupEvidence) -> Iterator[Fault]:
    tiers = evidence.snapshot.tiers
    if tiers is None:
        raise CannotJudge("all memory is of one tier, or the kernel does not show tiers")
    if tiers.demotion is None:
        raise CannotJudge("demotion_enabled is not shown here")
    if tiers.demotion and not tiers.keeps_cpuset:
        proven = tiers.keeps_cpuset is False
        yield Fault(
            f"demotion_enabled is true, and this kernel {'ignores' if proven else 'may ignore'} cpusets in demotion",
            severity=None if proven else "info",
        )


def _thp_always(evidence: SetupEvidence) -> Iterator[Fault]:
    settings = evidence.settings
    if evidence.known(settings.huge_pages, "huge_pages") == "always" and settings.defrag == "always":
        yield Fault("transparent_hugepage/enabled and defrag are both always")


def _movable_only(evidence: SetupEvidence) -> Iterator[Fault]:
    """A node without CPUs (CXL) is so on purpose; whether it is promised is another rule's."""
    for id_, zones in evidence.known(evidence.settings.zones, "zones").items():
        of_all = sum(zone.managed for zone in zones)
        movable = sum(zone.managed for zone in zones if zone.name == "Movable")
        if id_ in evidence.machine.with_cpus and movable >= _NEARLY_ALL * of_all:
            yield Fault(f"{100 * movable // of_all} % of the memory of node {id_} is in ZONE_MOVABLE", NodeSet.of(id_))


RULES = (
    SetupRule(
        "hugepages-uneven",
        "kernel",
        "info",
        "A pod that asks for many huge pages fits only the nodes that have more of them.",
        "Unless it is on purpose, put hugepages=0:N,1:N on the kernel's command line (Linux 5.16), or write "
        "nr_hugepages of each node early at boot.",
        "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html",
        _hugepages_uneven,
        ("nodes",),
    ),
    SetupRule(
        "hugepages-late",
        "kernel",
        "warning",
        "The kubelet counts huge pages when it starts, so it promises pages that are gone, or none of those that came.",
        "Make huge pages before the kubelet starts; now drain the node, delete memory_manager_state, and restart the "
        "kubelet.",
        "https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/",
        _hugepages_late,
        ("kubelet",),
    ),
    SetupRule(
        "demotion",
        "kernel",
        "warning",
        "When memory is short, promised memory may move to a slower node that was not promised.",
        "`echo false > /sys/kernel/mm/numa/demotion_enabled`",
        "https://docs.kernel.org/admin-guide/mm/numaperf.html",
        _demotion,
        ("promises",),
    ),
    SetupRule(
        "movable-only",
        "kernel",
        "warning",
        "Pinned memory (RDMA, VFIO) cannot stay there: the kernel moves it to another node, or the pin fails.",
        "Boot without movable_node and kernelcore, or set memory_hotplug.online_policy=auto-movable, which keeps a "
        "share.",
        "https://docs.kernel.org/admin-guide/mm/memory-hotplug.html#zone-movable",
        _movable_only,
        ("promises",),
    ),
    SetupRule(
        "thp-always",
        "kernel",
        "info",
        "Memory grows in steps of 2 MiB towards the limit, and a full node is compacted when memory is asked for. "
        "MongoDB 8 and HPC profiles want it, Oracle and PostgreSQL do not.",
        "`echo defer+madvise > /sys/kernel/mm/transparent_hugepage/defrag`",
        "https://docs.kernel.org/admin-guide/mm/transhuge.html",
        _thp_always,
        ("promises", "nodes"),
    ),
    SetupRule(
        "overcommit-huge",
        "kernel",
        "info",
        "Surplus huge pages come from the ordinary memory of any node, promised memory included.",
        "Write 0 to nr_overcommit_hugepages of that size, below /sys/kernel/mm/hugepages.",
        "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html",
        _overcommit_huge,
        ("promises",),
    ),
)
