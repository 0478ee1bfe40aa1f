"""Rules about PCI devices: are their nodes known, and known to the kubelet?"""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.setup.rule import Fault, SetupEvidence, SetupRule
from numaudit.ranks.declaration import HeldDevice
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import plural, some_of


def _devices(evidence: SetupEvidence) -> tuple[HeldDevice, ...]:
    return evidence.known(evidence.settings.devices, "devices")


def _device_no_node(evidence: SetupEvidence) -> Iterator[Fault]:
    without = [one for one in _devices(evidence) if one.numa_node is None]
    if without:
        yield Fault(
            f"the firmware gives no node for {plural(len(without), 'PCI device')}: "
            f"{some_of([one.in_words for one in without])}",
            severity="info" if evidence.settings.is_guest else None,
        )


def _plugin_no_topology(evidence: SetupEvidence) -> Iterator[Fault]:
    node_of = {one.address: one.numa_node for one in _devices(evidence) if one.numa_node is not None}
    unplaced: dict[str, list[str]] = {}
    for one in evidence.intent.containers:
        for given in one.promise.devices or ():
            known = [id_ for id_ in given.ids if id_.lower() in node_of] if given.nodes is None else []
            if known:
                unplaced.setdefault(given.resource, []).extend(known)
    for resource, ids in unplaced.items():
        first = ids[0]
        yield Fault(
            f"the plugin of {resource} names no nodes, and its device {first} is on node {node_of[first.lower()]}",
            NodeSet.of(*{node for id_ in ids if (node := node_of[id_.lower()]) is not None}),
        )


def _gpu_nic_far(evidence: SetupEvidence) -> Iterator[Fault]:
    gpus, adapters = (
        NodeSet.from_ids(one.numa_node for one in _devices(evidence) if one.kind == kind and one.numa_node is not None)
        for kind in ("gpu", "network")
    )
    if gpus and adapters and gpus.isdisjoint(adapters):
        yield Fault(f"GPUs are on {gpus.in_words} and network adapters on {adapters.in_words}", gpus | adapters)


RULES = (
    SetupRule(
        "device-no-node",
        "devices",
        "warning",
        "These devices give no hint: a pod that uses one may get memory and CPUs on any node.",
        "Update the firmware (_PXM in ACPI); until then at boot, before the device plugin starts: "
        "`echo NODE > /sys/bus/pci/devices/ADDRESS/numa_node`",
        "https://docs.kernel.org/PCI/sysfs-pci.html",
        _device_no_node,
        ("nodes",),
    ),
    SetupRule(
        "plugin-no-topology",
        "devices",
        "warning",
        "The Topology Manager leaves these devices out, although the kernel knows their nodes.",
        "Update the device plugin, or turn its topology on (GKE's GPU plugin: -topology).",
        "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/"
        "#device-plugin-integration-with-the-topology-manager",
        _plugin_no_topology,
        ("kubelet", "nodes"),
    ),
    SetupRule(
        "gpu-nic-far",
        "devices",
        "info",
        "Each transfer between a GPU and the network crosses nodes.",
        "Move network adapters or GPUs to slots of the same node, where the board has some.",
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        _gpu_nic_far,
        ("nodes",),
    ),
)
