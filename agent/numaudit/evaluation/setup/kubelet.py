"""Rules about the kubelet: its policies, its reservations, and how they fit this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numaudit.containermanager.topologymanager.policy import CONTAINER_SCOPE, NONE, PREFER_CLOSEST
from numaudit.containermanager.versions import DRIFT_OPTION
from numaudit.evaluation.setup.rule import CannotJudge, Fault, Need, SetupEvidence, SetupRule
from numaudit.topology.quantity import in_units, plural, some_of

_SLOW_NODES = 16
"""From so many nodes on the merge of hints takes minutes: it tries all sets of nodes, of each resource with each of
another.
"""
_STRICT_SINCE = (1, 35)
_CGROUP_V1_REFUSED_SINCE = (1, 35)
_ALL: tuple[Need, ...] = ("kubelet", "nodes")
_STATE_FILES = (
    "Drain the node, stop the kubelet, delete memory_manager_state and cpu_manager_state below /var/lib/kubelet, "
    "start the kubelet."
)
_MANAGERS = "https://kubernetes.io/docs/tasks/administer-cluster"


def _topology_none(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.memory_policy == "Static" and evidence.topology_policy == NONE:
        yield Fault("memoryManagerPolicy is Static and topologyManagerPolicy is none")


def _topology_best_effort(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.memory_policy == "Static" and evidence.topology_policy == "best-effort":
        yield Fault("memoryManagerPolicy is Static and topologyManagerPolicy is best-effort")


def _memory_none(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.memory_policy != "None" or any(one.claimed_memory for one in evidence.intent.containers):
        return
    others = {"cpuManagerPolicy": evidence.cpu_policy, "topologyManagerPolicy": evidence.topology_policy}
    named = [f"{name} is {value}" for name, value in others.items() if value != NONE]
    if named:  # exclusive CPUs alone say nothing of memory
        aligns = evidence.topology_policy != NONE
        yield Fault(f"{' and '.join(named)}, but memoryManagerPolicy is None", severity=None if aligns else "info")


def _cpu_none(evidence: SetupEvidence) -> Iterator[Fault]:
    if any(one.claimed_cpus for one in evidence.intent.containers):
        return
    if evidence.memory_policy == "Static" and evidence.cpu_policy == NONE:
        yield Fault("memoryManagerPolicy is Static and cpuManagerPolicy is none")


def _dra_conflict(evidence: SetupEvidence) -> Iterator[Fault]:
    claims = [claim for one in evidence.intent.containers for claim in one.claims]
    policies = {
        "CPUs": ("cpuManagerPolicy is static", evidence.cpu_policy, [claim for claim in claims if claim.cpus]),
        "memory": ("memoryManagerPolicy is Static", evidence.memory_policy, [one for one in claims if one.memory]),
    }
    for what, (words, policy, given) in policies.items():
        if policy.lower() == "static" and given:
            drivers = sorted({claim.driver for claim in given if claim.driver}) or ["a DRA driver"]
            yield Fault(f"{words}, and {some_of(drivers)} also assigns {what}")


def _numa_nodes_explode(evidence: SetupEvidence) -> Iterator[Fault]:
    nodes = len(evidence.machine.nodes)
    if nodes >= _SLOW_NODES and evidence.topology_policy != NONE:
        yield Fault(f"{nodes} nodes make 2^{nodes} sets for the Topology Manager to try at each admission")


def _scope_container(evidence: SetupEvidence) -> Iterator[Fault]:
    scope = evidence.config.topology_manager_scope
    if scope is None:
        raise CannotJudge("topologyManagerScope is not known")
    if scope != CONTAINER_SCOPE or evidence.topology_policy == NONE:
        return
    pods = [
        f"{one.namespace}/{one.name}"
        for one in evidence.pods
        if one.qos == "Guaranteed" and sum(part.kind in ("app", "sidecar") for part in one.containers) > 1
    ]
    if pods:
        yield Fault(
            f"topologyManagerScope is container, and {plural(len(pods), 'Guaranteed pod')} "
            f"{'has' if len(pods) == 1 else 'have'} several containers: {some_of(pods)}"
        )


def _closest_needed(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.topology_policy not in ("best-effort", "restricted"):
        return
    far = {value for node in evidence.machine.nodes for to, value in node.distances.items() if to != node.id}
    if not far:
        raise CannotJudge("the kernel shows no distances that can be used")
    if evidence.is_on(evidence.config.topology_manager_options, PREFER_CLOSEST):
        return
    if len(evidence.machine.with_memory) > 2 and len(far) > 1:
        yield Fault(f"distances between nodes are {min(far)} to {max(far)}, and {PREFER_CLOSEST} is off")


def _eviction_blind(evidence: SetupEvidence) -> Iterator[Fault]:
    if evidence.memory_policy == "Static":
        yield Fault("memory.available counts all NUMA nodes together, so one full node starts no eviction")


def _cgroup_v1(evidence: SetupEvidence) -> Iterator[Fault]:
    mode = evidence.snapshot.cgroup_mode
    if mode is None:
        raise CannotJudge("the version of the cgroup hierarchy is not known")
    if mode != "v2":
        refuses = evidence.version >= _CGROUP_V1_REFUSED_SINCE and evidence.document.get("failCgroupV1") is not False
        yield Fault(f"this host has cgroup {mode}", severity="error" if refuses else None)


def _reboot_drift(evidence: SetupEvidence) -> Iterator[Fault]:
    options = evidence.document.get("memoryManagerPolicyOptions")
    tolerates = isinstance(options, Mapping) and options.get(DRIFT_OPTION, "off") != "off"
    if evidence.memory_policy == "Static" and not tolerates:
        yield Fault("MemTotal of a node may change with a reboot, and memory_manager_state keeps the old value")


def _swap_limited(evidence: SetupEvidence) -> Iterator[Fault]:
    """With NoSwap the kubelet keeps containers from swapping; all else of the host still does."""
    if evidence.snapshot.swap is None:
        raise CannotJudge("the swap space of this host is not known")
    swap = evidence.snapshot.swap.total
    if not swap:
        return
    if evidence.document.get("failSwapOn") is True and evidence.is_in_force:
        yield Fault(
            f"this host has {in_units(swap)} of swap, and failSwapOn is true: the kubelet does not start again",
            severity="error",
        )
    elif evidence.memory_policy == "Static":
        behavior = evidence.document.get("memorySwap")
        limited = isinstance(behavior, Mapping) and behavior.get("swapBehavior") == "LimitedSwap"
        users = "Burstable pods and daemons" if limited else "daemons"
        yield Fault(f"this host has {in_units(swap)} of swap, for {users}")


def _strict_off(evidence: SetupEvidence) -> Iterator[Fault]:
    cpus = evidence.reserved_cpus
    if evidence.cpu_policy != "static" or not cpus or evidence.version < _STRICT_SINCE:
        return
    if not evidence.is_on(evidence.config.cpu_manager_options, "strict-cpu-reservation"):
        yield Fault(f"reservedSystemCPUs are {cpus}, and strict-cpu-reservation is off")


RULES = (
    SetupRule(
        "topology-none",
        "kubelet",
        "warning",
        "Without hints the Memory Manager and the CPU Manager each choose nodes on their own, so memory and CPUs of a "
        "pod may be on different nodes.",
        f"Set topologyManagerPolicy: restricted or single-numa-node. {_STATE_FILES}",
        f"{_MANAGERS}/topology-manager/",
        _topology_none,
        _ALL,
    ),
    SetupRule(
        "topology-best-effort",
        "kubelet",
        "warning",
        "A pod that fits no node is still admitted: its memory may be on two nodes and its CPUs on one.",
        f"Set topologyManagerPolicy: restricted or single-numa-node. {_STATE_FILES}",
        f"{_MANAGERS}/topology-manager/#policy-best-effort",
        _topology_best_effort,
        _ALL,
    ),
    SetupRule(
        "memory-none",
        "kubelet",
        "warning",
        "These policies place CPUs and devices; memory gives no hint, and cpuset.mems allows all nodes.",
        f"Set memoryManagerPolicy: Static, with reservedMemory. {_STATE_FILES}",
        f"{_MANAGERS}/memory-manager/",
        _memory_none,
        _ALL,
    ),
    SetupRule(
        "cpu-none",
        "kubelet",
        "warning",
        "Memory is bound to nodes and threads run on all of them, so part of the accesses is remote by design.",
        f"Set cpuManagerPolicy: static. {_STATE_FILES}",
        f"{_MANAGERS}/cpu-management-policies/",
        _cpu_none,
        _ALL,
    ),
    SetupRule(
        "numa-nodes-explode",
        "kubelet",
        "error",
        "The admission of a Guaranteed pod takes minutes, or never ends.",
        "Make fewer nodes: NPS or L3 as NUMA in the firmware; on NVIDIA Grace the CDMM mode of the driver.",
        "https://github.com/kubernetes/kubernetes/issues/135541",
        _numa_nodes_explode,
        ("kubelet",),
    ),
    SetupRule(
        "dra-conflict",
        "kubelet",
        "warning",
        "Neither knows what the other gave away, so the same CPUs or memory may be promised twice.",
        "Leave CPUs and memory to one of them: set cpuManagerPolicy: none and memoryManagerPolicy: None, or use no "
        "such claims here.",
        "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
        _dra_conflict,
        _ALL,
    ),
    SetupRule(
        "cgroup-v1",
        "kubelet",
        "warning",
        "Kubelets since 1.35 do not start on cgroup v1, and BPF programs cannot count by container there.",
        "Boot with systemd.unified_cgroup_hierarchy=1.",
        "https://kubernetes.io/docs/concepts/architecture/cgroups/",
        _cgroup_v1,
        ("kubelet",),
    ),
    SetupRule(
        "scope-container",
        "kubelet",
        "info",
        "Each container is aligned by itself, so memory that containers of one pod share may cross nodes.",
        f"Set topologyManagerScope: pod, where pods are to be on one node. {_STATE_FILES}",
        f"{_MANAGERS}/topology-manager/#topology-manager-scopes",
        _scope_container,
        _ALL,
    ),
    SetupRule(
        "closest-needed",
        "kubelet",
        "info",
        "A promise of two nodes may take two that are far from each other.",
        f'Set topologyManagerPolicyOptions: {{{PREFER_CLOSEST}: "true"}}.',
        f"{_MANAGERS}/topology-manager/#policy-option-prefer-closest-numa-nodes",
        _closest_needed,
        _ALL,
    ),
    SetupRule(
        "eviction-blind",
        "kubelet",
        "info",
        "When one node is full, the kernel's OOM killer acts instead of the kubelet's eviction.",
        "No setting of the kubelet changes this: alert on the finding oom-risk.",
        "https://github.com/kubernetes/kubernetes/issues/82793",
        _eviction_blind,
        _ALL,
    ),
    SetupRule(
        "reboot-drift",
        "kubelet",
        "info",
        "After a reboot the kubelet may refuse its own state file, because a node has a few MiB more or less.",
        "On boot, before the kubelet starts, delete memory_manager_state of a drained node.",
        "https://github.com/kubernetes/kubernetes/issues/131253",
        _reboot_drift,
        ("kubelet",),
    ),
    SetupRule(
        "swap-limited",
        "kubelet",
        "info",
        "Guaranteed pods never swap. On a full NUMA node the kernel swaps other memory out, which slows its owners.",
        "Turn swap off where memory is promised: run `swapoff -a`, and take swap out of /etc/fstab.",
        "https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management/",
        _swap_limited,
        _ALL,
    ),
    SetupRule(
        "strict-off",
        "kubelet",
        "info",
        "Burstable pods run, and get memory, on the CPUs that are reserved for the system.",
        'Set cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}, and delete cpu_manager_state of the drained '
        "node.",
        f"{_MANAGERS}/cpu-management-policies/#strict-cpu-reservation",
        _strict_off,
        _ALL,
    ),
)
