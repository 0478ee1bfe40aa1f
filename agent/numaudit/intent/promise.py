"""Values of what the kubelet's managers and DRA drivers promised."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from numaudit.topology.nodeset import CpuSet, NodeSet

if TYPE_CHECKING:
    from numaudit.containermanager.memory.state import Block


class PromisedDevices(Struct, frozen=True):
    """Devices of one resource that are on the same nodes."""

    resource: str
    ids: tuple[str, ...]
    nodes: NodeSet | None
    """None = the plugin names no node."""


def devices_by_nodes(resource: str, nodes: Mapping[str, NodeSet | None]) -> tuple[PromisedDevices, ...]:
    """The devices of one resource (id -> its nodes), those on the same nodes together."""
    ids: dict[NodeSet | None, list[str]] = {}
    for id_ in sorted(nodes):
        ids.setdefault(nodes[id_], []).append(id_)
    return tuple([PromisedDevices(resource, tuple(found), on) for on, found in ids.items()])


class Promise(Struct, frozen=True, dict=True):
    """Memory, CPUs and devices that the kubelet's managers gave to one container, or to a pod as a whole."""

    memory: tuple[Block, ...] | None = None
    """A block has no split over its nodes."""
    cpus: CpuSet | None = None
    """Exclusive CPUs; the empty set = it runs on the shared pool."""
    devices: tuple[PromisedDevices, ...] | None = None

    @cached_property
    def memory_nodes(self) -> NodeSet | None:
        """The nodes of all blocks, as the kubelet writes them to cpuset.mems; empty = nothing was promised."""
        if self.memory is None:
            return None
        return NodeSet.from_ids(node for block in self.memory for node in block.numa_affinity or ())

    @cached_property
    def huge_pages(self) -> Mapping[str, tuple[int, NodeSet]]:
        """Resource (hugepages-2Mi) -> promised bytes, and their nodes. A promise of none is left out."""
        found: dict[str, tuple[int, NodeSet]] = {}
        for block in self.memory or ():
            if block.type != "memory" and block.size:
                size, nodes = found.get(block.type, (0, NodeSet()))
                found[block.type] = size + block.size, nodes | NodeSet.from_ids(block.numa_affinity or ())
        return found

    @cached_property
    def device_nodes(self) -> NodeSet | None:
        """The nodes of the devices that name one."""
        if self.devices is None:
            return None
        return NodeSet.from_ids(node for one in self.devices for node in one.nodes or ())


class ClaimPromise(Struct, frozen=True):
    """The promise of one DRA driver for one resource claim to one container."""

    namespace: str
    name: str
    uid: str | None
    driver: str | None
    """None = not known."""
    devices: tuple[str, ...] = ()
    """`pool/device` each."""
    cpus: CpuSet | None = None
    """Exclusive CPUs; None = it promises none, or that is not known."""
    memory: tuple[Block, ...] = ()
    """Memory and huge pages. A block of no bytes names nodes whose bytes the driver does not say."""
    device_files: tuple[str, ...] = ()
    """Paths of device files that the container gets."""
    places: bool = False
    """Is its driver known to promise CPUs or memory, or not known at all, because nothing says which it is?"""
    problem: str | None = None
    """Reason why its promise is not known; None = it is."""

    @property
    def memory_nodes(self) -> NodeSet:
        return NodeSet.from_ids(node for block in self.memory for node in block.numa_affinity or ())

    @property
    def in_words(self) -> str:
        return f"claim {self.namespace}/{self.name}" + (f" ({self.driver})" if self.driver else "")
