"""Resource claims (DRA) for the pods of a captured tree: the pod's spec, the kubelet's file, and CDI specifications.

The forms are those of dra-driver-cpu de98098, dra-driver-memory 1b0d668, and a kubelet v1.36.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numaudit.checkpoints.formats.claims import Claim, ClaimCheckpoint, ClaimDevice, parse, write

CPU_UID = "7d1f0c52-5b8e-4f0a-9a53-2f6f3b0f0a11"
MEMORY_UID = "0c9a6d7e-1f43-4a5b-8a0e-6a2f1d9b7c22"
BEST_EFFORT, BURSTABLE, GUARANTEED = "be-numanode", "bu-numanode", "gu-small-numanode"
"""Pods of kubernetes-four-nodes, one container `app` each. The first two run on CPU 0 and may use all nodes; the last
one has memory on node 0 and CPU 1."""
CGROUPS = {
    BEST_EFFORT: "besteffort/podff58f962cbbc5044803ce6a615d4cf57/"
    "c52a3e2e3a24a060de517e5fb17753c0652d3cf253c01641281375dca33786fb",
    BURSTABLE: "burstable/pod5e0d5731043445fe02375c8b68565590/"
    "8c66ce7af190d10902b515ecabe585905b4340a2bee94dbd9b0a9e26f6b72a01",
    GUARANTEED: "pod11909391e6eae33a104bafa75980e9ea/225353116384a087f041195e1a02163669b3ccd59e23405bb85322b175597970",
}


def claim(
    tree: Path,
    pod: str,
    name: str,
    uid: str,
    drivers: Mapping[str, Sequence[ClaimDevice]],
    *,
    container: str = "app",
    request: str | None = None,
    template: bool = False,
    prepared: bool = True,
) -> None:
    """Give a pod's container a claim, as the API server and the kubelet write it down."""
    file = tree / "numaudit/pods.json"
    pods = json.loads(file.read_text())
    (of,) = [one for one in pods["items"] if one["metadata"]["name"] == pod]
    if template:
        named: dict[str, Any] = {"name": name, "resourceClaimTemplateName": "made"}
        of["status"].setdefault("resourceClaimStatuses", []).append(
            {"name": name, "resourceClaimName": f"{pod}-{name}-x7k2q"}
        )
    else:
        named = {"name": name, "resourceClaimName": name}
    if named["name"] not in {one["name"] for one in of["spec"].setdefault("resourceClaims", [])}:
        of["spec"]["resourceClaims"].append(named)
    (own,) = [one for one in of["spec"]["containers"] if one["name"] == container]
    reference = {"name": name} if request is None else {"name": name, "request": request}
    own.setdefault("resources", {}).setdefault("claims", []).append(reference)
    file.write_text(json.dumps(pods))
    if prepared:
        real = f"{pod}-{name}-x7k2q" if template else name
        devices = {driver: tuple(listed) for driver, listed in drivers.items()}
        add_to_state(tree, Claim(uid, real, "default", (of["metadata"]["uid"],), devices))


def add_to_state(tree: Path, one: Claim) -> None:
    """A claim more in dra_manager_state; one of the same UID is replaced."""
    file = tree / "var/lib/kubelet/dra_manager_state"
    before = parse(file.read_bytes()).claims or () if file.exists() else ()
    file.write_bytes(write(ClaimCheckpoint.of((*(each for each in before if each.uid != one.uid), one))))


def cpu_device(uid: str, request: str = "cpus", name: str = "cpudevnuma001") -> ClaimDevice:
    return ClaimDevice("node-a", name, None, (request,), (f"dra.k8s.io/cpu=claim-{uid}",))


def memory_device(uid: str, request: str = "memory", name: str = "memory-x7k2qp") -> ClaimDevice:
    return ClaimDevice("node-a", name, None, (request,), (f"dra.k8s.io/memory=claim-{uid}",))


def cdi(tree: Path, kind: str, devices: Mapping[str, Sequence[str]], file: str, folder: str = "var/run/cdi") -> Path:
    """A CDI specification: device -> environment."""
    path = tree / folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = [{"name": name, "containerEdits": {"env": list(env)}} for name, env in devices.items()]
    path.write_text(json.dumps({"cdiVersion": "0.8.0", "kind": kind, "devices": listed, "containerEdits": {}}))
    return path


def cpu_cdi(tree: Path, uid: str, cpus: str) -> Path:
    """As dra.cpu writes it: a file for each claim."""
    devices = {f"claim-{uid}": [f"DRA_CPUSET_{uid}={cpus}"]}
    return cdi(tree, "dra.k8s.io/cpu", devices, f"dra.k8s.io-cpu_claim-{uid}.json")


def memory_cdi(tree: Path, uid: str, nodes: str, sizes: Mapping[str, str]) -> Path:
    """As dra.memory writes it: one file for all claims."""
    env = [f"DRAMEMORY_{uid}_NUMANodes={nodes}", *(f"DRAMEMORY_{uid}_{name}={size}" for name, size in sizes.items())]
    return cdi(tree, "dra.k8s.io/memory", {f"claim-{uid}": env}, "dra.memory.json")


def cpuset(tree: Path, pod: str, *, cpus: str | None = None, mems: str | None = None) -> None:
    """The cpuset that the pod's container has."""
    folder = tree / "sys/fs/cgroup/kubepods" / CGROUPS[pod]
    for name, value in (("cpus", cpus), ("mems", mems)):
        if value is not None:
            (folder / f"cpuset.{name}.effective").write_text(f"{value}\n")
