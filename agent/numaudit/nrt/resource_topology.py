"""The NodeResourceTopology of a node (topology.node.k8s.io/v1alpha2), and its annotations: a key for each part, with
compact JSON.

The same node gives the same text, whatever the order of its pods, and no value has a time in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from numaudit.errors import ParseError
from numaudit.nrt.topology import MeasuredPart, NodeTopology, Part
from numaudit.topology.nodeset import IdSet

PREFIX = "numaudit.io/"
VERSION = 1
"""Of the values' form. A reader must not guess what another one means."""
LEFT_OUT = f"{PREFIX}left-out"
"""Key of the names of parts for which there was no space."""
MOST_BYTES = 64 << 10
"""All keys and values together. Kubernetes takes 256 KiB of all writers' annotations of an object, and etcd 1.5 MiB of
a whole object."""

_PARTS = ("kubelet", "memory", "cpus", "devices", "measured", "costs", "pods", "groups")
"""The most useful first: the last ones are left out first."""

KEYS = (*(f"{PREFIX}{name}" for name in _PARTS), LEFT_OUT)
"""All keys that may be published."""

PartT = TypeVar("PartT", bound=Part)


class _LeftOut(Part, frozen=True):
    parts: tuple[str, ...]


def annotations_of(topology: NodeTopology, published: Mapping[str, str] | None = None) -> dict[str, str]:
    """Key -> value, by key. The keys of a part that is not known are not in it.

    `published`: what was published before. Free memory that differs from it by less than a step stays as it is there,
    so that nothing is to be written where nothing changed. Parts beyond MOST_BYTES are left out and named.
    """
    parts = {name: getattr(topology, name) for name in _PARTS}
    parts["measured"] = _steady(topology.measured, published or {})
    texts = {name: _encode(part) for name, part in parts.items() if part is not None}
    missing: list[str] = []
    for name in reversed(_PARTS):
        found = {f"{PREFIX}{one}": text for one, text in texts.items() if one not in missing}
        if missing:
            found[LEFT_OUT] = _encode(_LeftOut(tuple(sorted(missing))))
        if size_of(found) <= MOST_BYTES:
            break
        if name in texts:
            missing.append(name)
    return dict(sorted(found.items()))


def size_of(annotations: Mapping[str, str]) -> int:
    """Bytes of keys and values, as Kubernetes counts them."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def read_part(annotations: Mapping[str, str], name: str, form: type[PartT]) -> PartT | None:
    """A part by its name; None = it is not among them. Raises ParseError for what is no such value."""
    text = annotations.get(f"{PREFIX}{name}")
    if text is None:
        return None
    try:
        fields = msgspec.json.decode(text, type=dict[str, Any])
        if fields.get("version") != VERSION:
            raise ParseError(f"{PREFIX}{name} has version {str(fields.get('version'))[:20]}, and {VERSION} is known")
        return msgspec.json.decode(text, type=form, dec_hook=_set_of)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        if isinstance(error, ParseError):
            raise
        raise ParseError(f"{PREFIX}{name}: {error}") from None


def _encode(part: Part) -> str:
    fields = msgspec.to_builtins(part, enc_hook=str, str_keys=True)
    return msgspec.json.encode({"version": VERSION, **fields}, order="deterministic").decode()


def _set_of(form: type, value: object) -> IdSet:
    if not issubclass(form, IdSet) or not isinstance(value, str):
        raise ValueError(f"a list such as 0-1,3 is expected, not {str(value)[:40]!r}")
    return form.parse(value)


def _steady(measured: MeasuredPart | None, published: Mapping[str, str]) -> MeasuredPart | None:
    """With the published figures that are still right within a step."""
    if measured is None:
        return None
    try:
        before = read_part(published, "measured", MeasuredPart)
    except ParseError:
        before = None
    old = {} if before is None else before.free_bytes
    return MeasuredPart(
        {
            node: old[node] if node in old and abs(old[node] - free) < step else free // step * step
            for node, free in measured.free_bytes.items()
            for step in [measured.step_bytes.get(node, 1)]
        },
        measured.step_bytes,
    )


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
