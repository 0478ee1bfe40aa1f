"""The kubelet's PodResources interface: what each container was given, by the managers' memory.

It knows pods by namespace and name only, and has neither UIDs nor container ids. It lists running
containers of every QoS class, but no init container that ended and no rejected pod.

Source: k8s.io/kubelet/pkg/apis/podresources/v1, pkg/kubelet/apis/podresources.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from numaudit.containermanager.memory.state import Block
from numaudit.errors import ParseError, Unavailable
from numaudit.intent.node import Promise, PromisedDevices, devices_by_nodes
from numaudit.kernel import files
from numaudit.kernel.host import Host, may_exist
from numaudit.kubelet.sources.polled import time_left
from numaudit.topology.nodeset import CpuSet, NodeSet

if TYPE_CHECKING:
    import grpc

    from numaudit.kubelet.proto import podresources_pb2 as pb

NodesOfDevices = Mapping[str, Mapping[str, NodeSet | None]]
"""Resource -> device id -> its NUMA nodes; None = its plugin names none."""

DEADLINE, IN_A_TICK = 10.0, 2.0
"""Seconds for one call; a healthy kubelet answers in milliseconds."""
LARGEST_ANSWER = 16 << 20
"""Bytes. gRPC's own limit of 4 MiB is too small for a large node."""

_IDENTITY_ONLY = 1
_OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    # gRPC unpacks a whole message before it compares its size. No kubelet packs one.
    ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
    ("grpc.per_message_decompression", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    # Else a new connection to the same socket waits out the pause of the one that failed.
    ("grpc.use_local_subchannel_pool", 1),
)


class DynamicResource(Struct, frozen=True):
    """One device of a resource claim. All devices of the claim are listed, also those of other containers' requests."""

    namespace: str
    claim: str
    driver: str
    pool: str
    device: str
    share_id: str | None
    cdi_ids: tuple[str, ...]
    """Of this device, and of those of its driver before it (seen with 1.36)."""


class PodResources(Struct, frozen=True):
    """Memory, CPUs and devices of one pod."""

    namespace: str
    name: str
    containers: Mapping[str, Promise]
    pod: Promise | None = None
    """Of the pod as a whole (newer kubelets); its containers' promises repeat it."""
    claims: Mapping[str, tuple[DynamicResource, ...]] = field(default_factory=dict)
    """Container -> devices of its claims. None listed proves nothing: kubelets before 1.34 list none by default."""


def decode(data: bytes) -> tuple[PodResources, ...]:
    """The pods of an answer to List. Fields unknown here are passed over. Each pod is decoded by itself, which takes
    the least memory. Raises ParseError.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415 (only where there is a kubelet)

    from numaudit.kubelet.proto import podresources_pb2  # noqa: PLC0415

    try:
        encoded = podresources_pb2.ListOfEncodedPods.FromString(data).pod_resources
        return tuple(_pod(podresources_pb2.PodResources.FromString(one)) for one in encoded)
    except DecodeError as error:
        raise ParseError(f"not an answer of the PodResources interface: {error}") from None


def decode_allocatable(data: bytes) -> NodesOfDevices:
    """The healthy devices in an answer of GetAllocatableResources. Raises ParseError, as `decode` does.

    A device whose plugin gives a topology without nodes is not in the answer.
    Source: pkg/kubelet/apis/podresources/server_v1.go, pkg/kubelet/cm/helpers.go.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415 (only where there is a kubelet)

    from numaudit.kubelet.proto import podresources_pb2  # noqa: PLC0415

    try:
        answer = podresources_pb2.AllocatableResourcesResponse.FromString(data)
    except DecodeError as error:
        raise ParseError(f"not an answer of the PodResources interface: {error}") from None
    return _nodes_of_devices(answer.devices, "allocatable devices")


def _pod(pod: pb.PodResources) -> PodResources:
    where = f"pod {pod.namespace}/{pod.name}"
    containers = {
        one.name: Promise(
            memory=_memory(one.memory, where),
            cpus=_cpus(one.cpu_ids, where),
            devices=_devices(one.devices, where),
        )
        for one in pod.containers
    }
    whole = Promise(_memory(pod.memory, where), _cpus(pod.cpu_ids, where)) if pod.memory or pod.cpu_ids else None
    claims = {one.name: _claims(one.dynamic_resources) for one in pod.containers if one.dynamic_resources}
    return PodResources(pod.namespace, pod.name, containers, whole, claims)


def _claims(resources: Iterable[pb.DynamicResource]) -> tuple[DynamicResource, ...]:
    return tuple(
        DynamicResource(
            one.claim_namespace,
            one.claim_name,
            device.driver_name,
            device.pool_name,
            device.device_name,
            device.share_id if device.HasField("share_id") else None,
            tuple(dict.fromkeys(each.name for each in device.cdi_devices)),
        )
        for one in resources
        for device in one.claim_resources
    )


def _memory(blocks: Iterable[pb.ContainerMemory], where: str) -> tuple[Block, ...]:
    return tuple(
        [Block.of(one.memory_type, one.size, _nodes(one.topology, where)) for one in blocks if one.memory_type]
    )


def _devices(devices: Iterable[pb.ContainerDevices], where: str) -> tuple[PromisedDevices, ...]:
    """Those of a resource on the same nodes come together."""
    found = _nodes_of_devices(devices, where)
    return tuple([one for name, nodes_of in found.items() for one in devices_by_nodes(name, nodes_of)])


def _nodes_of_devices(devices: Iterable[pb.ContainerDevices], where: str) -> NodesOfDevices:
    """The kubelet sends one entry for each device, for each of its nodes, or for some devices."""
    found: dict[str, dict[str, NodeSet | None]] = {}
    for one in devices:
        nodes = _nodes(one.topology, where) if one.HasField("topology") and one.topology.nodes else None
        known = found.setdefault(one.resource_name, {})
        for id_ in one.device_ids:
            before = known.get(id_)
            known[id_] = nodes if before is None else before | (nodes or NodeSet())
    return found


def _nodes(topology: pb.TopologyInfo, where: str) -> NodeSet:
    """A missing ID is node 0: protobuf does not send a number's default value."""
    try:
        return NodeSet.from_ids(node.ID for node in topology.nodes)
    except ValueError as error:
        raise ParseError(f"{where}: {error}") from None


def _cpus(ids: Iterable[int], where: str) -> CpuSet:
    try:
        return CpuSet.from_ids(ids)
    except ValueError as error:
        raise ParseError(f"{where}: {error}") from None


def socket(host: Host) -> Path:
    """Path of the socket at which the kubelet of this host answers."""
    return host.kubelet / "pod-resources/kubelet.sock"


@dataclass(slots=True)
class Client:
    """Asks over the Unix socket. After any failure the next call makes a new connection."""

    socket: Path
    deadline: float = DEADLINE
    _channel: grpc.Channel | None = dataclasses.field(default=None, repr=False)

    def list(self, until: float = math.inf) -> bytes:
        """The raw answer to List; none after `until` by the monotonic clock. Raises Unavailable."""
        data = self._call("/v1.PodResourcesLister/List", until)
        if data is None:
            raise Unavailable(f"{self.socket}: the kubelet does not know v1 of the PodResources interface")
        return data

    def allocatable(self, until: float = math.inf) -> bytes | None:
        """The raw answer to GetAllocatableResources; None where the kubelet does not know it. Raises as `list`."""
        return self._call("/v1.PodResourcesLister/GetAllocatableResources", until)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _call(self, method: str, until: float = math.inf) -> bytes | None:
        """The answer as it came; None = unknown method."""
        seconds = time_left(self.deadline, until)
        if not may_exist(self.socket):
            raise Unavailable(f"no socket {self.socket}: the kubelet is not running here, or its root is elsewhere")
        if not files.may_use(self.socket, os.R_OK | os.W_OK):
            raise Unavailable(f"cannot use {self.socket}: Permission denied; run as root")
        import grpc  # noqa: PLC0415 (it takes long to load and is not needed without a kubelet)

        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix:{files.real_path(self.socket)}", options=_OPTIONS)
        call = self._channel.unary_unary(method, bytes, bytes)
        try:
            answer: bytes = call(b"", timeout=seconds)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return None
            self.close()
            raise Unavailable(f"{self.socket}: {_explain(error, seconds)}") from None
        return answer


def _explain(error: grpc.RpcError, deadline: float) -> str:
    name = error.code().name
    if name == "DEADLINE_EXCEEDED":
        return f"no answer within {deadline:.2g} s"
    details = " ".join((error.details() or "").split())
    return f"{name}: {details[:200]}"
