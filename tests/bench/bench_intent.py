"""What joining the kubelet's sources costs at 1,000 containers: CPU milliseconds of one tick, and memory.

Run by hand: python tests/bench/bench_intent.py. A PodResources server and an HTTP server in another
process answer as a kubelet with 250 pods of four containers each would.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from goals import at_most_ms
from numaudit.checkpoints.formats import seal
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.state import Block, MemoryState, MemoryTable, NUMANodeState
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.kernel.host import Host
from numaudit.kubelet.sources import podresources
from numaudit.kubelet.sources.client import Endpoint, LiveKubelet
from numaudit.kubelet.sources.log_follow import FileLog
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.snapshot import Container, ContainerId
from numaudit.topology.nodeset import CpuSet
from short import pick, run

PODS, PER_POD = pick(250, short=25), 4
ROUNDS = 20
QUIET_MS, CHURN_MS, SHORT_QUIET, SHORT_CHURN = 3.0, 30.0, 0.3, 0.3
GIB = 1 << 30


def uid(pod: int) -> str:
    return f"{pod:08x}-0000-4000-8000-000000000000"


def container_id(pod: int, number: int) -> str:
    return f"{pod:032x}{number:032x}"


def pod_list() -> bytes:
    """As large as real ones: environments, mounts and conditions are in it, too."""
    filler = [{"name": f"SETTING_{number}", "value": "x" * 60} for number in range(20)]
    conditions = [{"type": f"Condition{number}", "status": "True", "lastTransitionTime": "x"} for number in range(5)]
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    items = [
        {
            "metadata": {"name": f"pod-{pod}", "namespace": "prod", "uid": uid(pod), "creationTimestamp": None},
            "spec": {
                "containers": [
                    {"name": f"c{number}", "image": "registry.example/app:1", "env": filler, "resources": resources}
                    for number in range(PER_POD)
                ]
            },
            "status": {
                "phase": "Running",
                "qosClass": "Guaranteed",
                "conditions": conditions,
                "containerStatuses": [
                    {
                        "name": f"c{number}",
                        "state": {"running": {"startedAt": "2026-11-20T22:00:48Z"}},
                        "containerID": f"containerd://{container_id(pod, number)}",
                        "restartCount": 0,
                    }
                    for number in range(PER_POD)
                ],
            },
        }
        for pod in range(PODS)
    ]
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items}).encode()


def resources_list() -> bytes:
    from numaudit.kubelet.proto import podresources_pb2 as pb  # noqa: PLC0415

    pods = []
    for pod in range(PODS):
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=pod % 8)])
        memory = [pb.ContainerMemory(memory_type="memory", size=GIB, topology=topology)]
        parts = [
            pb.ContainerResources(name=f"c{n}", cpu_ids=[pod * PER_POD + n], memory=memory) for n in range(PER_POD)
        ]
        pods.append(pb.PodResources(name=f"pod-{pod}", namespace="prod", containers=parts))
    return pb.ListPodResourcesResponse(pod_resources=pods).SerializeToString()


def checkpoints(kubelet: Path) -> None:
    names = [f"c{number}" for number in range(PER_POD)]
    blocks = {uid(pod): dict.fromkeys(names, (Block((pod % 8,), "memory", GIB),)) for pod in range(PODS)}
    machine = {node: NUMANodeState(125, {"memory": MemoryTable(1, 1, 1, 1, 1)}, (node,)) for node in range(8)}
    data = seal.write(MemoryCheckpoint.of("Static", MemoryState(machine, blocks)))
    (kubelet / "memory_manager_state").write_bytes(data)
    cpus = {uid(pod): {n: CpuSet.of(pod * PER_POD + i) for i, n in enumerate(names)} for pod in range(PODS)}
    data = seal.write(CpuCheckpoint.of("static", CPUState(CpuSet.of(2000), cpus)))
    (kubelet / "cpu_manager_state").write_bytes(data)


def serve(socket: str, to_parent: Connection) -> None:
    import grpc  # noqa: PLC0415

    pods, resources = pod_list(), resources_list()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = pods if self.path == "/pods" else b"{}"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    handlers = {"List": grpc.unary_unary_rpc_method_handler(lambda _request, _context: resources, bytes, bytes)}
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    to_parent.send((http.server_port, len(pods), len(resources)))
    http.serve_forever()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="na-") as folder:
        root = Path(folder)
        host = Host(root)
        (root / "proc").mkdir()
        (host.kubelet / "pod-resources").mkdir(parents=True)
        checkpoints(host.kubelet)
        log = root / "kubelet.log"
        log.write_text("")
        socket = podresources.socket(host)
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(str(socket), theirs), daemon=True)
        server.start()
        port, pods_size, resources_size = ours.recv()
        endpoint = Endpoint(f"http://127.0.0.1:{port}")
        live = LiveKubelet(host, podresources.Client(socket), endpoint=endpoint)
        kubelet = IntentCollector.by(KubeletPoller(host, live, FileLog(log, "kubelet.log")))
        containers = tuple(
            Container(
                ContainerId(1 + pod * PER_POD + number),
                f"/kubepods/pod{uid(pod)}/{container_id(pod, number)}",
                "container",
                container_id=container_id(pod, number),
                pod_uid=uid(pod),
                name=f"c{number}",
            )
            for pod in range(PODS)
            for number in range(PER_POD)
        )
        measure(kubelet, containers, (pods_size, resources_size))
        server.terminate()
        server.join()


def seconds_of(kubelet: IntentCollector, containers: tuple[Container, ...]) -> float:
    start = time.process_time()
    kubelet.ask(containers)
    return time.process_time() - start


def measure(kubelet: IntentCollector, containers: tuple[Container, ...], sizes: tuple[int, int]) -> None:
    memory = psutil.Process().memory_info().rss >> 20
    start = time.process_time()
    found = kubelet.ask(containers)
    first = time.process_time() - start
    assert len(found.intent.by_cgroup) == PODS * PER_POD
    assert all(one.promise.memory and one.promise.cpus for one in found.intent.containers)
    assert found.intent.conflicts == ()
    quiet = [seconds_of(kubelet, containers) for _ in range(ROUNDS)]
    churning = [seconds_of(kubelet, containers[number % 2 :]) for number in range(ROUNDS)]
    now = psutil.Process().memory_info().rss >> 20
    print(f"{PODS * PER_POD} containers, /pods {sizes[0] >> 10} KiB, PodResources {sizes[1] >> 10} KiB")
    print(f"first tick, modules loaded in it   {first * 1e3:7.1f} ms CPU")
    print(f"later ticks, nothing changed       {statistics.median(quiet) * 1e3:7.1f} ms CPU (median of {ROUNDS})")
    print(f"later ticks, a container changed   {statistics.median(churning) * 1e3:7.1f} ms CPU (median of {ROUNDS})")
    print(f"memory before and after            {memory:4d} -> {now} MiB RSS")
    at_most_ms("a look at the kubelet, nothing changed", min(quiet) * 1e3, QUIET_MS, short=SHORT_QUIET)
    at_most_ms("a look at the kubelet, a container changed", min(churning) * 1e3, CHURN_MS, short=SHORT_CHURN)
    modules = ("grpc", "google.protobuf", "yaml", "msgspec")
    print(f"modules loaded: {', '.join(name for name in modules if name in sys.modules)}")


if __name__ == "__main__":
    run(main)
