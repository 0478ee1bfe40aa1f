"""Reads the placement in a NodeResourceTopology as the scheduler that uses it does, for tests.

Written from scheduler-plugins at 903da7d (pkg/noderesourcetopology/cache/{store,overreserve}.go,
resourcerequests/exclusive.go) and numaplacement at 05c4e97, without anything of the product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from xxhash import xxh64_intdigest

ALPHABET = r"!#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~"
"""0x21 to 0x7E without " & < > and backslash, written out."""
METADATA, VECTOR = "topology.node.k8s.io/numaplacement-metadata", "topology.node.k8s.io/numaplacement-vector"
_UNITS = {"": "1", "m": "0.001", "k": "1e3", "M": "1e6", "G": "1e9", "Ki": "1024", "Mi": "1048576", "Gi": "1073741824"}

Plain = dict[str, Any]
Name = tuple[str, str, str]
"""Namespace, pod, container."""


class NotDecodedError(Exception):
    """The scheduler uses no placement of this node."""


def hash_of(name: Name) -> int:
    """By which containers are ordered."""
    return xxh64_intdigest("\0".join(name).encode())


def decoded(text: str) -> list[int]:
    """The numbers of a text of LEB89."""
    found, rest, is_first = list[int](), 0, True
    for letter in text:
        digit = ALPHABET.index(letter)
        if digit >= 64:
            rest, is_first = rest * 25 + digit - 64, False
            continue
        found.append(digit if is_first else 64 + rest * 64 + digit)
        rest, is_first = 0, True
    if not is_first:
        raise NotDecodedError("the text ends within a number")
    return found


def nodes_of(metadata: str, vectors: dict[int, str]) -> list[int]:
    """The node of each container, by the order of hashes. Raises NotDecodedError."""
    version, *pairs = metadata.split("::")
    fields = dict(pair.split("=") for pair in pairs)
    if (version, fields["ve"]) != ("npv0v001", "leb89"):
        raise NotDecodedError("unknown version or encoding")
    containers, nodes, busiest = int(fields["cc"]), int(fields["nn"]), int(fields["bn"])
    if not 0 <= busiest < nodes:
        raise NotDecodedError("inconsistent busiest node")
    if len(vectors) >= nodes or busiest in vectors or (vectors and not containers):
        raise NotDecodedError("inconsistent vectors")
    found = dict[int, int]()
    for node, text in vectors.items():
        if not (text and 0 <= node < nodes):
            raise NotDecodedError("corrupted vector")
        place = 0
        for delta in decoded(text):
            place += delta
            if place >= containers or place in found:
                raise NotDecodedError("a container is in two places, or beyond the last")
            found[place] = node
    return [found.get(place, busiest) for place in range(containers)]


def read_placement(nrt: Plain, pods: Iterable[Plain]) -> dict[Name, int] | None:
    """The NUMA node of each container that counts; None = the object says nothing. Raises NotDecodedError."""
    attributes = _attributes(nrt)
    if attributes["topologyManagerPolicy"] != "single-numa-node" or METADATA not in attributes:
        return None
    zones = {int(zone["name"].removeprefix("node-")): zone for zone in nrt["zones"]}
    vectors = {node: found[VECTOR] for node, zone in zones.items() if VECTOR in (found := _attributes(zone))}
    in_zones = {one["name"] for zone in zones.values() for one in zone["resources"]}
    names = [name for pod in pods for name in counted(pod, in_zones)]
    nodes = nodes_of(attributes[METADATA], vectors)
    if len(names) != len(nodes):
        raise NotDecodedError(f"the scheduler counts {len(names)} containers, and the object {len(nodes)}")
    return dict(zip(sorted(names, key=hash_of), nodes, strict=True))


def counted(pod: Plain, in_zones: set[str]) -> Iterator[Name]:
    """Containers of a pod that runs which have resources of their own."""
    if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return
    sidecars = [one for one in pod["spec"].get("initContainers", ()) if one.get("restartPolicy") == "Always"]
    for one in [*sidecars, *pod["spec"]["containers"]]:
        if any(_is_exclusive(_qos(pod), *asked, in_zones) for asked in _requests(one).items()):
            yield pod["metadata"].get("namespace", "default"), pod["metadata"]["name"], one["name"]


def _is_exclusive(qos: str, resource: str, text: str, in_zones: set[str]) -> bool:
    amount = _number(text)
    if "/" in resource and "kubernetes.io/" not in resource:
        return resource in in_zones
    if qos != "Guaranteed" or not amount:
        return False
    return resource == "memory" or resource.startswith("hugepages-") or (resource == "cpu" and amount == int(amount))


def _qos(pod: Plain) -> str:
    """As the status says, or as the API server computes it of pods without a status."""
    said = pod.get("status", {}).get("qosClass")
    if said:
        return str(said)
    spec = pod["spec"]
    parts = [spec] if "resources" in spec else [*spec.get("initContainers", ()), *spec["containers"]]
    limits = [one.get("resources", {}).get("limits", {}) for one in parts]
    is_guaranteed = all(
        {"cpu", "memory"} <= own.keys() and all(_requests(one)[name] == own[name] for name in ("cpu", "memory"))
        for one, own in zip(parts, limits, strict=True)
    )
    return "Guaranteed" if is_guaranteed else "Burstable"  # or BestEffort, which makes no difference here


def _requests(container: Plain) -> dict[str, str]:
    """A missing request is the limit, as the API server fills it in."""
    resources = container.get("resources", {})
    return {**resources.get("limits", {}), **resources.get("requests", {})}


def _number(text: str) -> Decimal:
    digits = text.rstrip("mkMGKi")
    return Decimal(digits) * Decimal(_UNITS[text[len(digits) :]])


def _attributes(of: Plain) -> dict[str, str]:
    return {one["name"]: one["value"] for one in of.get("attributes", ())}
