"""Rules about the kernel: its command line, its sysctls, its pages and its CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.containermanager.memory.state import hugepages_name
from numaudit.evaluation.setup.rule import CannotJudge, Fault, SetupEvidence, SetupRule
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import in_units, plural

_VM = "https://docs.kernel.org/admin-guide/sysctl/vm.html"
_PARAMETERS = "https://docs.kernel.org/admin-guide/kernel-parameters.html"
_OFF = ("numa=off", "numa=noacpi", "acpi=off")
_KILLS_EVEN_WITH_CPUSETS = 2
_NO_OVERCOMMIT = 2
_SAMPLES = 1
_SKIPS_BOUND_TASKS = (6, 16)
"""From this kernel on NUMA balancing leaves out tasks that may use one node only (kernel/sched/fair.c,
task_numa_work); older ones may have it from their distributor.
"""
_NEARLY_ALL = 0.9
"""Share of a node's pages in ZONE_MOVABLE from which on hardly any is left for what cannot be moved."""


def _parameters(evidence: SetupEvidence) -> tuple[str, ...]:
    return evidence.known(evidence.settings.command_line, "command_line")


def _numa_off(evidence: SetupEvidence) -> Iterator[Fault]:
    found = [word for word in _parameters(evidence) if word in _OFF]
    if found:
        several = {cpu.socket for cpu in evidence.machine.cpus if cpu.socket is not None}
        proven = len(several) > 1 and evidence.settings.is_guest is False
        yield Fault(f"the kernel was started with {found[0]}", severity="error" if proven else None)


def _numa_fake(evidence: SetupEvidence) -> Iterator[Fault]:
    yield from (
        Fault(f"the kernel was started with {word}") for word in _parameters(evidence) if word.startswith("numa=fake=")
    )


def _numa_stat_off(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.sysctl("vm.numa_stat") == 0:
        yield Fault("vm.numa_stat is 0")


def _oom_allocating(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.sysctl("vm.oom_kill_allocating_task"):
        yield Fault("vm.oom_kill_allocating_task is set")


def _panic_oom(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.sysctl("vm.panic_on_oom") >= _KILLS_EVEN_WITH_CPUSETS:
        yield Fault("vm.panic_on_oom is 2")


def _overcommit(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.sysctl("vm.overcommit_memory") == _NO_OVERCOMMIT:
        yield Fault("vm.overcommit_memory is 2")


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


def _balancing_useless(evidence: SetupEvidence) -> Iterator[Fault]:
    promised = _promised_sets(evidence)
    if not evidence.sysctl("kernel.numa_balancing") & _SAMPLES or any(len(nodes) > 1 for nodes in promised):
        return
    if evidence.known(evidence.settings.kernel, "kernel") < _SKIPS_BOUND_TASKS:
        yield Fault("kernel.numa_balancing is 1, and every promise here is of one node")


def _balancing_multi(evidence: SetupEvidence) -> Iterator[Fault]:
    several = [nodes for nodes in _promised_sets(evidence) if len(nodes) > 1]
    if several and evidence.sysctl("kernel.numa_balancing") & _SAMPLES:
        yield Fault(f"kernel.numa_balancing is 1, and {plural(len(several), 'promise')} here span nodes")


def _promised_sets(evidence: SetupEvidence) -> list[NodeSet]:
    found = [one.promise.memory_nodes for one in evidence.intent.alive if one.promise.memory_nodes]
    if not found:
        raise CannotJudge("no container with a promise runs now")
    return found


def _zone_reclaim(evidence: SetupEvidence) -> Iterator[Fault]:
    if mode := evidence.sysctl("vm.zone_reclaim_mode"):
        yield Fault(f"vm.zone_reclaim_mode is {mode}")


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


def _isolcpus(evidence: SetupEvidence) -> Iterator[Fault]:
    isolated = evidence.known(evidence.settings.isolated_cpus, "isolated_cpus")
    shared = evidence.intent.shared_cpus
    if shared is None:
        raise CannotJudge("the CPU Manager's shared pool is not known")
    if pooled := isolated & shared:
        yield Fault(f"{pooled.in_words} of the kubelet's shared pool {_are(pooled)} isolated")
    reserved = evidence.reserved_cpus
    if kept := (isolated & reserved) - pooled:
        yield Fault(f"{kept.in_words} of reservedSystemCPUs {_are(kept)} isolated")


def _are(cpus: CpuSet) -> str:
    return "is" if len(cpus) == 1 else "are"


def _cpus_offline(evidence: SetupEvidence) -> Iterator[Fault]:
    present = evidence.known(evidence.settings.present_cpus, "present_cpus")
    """As many on each node, as with SMT off, make no node unlike another."""
    offline = present - CpuSet.from_ids(cpu.id for cpu in evidence.machine.cpus)
    counts = {node.id: len(node.cpus) for node in evidence.machine.nodes if node.cpus and node.memory}
    if offline and len(set(counts.values())) > 1:
        shown = ", ".join(f"node {id_} has {count}" for id_, count in counts.items())
        yield Fault(f"{offline.in_words} {_are(offline)} offline, and of those online {shown}")


RULES = (
    SetupRule(
        "numa-off",
        "kernel",
        "info",
        "The kernel shows one node whatever the machine has: where it has several, promises mean nothing.",
        "Take the parameter out of the kernel's command line, and reboot.",
        _PARAMETERS,
        _numa_off,
    ),
    SetupRule(
        "numa-fake",
        "kernel",
        "warning",
        "Nodes are slices of one another's memory: promises have no physical meaning, and devices get wrong nodes.",
        "Take the parameter out of the kernel's command line, and reboot.",
        _PARAMETERS,
        _numa_fake,
        ("nodes",),
    ),
    SetupRule(
        "oom-allocating",
        "kernel",
        "error",
        "On a full node the kernel kills the process that asks for memory, even one that asks for what it was "
        "promised.",
        "`sysctl -w vm.oom_kill_allocating_task=0`",
        f"{_VM}#oom-kill-allocating-task",
        _oom_allocating,
        ("promises",),
    ),
    SetupRule(
        "panic-oom",
        "kernel",
        "error",
        "One container that fills its node, or only reaches its own limit, stops the whole host.",
        "`sysctl -w vm.panic_on_oom=0`",
        f"{_VM}#panic-on-oom",
        _panic_oom,
        ("promises",),
    ),
    SetupRule(
        "overcommit-2",
        "kernel",
        "warning",
        "The commit limit counts the whole machine, so an allocation fails although its node has room. SAP and "
        "PostgreSQL hosts set it on purpose.",
        "`sysctl -w vm.overcommit_memory=1`, which is the kubelet's own setting.",
        f"{_VM}#overcommit-memory",
        _overcommit,
        ("promises",),
    ),
    SetupRule(
        "numa-stat-off",
        "kernel",
        "warning",
        "The kernel does not count numa_miss and numa_foreign, so numaudit cannot see that a node was full.",
        "`sysctl -w vm.numa_stat=1`",
        f"{_VM}#numa-stat",
        _numa_stat_off,
        ("nodes",),
    ),
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
        "isolcpus-kubelet",
        "kernel",
        "warning",
        "The scheduler does not balance threads over isolated CPUs: those of a container may all stay on one CPU, and "
        "use memory of its node only.",
        "Let isolcpus name no CPU of the shared pool or of reservedSystemCPUs; isolcpus=managed_irq alone is fine.",
        "https://github.com/kubernetes/kubernetes/issues/87862",
        _isolcpus,
        ("kubelet", "nodes"),
    ),
    SetupRule(
        "balancing-useless",
        "kernel",
        "info",
        "The kernel scans memory to move it towards the threads that use it, which a promise of one node forbids: the "
        "scan only costs. numaudit's access figures by hint faults need it nevertheless.",
        "Use Linux 6.18 or newer; or `sysctl -w kernel.numa_balancing=0`, if you do without hint faults.",
        "https://docs.kernel.org/admin-guide/sysctl/kernel.html#numa-balancing",
        _balancing_useless,
        ("promises", "nodes"),
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
        "balancing-multi",
        "kernel",
        "info",
        "Pages move between the promised nodes, towards the threads that use them, and each scan costs. numaudit's "
        "access figures by hint faults need it.",
        "Leave it on where containers gain by it; otherwise `sysctl -w kernel.numa_balancing=0`.",
        "https://docs.kernel.org/admin-guide/sysctl/kernel.html#numa-balancing",
        _balancing_multi,
        ("promises", "nodes"),
    ),
    SetupRule(
        "zone-reclaim",
        "kernel",
        "info",
        "A full node drops page cache before it takes memory elsewhere, which stalls databases; a container bound to "
        "one node notices little of it. tuned's hpc-compute wants it, MongoDB and PostgreSQL do not.",
        "`sysctl -w vm.zone_reclaim_mode=0`, unless the workload is HPC.",
        f"{_VM}#zone-reclaim-mode",
        _zone_reclaim,
        ("promises", "nodes"),
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
    SetupRule(
        "cpus-offline",
        "kernel",
        "info",
        "Nodes have unequal numbers of CPUs: hints count only CPUs that are online.",
        "Unless it is on purpose: `echo 1 > /sys/devices/system/cpu/cpuN/online`",
        "https://github.com/kubernetes/kubernetes/issues/98121",
        _cpus_offline,
        ("nodes",),
    ),
)
