"""The PodResources interface: recorded answers, and a server that replays them over a real Unix socket."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from kubelets.podresources_server import serving
from kubelets.steps import STEPS, Step
from numaudit.containermanager.memory.state import Block
from numaudit.errors import ParseError, Unavailable
from numaudit.intent.node import Promise, PromisedDevices
from numaudit.kubelet.proto import podresources_pb2 as pb
from numaudit.kubelet.sources.podresources import Client, PodResources, decode, decode_allocatable
from numaudit.topology.nodeset import CpuSet, NodeSet

AGENT = Path(__file__).parents[3] / "agent"
PROTO = "numaudit/kubelet/proto/podresources.proto"
LIST = "/v1.PodResourcesLister/List"
RUNNING = Step("standalone-single-numa-node/1-running").read("podresources-list.pb")


@pytest.fixture
def path() -> Iterator[Path]:
    """A path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="na-") as folder:
        yield Path(folder) / "kubelet.sock"


@pytest.mark.parametrize("step", STEPS)
def test_a_recorded_answer_says_what_its_decoded_form_says(step: str) -> None:
    recorded = json.loads(Step(step).read("podresources-list.json"))
    found = {(one.namespace, one.name): one for one in decode(Step(step).read("podresources-list.pb"))}
    assert len(found) == len(recorded["pod_resources"])
    for pod in recorded["pod_resources"]:
        ours = found[pod["namespace"], pod["name"]]
        for container in pod.get("containers", []):
            promise = ours.containers[container["name"]]
            assert promise.cpus == CpuSet.from_ids(map(int, container.get("cpu_ids", [])))
            # protojson leaves out an ID of 0, and writes 64-bit numbers as texts.
            assert promise.memory == tuple(
                Block.of(
                    block["memory_type"],
                    int(block["size"]),
                    NodeSet.from_ids(int(node.get("ID", 0)) for node in block["topology"]["nodes"]),
                )
                for block in container.get("memory", [])
            )
            assert promise.devices == ()


def test_a_missing_node_id_is_node_0() -> None:
    (small,) = [one for one in decode(RUNNING) if one.name == "gu-small-numanode"]
    assert small.containers["app"].memory_nodes == NodeSet.of(0)


def test_lists_of_the_whole_pod_are_kept_apart_from_its_containers() -> None:
    memory = pb.ContainerMemory(memory_type="memory", size=5, topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=1)]))
    app = pb.ContainerResources(name="app", cpu_ids=[2], memory=[memory])
    pod = pb.PodResources(name="p", namespace="n", containers=[app], cpu_ids=[2, 3], memory=[memory])
    data = pb.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString()
    block = Block.of("memory", 5, NodeSet.of(1))
    expected = PodResources(
        "n",
        "p",
        {"app": Promise((block,), CpuSet.of(2), ())},
        Promise((block,), CpuSet.of(2, 3)),
    )
    assert decode(data) == (expected,)


FUSE = pb.ContainerDevices(resource_name="vendor.example/fuse", device_ids=["f"])


def _nic(id_: str, *nodes: int) -> pb.ContainerDevices:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes]) if nodes else None
    return pb.ContainerDevices(resource_name="vendor.example/nic", device_ids=[id_], topology=topology)


def test_devices_of_one_resource_on_the_same_nodes_come_together() -> None:
    app = pb.ContainerResources(name="app", devices=[_nic("b", 1), _nic("a", 0), _nic("c", 1), _nic("d", 0, 1), FUSE])
    pod = pb.PodResources(name="p", namespace="n", containers=[app])
    (found,) = decode(pb.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString())
    assert found.containers["app"].devices == (
        PromisedDevices("vendor.example/nic", ("a",), NodeSet.of(0)),
        PromisedDevices("vendor.example/nic", ("b", "c"), NodeSet.of(1)),
        PromisedDevices("vendor.example/nic", ("d",), NodeSet.of(0, 1)),
        PromisedDevices("vendor.example/fuse", ("f",), None),
    )


def test_fields_of_a_newer_kubelet_are_passed_over() -> None:
    # Field 999, length-delimited, "new".
    data = RUNNING + b"\xba\x3e\x03new"
    assert decode(data) == decode(RUNNING)


@pytest.mark.parametrize("node", [-1, 1024, 2**40])
def test_an_impossible_node_is_refused(node: int) -> None:
    memory = pb.ContainerMemory(memory_type="memory", size=5, topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)]))
    app = pb.ContainerResources(name="app", memory=[memory])
    pod = pb.PodResources(name="p", namespace="n", containers=[app])
    with pytest.raises(ParseError, match="pod n/p: node"):
        decode(pb.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString())


def test_a_device_on_several_nodes_is_allocatable_on_all_of_them() -> None:
    """The kubelet sends an entry for each of its nodes."""
    answer = pb.AllocatableResourcesResponse(devices=[_nic("a", 1), _nic("b", 0), _nic("a", 3), FUSE], cpu_ids=[2])
    assert decode_allocatable(answer.SerializeToString()) == {
        "vendor.example/nic": {"a": NodeSet.of(1, 3), "b": NodeSet.of(0)},
        "vendor.example/fuse": {"f": None},
    }


def test_an_allocatable_device_on_an_impossible_node_is_refused() -> None:
    answer = pb.AllocatableResourcesResponse(devices=[_nic("a", -1)])
    with pytest.raises(ParseError, match="allocatable devices: node"):
        decode_allocatable(answer.SerializeToString())


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for one in (data, RUNNING[: len(data)] + data):
        with contextlib.suppress(ParseError):
            decode(one)
        with contextlib.suppress(ParseError):
            decode_allocatable(one)


def test_a_server_on_a_socket_is_asked_and_asked_again(path: Path) -> None:
    client = Client(path)
    with serving(path, {LIST: lambda: RUNNING}):
        assert client.list() == RUNNING
        assert client.list() == RUNNING
        assert client.allocatable() is None
    client.close()


def test_a_kubelet_without_v1_is_named(path: Path) -> None:
    client = Client(path)
    with serving(path, {}), pytest.raises(Unavailable, match="does not know v1 of the PodResources interface"):
        client.list()
    client.close()


def test_an_answer_larger_than_4_mib_is_read(path: Path) -> None:
    many = RUNNING * 20_000
    assert len(many) > 8 << 20
    client = Client(path, deadline=120)
    with serving(path, {LIST: lambda: many}):
        assert len(client.list()) == len(many)
    client.close()


def test_a_packed_answer_is_not_unpacked(path: Path) -> None:
    """gRPC would unpack 64 MiB of it for each 64 KiB before it compares its size with any limit."""
    client = Client(path, deadline=120)
    server = serving(path, {LIST: lambda: RUNNING * 100}, grpc.Compression.Gzip)
    with server, pytest.raises((Unavailable, ParseError)):  # gRPC refuses it, or leaves it as it is
        decode(client.list())
    client.close()


def test_a_kubelet_that_does_not_answer_costs_no_more_than_the_deadline(path: Path) -> None:
    done = threading.Event()

    def hang() -> bytes:
        done.wait()
        return b""

    client = Client(path, deadline=0.3)
    with serving(path, {LIST: hang}):
        try:
            with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
                client.list()
        finally:
            done.set()
    client.close()


def test_a_slow_kubelet_within_the_deadline_is_waited_for(path: Path) -> None:
    def slow() -> bytes:
        time.sleep(0.3)
        return RUNNING

    client = Client(path, deadline=120)
    with serving(path, {LIST: slow}):
        assert client.list() == RUNNING
    client.close()


def test_a_socket_whose_peer_talks_garbage_is_unavailable(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def talk() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                peer.sendall(b"HTTP/1.0 200 OK\r\n\r\nhello")
                peer.close()

    threading.Thread(target=talk, daemon=True).start()
    client = Client(path, deadline=1)
    with pytest.raises(Unavailable, match=str(path)):
        client.list()
    client.close()
    listener.close()


def test_a_restarted_kubelet_is_found_again_at_the_next_call(path: Path) -> None:
    client = Client(path)
    with serving(path, {LIST: lambda: RUNNING}):
        client.list()
    path.touch()
    # However often it failed meanwhile, the next call does not wait for gRPC's own pauses.
    for _ in range(4):
        with pytest.raises(Unavailable):
            client.list()
    path.unlink()
    with serving(path, {LIST: lambda: b""}):
        assert client.list() == b""
    client.close()


def test_no_socket_is_a_normal_answer_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"no socket {tmp_path}/kubelet.sock"):
        Client(tmp_path / "kubelet.sock").list()


def test_the_generated_stubs_are_those_of_the_interface_file(tmp_path: Path) -> None:
    out = tmp_path / "descriptors"
    assert protoc.main(["protoc", f"-I{AGENT}", f"--descriptor_set_out={out}", str(AGENT / PROTO)]) == 0
    from google.protobuf import descriptor_pb2  # noqa: PLC0415

    (written,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    ours = descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb)
    written.name = ours.name
    for one in written.message_type:
        for field in one.field:
            field.ClearField("json_name")
    assert written == ours


def test_nothing_of_grpc_is_loaded_where_there_is_no_kubelet(fixtures: Path) -> None:
    program = (
        "import sys; from numaudit.cli.main import call; "
        f"assert call(['report', '--root', {str(fixtures / 'huge-pages')!r}]) == 0; "
        "print(sorted({'grpc', 'google.protobuf'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
