"""The kubelet's settings with which a machine can keep promises of memory, and the reason for each of them.

The kubelet starts only where reservedMemory of all nodes is exactly kubeReserved + systemReserved + evictionHard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct

from numaudit.containermanager.memory.reserved import read_reserved_memory, total_reserved
from numaudit.containermanager.memory.state import hugepages_name
from numaudit.containermanager.plain import read_mapping, read_quantity
from numaudit.containermanager.pod.spec import CPU, HUGEPAGES_PREFIX, MEMORY
from numaudit.containermanager.topologymanager.policy import (
    CONTAINER_SCOPE,
    DEFAULT_MAX_NODES,
    MAX_ALLOWABLE,
    POD_SCOPE,
    PREFER_CLOSEST,
    RESTRICTED,
    SINGLE_NUMA_NODE,
)
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.errors import InputError, Unavailable
from numaudit.evaluation.setup.node_reservations import STEP, NodeReservation, Reserve, reserve_by_node, spread
from numaudit.evaluation.setup.reserved_cpus import choose_reserved_cpus
from numaudit.evaluation.setup.rule import CannotJudge, SetupEvidence
from numaudit.memorymanager.kubelet import read_kubelet, read_reservation
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import NANO, ZERO, Quantity, in_units

Want = Literal["single-numa-node", "restricted", "pod-scope"]
_MEMORY_AVAILABLE = "memory.available"
_EVICTION = {
    _MEMORY_AVAILABLE: "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""The kubelet's defaults. Source: pkg/kubelet/eviction/defaults_linux.go."""
_CLOSEST_SINCE, _MAX_ALLOWABLE_SINCE = (1, 28), (1, 31)
"""From these versions on, no feature gate has to be set for the option."""
_AS_SET = "As it is set now."
_HOW: Mapping[Reserve, str] = {
    "measured": f"For each node what is in use now, rounded up to {in_units(STEP)}: print this under the usual load.",
    "even": "Equal parts, as far as each node has the memory.",
}


class KubeletSetting(Struct, frozen=True):
    """One field of a KubeletConfiguration."""

    name: str
    value: object
    reason: str
    of_items: tuple[str, ...] = ()
    """The reason of each item, where the value is a list."""


class KubeletSettings(Struct, frozen=True, dict=True):
    """A fragment of a KubeletConfiguration with which a kubelet starts on the machine."""

    version: KubernetesVersion
    """The version whose rules it was checked against."""
    notes: tuple[str, ...]
    """What was not known, and what follows."""
    settings: tuple[KubeletSetting, ...]

    @cached_property
    def document(self) -> dict[str, object]:
        return {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"} | {
            one.name: one.value for one in self.settings
        }


def kubelet_settings(evidence: SetupEvidence, want: Want, reserve: Reserve) -> KubeletSettings:
    """What the kubelet of this machine needs for the wish.

    Amounts that are set and suffice are kept. Raises Unavailable where too little is known or where the nodes have too
    little memory, InputError for a configuration of the kubelet that is wrong by itself.
    """
    current = _current(evidence)
    version, notes = _version(evidence)
    eviction, about_eviction = _eviction(evidence, current)
    kept = read_reservation({**current, "evictionHard": eviction}, evidence.machine)
    memory = kept.get(MEMORY, ZERO)
    reserved, not_known = reserve_by_node(
        evidence,
        reserve,
        least=-(-memory.nano // NANO),
        threshold=read_reservation({"evictionHard": eviction}, evidence.machine).get(MEMORY, ZERO).value,
        is_set=bool(current.get("systemReserved") or current.get("kubeReserved")),
    )
    settings = (
        KubeletSetting("memoryManagerPolicy", "Static", "Guaranteed pods get their memory on NUMA nodes of their own."),
        KubeletSetting("cpuManagerPolicy", "static", "Guaranteed pods with whole CPUs get them on the same nodes."),
        *_topology(evidence, current, want, version),
        _reserved_memory(evidence, current, kept, reserved, reserve),
        *_amounts(current, sum(one.size for one in reserved.values()), memory),
        KubeletSetting("evictionHard", eviction, about_eviction),
        *_reserved_cpus(evidence, current, NodeSet.from_ids(reserved), kept.get(CPU, ZERO).milli_value),
    )
    found = KubeletSettings(version, (*notes, *_unknown(evidence), *not_known, *_without_cpus(current)), settings)
    _check(evidence, {**current, **found.document}, version)
    return found


def _current(evidence: SetupEvidence) -> Mapping[str, object]:
    """The configuration as it is now, as far as it is known; JSON's null is as if the field were not there."""
    return {name: value for name, value in (evidence.config.document or {}).items() if value is not None}


def _unknown(evidence: SetupEvidence) -> list[str]:
    found = []
    if evidence.config.document is None:
        found.append(
            "The kubelet's configuration is not known here. If yours sets kubeReserved or systemReserved, its amounts "
            "count in the sum too."
        )
    if len(evidence.machine.with_memory) == 1:
        found.append("This machine has one node with memory, so memory cannot be on a wrong one.")
    return found


def _version(evidence: SetupEvidence) -> tuple[KubernetesVersion, tuple[str, ...]]:
    try:
        return evidence.version, ()
    except CannotJudge:
        newest = f"{LATEST[0]}.{LATEST[1]}"
        return LATEST, (f"The kubelet's version is not known; {newest} is the newest that is known exactly.",)


def _check(evidence: SetupEvidence, document: Mapping[str, object], version: KubernetesVersion) -> None:
    try:
        read_kubelet(document, evidence.machine, kubernetes_version=f"{version[0]}.{version[1]}")
    except InputError as error:
        where = f"{error.field}: " if error.field else ""
        raise Unavailable(
            f"a kubelet does not start with the settings that this machine needs: {where}{error}"
        ) from None


def _topology(
    evidence: SetupEvidence, current: Mapping[str, object], want: Want, version: KubernetesVersion
) -> list[KubeletSetting]:
    policy = RESTRICTED if want == "restricted" else SINGLE_NUMA_NODE
    if want == "pod-scope" and current.get("topologyManagerPolicy") == RESTRICTED:
        policy = RESTRICTED
    scope = POD_SCOPE if want == "pod-scope" else current.get("topologyManagerScope") or CONTAINER_SCOPE
    what = "A pod" if scope == POD_SCOPE else "A container"
    restricted = f"{what} gets as few nodes as can hold it, and is refused while these have too little left."
    single = f"{what} gets all it asks for from one node, and is refused where no node has as much."
    shared = "All containers of a pod get the same nodes."
    found = [
        KubeletSetting("topologyManagerPolicy", policy, restricted if policy == RESTRICTED else single),
        KubeletSetting(
            "topologyManagerScope", scope, shared if scope == POD_SCOPE else "Each container is placed by itself."
        ),
    ]
    options, reasons = _topology_options(evidence, policy, version)
    if options:
        found.append(KubeletSetting("topologyManagerPolicyOptions", options, " ".join(reasons) or _AS_SET))
    return found


def _topology_options(
    evidence: SetupEvidence, policy: str, version: KubernetesVersion
) -> tuple[dict[str, str], list[str]]:
    """Those that are set, and those that the machine needs."""
    machine = evidence.machine
    options, reasons = dict(evidence.config.topology_manager_options or {}), []
    far = {value for node in machine.nodes for to, value in node.distances.items() if to != node.id}
    if (
        policy == RESTRICTED
        and version >= _CLOSEST_SINCE
        and len(machine.with_memory) > 2
        and len(far) > 1
        and all(node.distances for node in machine.nodes)
        and not evidence.is_on(options, PREFER_CLOSEST)
    ):
        options[PREFER_CLOSEST] = "true"
        reasons.append(f"Distances between nodes are {min(far)} to {max(far)}: of several nodes, take near ones.")
    nodes, most = len(machine.nodes), options.get(MAX_ALLOWABLE, "")
    if nodes > max(DEFAULT_MAX_NODES, int(most) if most.isdecimal() else 0) and version >= _MAX_ALLOWABLE_SINCE:
        options[MAX_ALLOWABLE] = str(nodes)
        reasons.append(f"Without it a kubelet starts on up to {DEFAULT_MAX_NODES} nodes, and here are {nodes}.")
    return options, reasons


def _eviction(evidence: SetupEvidence, current: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """evictionHard, with memory.available as an amount."""
    found = current.get("evictionHard")
    if found is not None and not isinstance(found, Mapping):
        raise InputError("the kubelet's configuration: evictionHard: must be a mapping")
    if not found:
        return dict(_EVICTION), "The kubelet's defaults; a list of some of them would turn the others off."
    threshold = found.get(_MEMORY_AVAILABLE)
    if threshold is None:
        return {**found, _MEMORY_AVAILABLE: _EVICTION[_MEMORY_AVAILABLE]}, (
            "memory.available was missing: whether its default then counts differs between kubelets."
        )
    if not str(threshold).endswith("%"):
        return dict(found), _AS_SET
    amount = read_reservation({"evictionHard": found}, evidence.machine).get(MEMORY, ZERO)
    if not amount.nano:
        return dict(found), _AS_SET
    return {**found, _MEMORY_AVAILABLE: str(amount)}, (
        f"memory.available was {threshold}: MemTotal may differ after a reboot, and the sum would no longer be equal."
    )


def _reserved_memory(
    evidence: SetupEvidence,
    current: Mapping[str, object],
    kept: Mapping[str, Quantity],
    reserved: Mapping[int, NodeReservation],
    how: Reserve,
) -> KubeletSetting:
    """reservedMemory: memory by node, with the huge pages that kubeReserved and systemReserved name."""
    limits = {node: {MEMORY: str(Quantity.of(one.size))} for node, one in reserved.items()}
    for name, amount in kept.items():
        if name.startswith(HUGEPAGES_PREFIX):
            for node, size in _huge_shares(evidence, current, name, amount).items():
                limits.setdefault(node, {})[name] = str(Quantity.of(size))
    return KubeletSetting(
        "reservedMemory",
        [{"numaNode": node, "limits": limits[node]} for node in sorted(limits)],
        f"Its memory is the sum of kubeReserved, systemReserved and evictionHard, or no kubelet starts. {_HOW[how]}",
        tuple(reserved[node].reason if node in reserved else "" for node in sorted(limits)),
    )


def _huge_shares(
    evidence: SetupEvidence, current: Mapping[str, object], name: str, amount: Quantity
) -> Mapping[int, int]:
    """Bytes of one size of huge pages to reserve by node: as they are set if that adds up, or else equal parts."""
    given = read_reserved_memory(current.get("reservedMemory") or [])
    if total_reserved(given).get(name, ZERO).nano == amount.nano:
        return {one.numa_node: one.limits[name].value for one in given if name in one.limits}
    pools = {
        node.id: pages.total * pages.page_size
        for node in evidence.machine.nodes
        for pages in node.huge_pages
        if hugepages_name(pages.page_size) == name
    }
    if amount.value > sum(pages for pages in pools.values()):
        raise Unavailable(f"{amount} of {name} are reserved, and the nodes have {in_units(sum(pools.values()))}")
    return {node: size for node, size in spread(amount.value, pools).items() if size}


def _amounts(current: Mapping[str, object], wanted: int, kept: Quantity) -> Iterator[KubeletSetting]:
    """kubeReserved as it is, and systemReserved with what is wanted beyond `kept`."""
    if current.get("kubeReserved"):
        yield KubeletSetting("kubeReserved", current["kubeReserved"], _AS_SET)
    given = current.get("systemReserved") or {}
    if Quantity.of(wanted).nano == kept.nano:
        if given:
            yield KubeletSetting("systemReserved", given, _AS_SET)
        return
    fields = read_mapping(given, "systemReserved")
    now = read_quantity(fields.get(MEMORY, "0"), f"systemReserved.{MEMORY}")
    raised = Quantity(now.nano + Quantity.of(wanted).nano - kept.nano, "BinarySI", None)
    was = f"was {now}" if now.nano else "was not set"
    yield KubeletSetting(
        "systemReserved", {**fields, MEMORY: str(raised)}, f"memory {was}: the sum has to be that of reservedMemory."
    )


def _reserved_cpus(
    evidence: SetupEvidence, current: Mapping[str, object], nodes: NodeSet, milli: int
) -> Iterator[KubeletSetting]:
    if not _without_cpus(current):
        cpus, why = choose_reserved_cpus(evidence, nodes, milli)
        yield KubeletSetting("reservedSystemCPUs", str(cpus), why)


def _without_cpus(current: Mapping[str, object]) -> tuple[str, ...]:
    """Why there is no reservedSystemCPUs. Source: pkg/kubelet/apis/config/validation/validation.go."""
    groups = [name for name in ("systemReservedCgroup", "kubeReservedCgroup") if current.get(name)]
    return (f"With {' and '.join(groups)} no kubelet takes reservedSystemCPUs, so it is left out.",) if groups else ()
