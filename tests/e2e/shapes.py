"""Pods of all shapes for one node: sized by what its NUMA nodes have free, so that some fit and some do not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
MI = 1 << 20
SLEEP = ["/opt/numaudit/bin/python", "-c", "import signal; signal.pause()"]


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What the node has free, by its own agent's headroom."""

    name: str
    memory: Sequence[int]
    """Bytes, by NUMA node."""
    huge_pages: Sequence[int]
    """Bytes of 2 MiB pages, by NUMA node."""
    cpus: int
    """CPUs that Kubernetes may give to pods."""


def pods(room: NodeRoom, namespace: str, image: str) -> list[Json]:
    """Manifests in the order in which they are created. Each stays until the end, so the node fills up."""
    found = []
    for number, (title, spec) in enumerate(_specs(room, image), 1):
        metadata = {"name": f"e2e-{number:02}-{title}", "namespace": namespace}
        rest: Json = {
            "nodeName": room.name,  # the kubelet decides, and no scheduler
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
        }
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **rest}})
    return found


def _specs(room: NodeRoom, image: str) -> Iterator[tuple[str, Json]]:
    most = max(room.memory)
    half, wide, beyond = most // 2, most * 5 // 4, sum(room.memory) * 2

    def container(name: str = "app", /, **limits: str | int) -> Json:
        same = {key.replace("_", "-").replace("huge", "hugepages"): str(value) for key, value in limits.items()}
        return {"name": name, "image": image, "command": SLEEP, "resources": {"limits": same, "requests": same}}

    def only(**limits: str | int) -> Json:
        return {"containers": [container(**limits)]}

    def resources(containers: list[Json], **own: Json) -> Json:
        containers[0]["resources"] = own
        return {"containers": containers}

    yield "small", only(cpu=1, memory="64Mi")
    yield "part-of-a-cpu", only(cpu="500m", memory="64Mi")
    yield "tiny", only(cpu="10m", memory="8Mi")
    yield "half-a-node", only(cpu=1, memory=_whole(half))
    yield (
        "two-containers",
        {"containers": [container("one", cpu=1, memory="32Mi"), container("two", cpu=1, memory="48Mi")]},
    )
    yield (
        "mixed-cpus",
        {"containers": [container("whole", cpu=1, memory="32Mi"), container("part", cpu="250m", memory="32Mi")]},
    )
    first = container("first", cpu=1, memory="96Mi")
    first["command"] = ["/opt/numaudit/bin/python", "-c", ""]
    yield "larger-init", {"initContainers": [first], "containers": [container(cpu=1, memory="32Mi")]}
    beside = container("beside", cpu="100m", memory="24Mi") | {"restartPolicy": "Always"}
    yield "sidecar", {"initContainers": [beside], "containers": [container(cpu=1, memory="24Mi")]}
    yield "limits-only", resources([container()], limits={"cpu": "1", "memory": "32Mi"})
    yield "burstable", resources([container()], requests={"cpu": "100m", "memory": "16Mi"})
    yield "best-effort", resources([container()])
    yield "wider-than-a-node", only(cpu=1, memory=_whole(wide))
    yield "beyond-the-node", only(cpu=1, memory=_whole(beyond))
    yield "too-many-cpus", only(cpu=room.cpus + 1, memory="32Mi")
    if any(room.huge_pages):
        pages = max(room.huge_pages)
        yield "huge-pages", only(cpu=1, memory="32Mi", huge_2Mi=_whole(min(pages, 8 * MI)))
        yield "more-huge-pages-than-a-node", only(cpu=1, memory="32Mi", huge_2Mi=_whole(pages + 2 * MI))
    for letter in "abcd":
        yield f"fill-{letter}", only(cpu=1, memory=_whole(most // 3))
    yield "last", only(cpu=1, memory="64Mi")


def _whole(size: int) -> str:
    """In whole units of 2 MiB, at least one."""
    return f"{max(1, size // (2 * MI)) * 2}Mi"
