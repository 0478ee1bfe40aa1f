"""The whole NodeResourceTopology of a node (topology.node.k8s.io/v1alpha2)."""

from __future__ import annotations

from typing import Any

from numaudit.nrt.annotations import annotations_of
from numaudit.nrt.topology import NodeTopology

API_VERSION = "topology.node.k8s.io/v1alpha2"
KIND = "NodeResourceTopology"

Plain = dict[str, Any]


def node_resource_topology(topology: NodeTopology, published: Plain | None = None) -> Plain:
    """The object in plain values, as JSON and YAML have them; nothing in it is in random order.

    Quantities are plain decimal numbers, as feature discovery writes them. Where other software owns `zones` and
    `attributes`, only the annotations may be applied. `published`: the object before, for `annotations_of`.
    """
    before = {} if published is None else published["metadata"]["annotations"]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": topology.name, "annotations": annotations_of(topology, before)},
        "attributes": _attributes(topology),
        "zones": [_zone(topology, node) for node in topology.zones],
    }


def _attributes(topology: NodeTopology) -> list[Plain]:
    kubelet, pods = topology.kubelet, topology.pods
    found = {
        "topologyManagerPolicy": kubelet.topology_manager,
        "topologyManagerScope": kubelet.topology_scope,
        "topologyManagerMaxNUMANodes": str(kubelet.max_numa_nodes),
    }
    if kubelet.topology_scope == "none":  # the Topology Manager has no scope, and consumers know two
        del found["topologyManagerScope"]
    if pods is not None:
        found["nodeTopologyPodsFingerprint"] = pods.fingerprint
        found["nodeTopologyPodsFingerprintMethod"] = pods.method
        if pods.placement is not None:
            found["topology.node.k8s.io/numaplacement-metadata"] = pods.placement
    return _named(found)


def _zone(topology: NodeTopology, node: int) -> Plain:
    zone: Plain = {"name": _zone_name(node), "type": "Node"}
    if topology.costs is not None:
        costs = topology.costs.costs.get(node, {})
        zone["costs"] = [{"name": _zone_name(other), "value": costs[other]} for other in sorted(costs)]
    vector = None if topology.pods is None else topology.pods.vectors.get(node)
    if vector is not None:
        zone["attributes"] = _named({"topology.node.k8s.io/numaplacement-vector": vector})
    zone["resources"] = [
        {
            "name": one.name,
            "capacity": str(one.capacity),
            "allocatable": str(one.allocatable),
            "available": str(one.available),
        }
        for one in topology.zones[node]
    ]
    return zone


def _zone_name(node: int) -> str:
    return f"node-{node}"


def _named(values: dict[str, str]) -> list[Plain]:
    return [{"name": name, "value": value} for name, value in values.items()]
