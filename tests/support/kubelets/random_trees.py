"""Made-up captured hosts with kubelets of many settings, and random pods for them. The same seed makes the same."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from numaudit.memorymanager.api import NodeState, admit, fresh_state, read_pod
from numaudit.scenario.files import written
from numaudit.scenario.values import Setup
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

Json = dict[str, Any]
GIB = 1 << 30
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_RESERVED = {"kubeReserved": {"cpu": "500m", "memory": "512Mi"}, "systemReserved": {}, "evictionHard": {}}


@dataclass(frozen=True, slots=True)
class MadeKubelet:
    """What differs from tree to tree."""

    nodes: int
    cores: int
    """Of each NUMA node."""
    threads: int
    gib: int
    """Of each NUMA node."""
    pages: int
    """Of 2 MiB, of each NUMA node."""
    policy: str
    scope: str
    settings: Mapping[str, Any]
    pods: int
    """Admitted at most."""
    knows_pods: bool = True
    gone: bool = False
    """One of the pods in the checkpoints is not there any more."""


def kubelets(seed: int, count: int) -> Iterator[MadeKubelet]:
    """Each policy and scope in turn; all else by chance."""
    chance = random.Random(seed)
    for number in range(count):
        static: Json = {"cpuManagerPolicy": "static"}
        if number % 5 == 4:
            static = {"cpuManagerPolicy": "none"}
        elif number == 7:
            static |= {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
        elif number == 11:
            static |= {"cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}
        if number == 13:
            static |= {"memoryManagerPolicy": "None", "reservedMemory": []}
        yield MadeKubelet(
            nodes=chance.choice((1, 2, 2, 4)),
            cores=chance.choice((2, 4, 8)),
            threads=chance.choice((1, 2)),
            gib=chance.choice((8, 16)),
            pages=chance.choice((0, 64)),
            policy=POLICIES[number % 4],
            scope=("container", "pod")[number // 4 % 2],
            settings=static,
            pods=2 if number == 11 else chance.randint(0, 8),  # it does not start when all CPUs are taken
            knows_pods=number != 9,
            gone=number == 3,
        )


def write(source: Path, target: Path, made: MadeKubelet, seed: int) -> Path:
    """A captured host: the processes of `source`, and a machine, settings, checkpoints and pods of their own."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("cgroup", "podresources-*", "*.log"))
    shutil.rmtree(target / "sys/devices/system")
    machine = _machine(made)
    _write_machine(target / "sys/devices/system", machine)
    file = target / "etc/kubernetes/kubelet.yaml"
    configuration = {
        **yaml.safe_load(file.read_text()),
        **_RESERVED,
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "512Mi"}}],
        "topologyManagerPolicy": made.policy,
        "topologyManagerScope": made.scope,
        **made.settings,
    }
    file.write_text(yaml.safe_dump(configuration))
    setup = Setup(machine, configuration, "1.36")
    chance = random.Random(seed)
    manifests = [random_pod(chance, f"there-{number}") for number in range(made.pods)]
    state, admitted = _admitted(setup, manifests)
    files = written(setup.kubelet, state)
    for name, data in (("memory_manager_state", files.memory), ("cpu_manager_state", files.cpu)):
        assert data is not None
        (target / "var/lib/kubelet" / name).write_bytes(data)
    there = admitted[1:] if made.gone else admitted
    pods = target / "numaudit/pods.json"
    pods.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": there}))
    if not made.knows_pods:
        pods.unlink()
    return target


def _admitted(setup: Setup, manifests: Sequence[Json]) -> tuple[NodeState, list[Json]]:
    state, admitted = fresh_state(setup.kubelet), []
    for number, manifest in enumerate(manifests):
        uid = f"00000000-0000-4000-8000-{number:012}"
        found = admit(setup.kubelet, state, replace(read_pod(manifest), uid=uid))
        if found.admitted:
            state = found.state
            metadata = {**manifest["metadata"], "uid": uid, "creationTimestamp": f"2026-11-20T00:00:{number:02}Z"}
            admitted.append({**manifest, "metadata": metadata, "status": {"phase": "Running"}})
    return state, admitted


def random_pod(chance: random.Random, name: str) -> Json:
    """Mostly Guaranteed with whole CPUs; some with several containers, huge pages, devices or nothing to promise."""
    kind = chance.random()
    containers = [_container(chance, f"app-{number}") for number in range(chance.choice((1, 1, 1, 2, 3)))]
    spec: Json = {"containers": containers}
    if chance.random() < 0.2:
        spec["initContainers"] = [_container(chance, "init")]
    resources = containers[0]["resources"]
    if kind < 0.08:  # Burstable
        resources["requests"] = {"cpu": str(chance.choice((1, 6, 20))), "memory": "100Mi"}
        resources["limits"] = {"memory": "1Gi"}
    elif kind < 0.12:
        containers[0]["resources"] = {}
    elif kind < 0.15:
        resources["limits"]["vendor.com/nic"] = "1"
    elif kind < 0.18:
        resources["limits"]["ephemeral-storage"] = "1Gi"
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _container(chance: random.Random, name: str) -> Json:
    limits = {
        "cpu": chance.choice(("500m", "1", "1", "2", "2", "3", "4", "7", "12")),
        "memory": f"{chance.choice((64, 512, 1024, 3000, 5000, 9000, 14000))}Mi",
    }
    if chance.random() < 0.15:
        limits["hugepages-2Mi"] = f"{chance.choice((2, 32, 96, 200))}Mi"
    return {"name": name, "image": "x", "resources": {"limits": limits}}


def _machine(made: MadeKubelet) -> Machine:
    per_node = made.cores * made.threads
    cpus = tuple(
        Cpu(
            id_,
            id_ // per_node,
            id_ // per_node,
            id_ % per_node // made.threads,
            CpuSet.from_ids(range(first := id_ - id_ % made.threads, first + made.threads)),
        )
        for id_ in range(made.nodes * per_node)
    )
    nodes = tuple(
        Node(
            number,
            CpuSet.from_ids(range(number * per_node, (number + 1) * per_node)),
            made.gib * GIB,
            (HugePages(2 << 20, made.pages, made.pages, 0),),
            {other: 10 if other == number else 20 for other in range(made.nodes)},
        )
        for number in range(made.nodes)
    )
    return Machine(nodes, cpus, NodeSet.from_ids(range(made.nodes)))


def _write_machine(folder: Path, machine: Machine) -> None:
    every = str(machine.online)
    for name in ("online", "possible", "has_cpu", "has_memory"):
        _write(folder / "node" / name, every)
    _write(folder / "cpu/online", str(CpuSet.from_ids(cpu.id for cpu in machine.cpus)))
    for node in machine.nodes:
        own, kib = folder / f"node/node{node.id}", (node.memory or 0) >> 10
        _write(own / "cpulist", str(node.cpus))
        _write(own / "distance", " ".join(str(node.distances[other]) for other in sorted(node.distances)))
        lines = {"MemTotal": kib, "MemFree": kib // 2, "MemUsed": kib // 2, "FilePages": 0, "AnonPages": 0}
        _write(own / "meminfo", "\n".join(f"Node {node.id} {name}: {value} kB" for name, value in lines.items()))
        for pages in node.huge_pages:
            for name, value in (("nr", pages.total), ("free", pages.free), ("surplus", 0)):
                _write(own / f"hugepages/hugepages-{pages.page_size >> 10}kB/{name}_hugepages", str(value))
    for cpu in machine.cpus:
        topology = folder / f"cpu/cpu{cpu.id}/topology"
        for name in ("thread_siblings_list", "core_cpus_list"):
            _write(topology / name, str(cpu.siblings))
        _write(topology / "core_id", str(cpu.core))
        _write(topology / "physical_package_id", str(cpu.socket))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")
