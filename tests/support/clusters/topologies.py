"""Values of a NodeResourceTopology for tests, and what other writers put there."""

from __future__ import annotations

from typing import Any

import yaml

from clusters.api_topologies import API_VERSION, KIND, Topologies

NFD = "node-feature-discovery-topology-updater"


def zones(available: str = "3") -> list[dict[str, Any]]:
    """One zone, as Node Feature Discovery writes it."""
    cpu = {"name": "cpu", "capacity": "4", "allocatable": "4", "available": available}
    return [{"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": 10}], "resources": [cpu]}]


def whole(available: str = "3", policy: str = "restricted") -> dict[str, Any]:
    return {"zones": zones(available), "attributes": [{"name": "topologyManagerPolicy", "value": policy}]}


def discover(topologies: Topologies, node: str = "node1", available: str = "3", policy: str = "restricted") -> None:
    """A round of Node Feature Discovery: server-side apply with Force."""
    value = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": node}, **whole(available, policy)}
    code, answer = topologies.apply(node, yaml.safe_dump(value).encode(), NFD, force=True)
    assert code in (200, 201), answer
