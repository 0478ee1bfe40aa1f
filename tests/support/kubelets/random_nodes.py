"""Random nodes with a history of pods, and random pods, for tests that compare two ways to one answer."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from numaudit.containermanager.device.hints import Device, DeviceState
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.topologymanager.policy import KubeletHangs
from numaudit.errors import InputError
from numaudit.memorymanager.admission import NodeState, admit, reconcile, remove
from numaudit.memorymanager.kubelet import Kubelet, read_kubelet
from numaudit.memorymanager.manager import fresh_state
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

Plain = dict[str, Any]
GIB, MIB = 1 << 30, 1 << 20
RESOURCES = ("vendor.example/gpu", "vendor.example/nic")
_VERSIONS = ("1.23", "1.28", "1.31", "1.32", "1.34", "1.36", "1.36", "1.36", "1.37")
_CPU_OPTIONS = ("full-pcpus-only", "align-by-socket", "distribute-cpus-across-numa", "strict-cpu-reservation")
_ATTEMPTS = 50


def random_kubelet(random: Random) -> Kubelet:
    """One that starts, on a machine of up to four nodes; ids may have gaps, and a node may have no CPUs."""
    for _ in range(_ATTEMPTS):
        try:
            return _kubelet(random)
        except InputError:  # such a kubelet does not start
            continue
    raise AssertionError(f"no kubelet in {_ATTEMPTS} attempts")


def random_state(random: Random, kubelet: Kubelet, pods: int = 9) -> NodeState:
    """After some pods have come, fewer than `pods`, and some of them gone."""
    state = fresh_state(kubelet, _devices(random, kubelet.machine))
    for number in range(random.randrange(pods)):
        try:
            state = admit(kubelet, state, read_pod(random_pod(random, f"old-{number}"))).state
        except (InputError, KubeletHangs):
            continue
        if state.pods and random.random() < 0.4:
            state = remove(state, random.choice(list(state.pods)))
        if random.random() < 0.5:
            state = reconcile(state, version=kubelet.features.version)
    return replace(state, capacity=None)


def random_pod(random: Random, name: str) -> Plain:
    """A v1 Pod, Guaranteed more often than not."""
    kind = random.choice(("Guaranteed", "Guaranteed", "Guaranteed", "Burstable", "BestEffort"))
    spec: Plain = {"containers": [_container(random, f"c{n}", kind) for n in range(random.choice((1, 1, 1, 2, 3)))]}
    if random.random() < 0.25:
        spec["initContainers"] = [_container(random, f"i{n}", kind) for n in range(random.choice((1, 2)))]
        if random.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if random.random() < 0.05:
        spec["resources"] = {"limits": {"cpu": "4", "memory": "8Gi"}, "requests": {"cpu": "4", "memory": "8Gi"}}
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "spec": spec}


def _container(random: Random, name: str, kind: str) -> Plain:
    limits: dict[str, str] = {}
    if kind != "BestEffort":
        limits["cpu"] = random.choice(("1", "1", "2", "3", "500m"))
        limits["memory"] = f"{random.choice((64, 500, 1024, 2048, 5000, 9000, 15000))}Mi"
    if kind == "Guaranteed" and random.random() < 0.15:
        limits["hugepages-2Mi"] = random.choice(("2Mi", "64Mi"))
    for resource in RESOURCES:
        if random.random() < 0.25:
            limits[resource] = random.choice(("1", "1", "2"))
    requests = dict(limits)
    if kind == "Burstable":
        requests["memory"] = "32Mi"
    return {"name": name, "resources": {"limits": limits, "requests": requests}}


def _kubelet(random: Random) -> Kubelet:
    config: Plain = {
        "memoryManagerPolicy": random.choice(("Static", "Static", "Static", "None")),
        "topologyManagerPolicy": random.choice(("none", "best-effort", "restricted", "single-numa-node")),
        "topologyManagerScope": random.choice(("container", "container", "pod")),
        "featureGates": {"CPUManagerPolicyAlphaOptions": True},
        "kubeReserved": {"memory": "1948Mi", "cpu": "1"},  # and 100Mi of the default hard eviction threshold
    }
    version = random.choice(_VERSIONS)
    if version == "1.36" and random.random() < 0.3:
        config["featureGates"]["PodLevelResourceManagers"] = True
    if random.random() < 0.2:
        config["topologyManagerPolicyOptions"] = {"prefer-closest-numa-nodes": "true"}
    machine = _machine(random)
    if config["memoryManagerPolicy"] == "Static":
        first, second = machine.nodes[0].id, machine.nodes[-1].id
        kept = {first: 1024, second: 1024} if first != second else {first: 2048}
        config["reservedMemory"] = [
            {"numaNode": node, "limits": {"memory": f"{size}Mi"}} for node, size in kept.items()
        ]
    if random.random() < 0.6:
        config["cpuManagerPolicy"] = "static"
        options = {one: "true" for one in _CPU_OPTIONS if random.random() < 0.15}
        config |= {"cpuManagerPolicyOptions": options} if options else {}
    return read_kubelet(config, machine, kubernetes_version=version)[0]


def _machine(random: Random) -> Machine:
    count = random.choice((1, 2, 2, 2, 3, 4))
    ids = sorted(random.sample(range(6), count)) if random.random() < 0.2 else list(range(count))
    size, threads = random.choice((2, 4, 6)), random.choice((1, 2))
    nodes, cpus = [], []
    for place, id_ in enumerate(ids):
        has_cpus = place == 0 or random.random() < 0.9
        own = list(range(place * size, place * size + size)) if has_cpus else []
        for cpu in own:
            first = cpu - cpu % threads
            siblings = CpuSet.from_ids(range(first, first + threads))
            cpus.append(Cpu(cpu, id_, socket=place // 2, core=first, siblings=siblings, l3_cache=place))
        pages = (HugePages(2 * MIB, random.choice((0, 32, 64))),)
        distances = {other: 10 if other == id_ else 11 + abs(other - id_) for other in ids}
        nodes.append(Node(id_, CpuSet.from_ids(own), random.choice((6, 10, 16)) * GIB, pages, distances))
    return Machine(tuple(nodes), tuple(cpus))


def _devices(random: Random, machine: Machine) -> DeviceState:
    plugins: dict[str, dict[str, Device]] = {}
    ids = [node.id for node in machine.nodes]
    for resource in RESOURCES:
        if random.random() < 0.2:
            continue
        plugins[resource] = {}
        for number in range(random.randrange(6)):
            spread = random.random()
            nodes = NodeSet.from_ids(random.sample(ids, min(len(ids), 2 if spread > 0.95 else 1)))
            place = None if spread < 0.05 else NodeSet() if spread < 0.08 else nodes
            plugins[resource][f"d{number}"] = Device(f"d{number}", place, healthy=random.random() < 0.9)
    return DeviceState(plugins)
