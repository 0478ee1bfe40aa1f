"""Rules about the kernel: its command line, its sysctls, its pages and its CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.setup.rule import CannotJudge, Fault, SetupEvidence, SetupRule
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import plural

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
