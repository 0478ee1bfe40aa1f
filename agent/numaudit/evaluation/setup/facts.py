"""How one node is set up, as facts that should be the same on all nodes of a pool. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from numaudit.encoding.value import Value
from numaudit.ranks.declaration import HeldDevice
from numaudit.snapshot import Snapshot
from numaudit.snapshot.host_settings import HostSettings
from numaudit.topology.machine import HugePages, Machine
from numaudit.topology.quantity import in_units

KUBELET, KERNEL = "kubelet version", "kernel"
MEMORY, RESERVED = "memory", "reservedMemory"
SOCKETS, PARAMETERS, HUGE_PAGES_MODE = "sockets", "kernel parameters", "transparent_hugepage"
_RESERVED_PAGES = "reserved huge pages"
_NONE = "none"


class SetupFact(Value, frozen=True):
    """One setting, or one property of the machine."""

    name: str
    """A field of the KubeletConfiguration, a sysctl, or words."""
    value: str | int | None
    """Its value, a number of bytes or text; null = not known."""
    numa_node: int | None = None
    """The NUMA node that it is about; null = the whole machine."""


class SetupLabels(NamedTuple):
    """What has a series; empty = not known."""

    kernel: str = ""
    sockets: str = ""
    numa_balancing: str = ""
    transparent_hugepage: str = ""
    zone_reclaim: str = ""
    kernel_parameters: str = ""


def facts_of(snapshot: Snapshot) -> tuple[SetupFact, ...]:
    """The facts of a node. A node of the machine that is not there has none, which `NUMA nodes` says."""
    settings = snapshot.settings or HostSettings()
    machine = snapshot.machine
    return (
        *_kubelet(snapshot),
        SetupFact("NUMA nodes", str(machine.online)),
        SetupFact(SOCKETS, _sockets(machine)),
        *_by_node(snapshot, settings),
        *_kernel(settings),
    )


def labels_of(facts: Sequence[SetupFact]) -> SetupLabels:
    """Those of the machine as a whole that have a series."""
    known = {one.name: str(one.value) for one in facts if one.numa_node is None and one.value is not None}
    names = (KERNEL, SOCKETS, "kernel.numa_balancing", HUGE_PAGES_MODE, "vm.zone_reclaim_mode", PARAMETERS)
    return SetupLabels(*(known.get(name, "") for name in names))


def _kubelet(snapshot: Snapshot) -> Iterator[SetupFact]:
    if snapshot.intent is None:
        return
    config = snapshot.intent.config
    yield SetupFact(KUBELET, config.version)
    yield SetupFact("memoryManagerPolicy", config.memory_manager_policy)
    yield SetupFact("cpuManagerPolicy", config.cpu_manager_policy)
    yield SetupFact("topologyManagerPolicy", config.topology_manager_policy)
    yield SetupFact("topologyManagerScope", config.topology_manager_scope)
    is_known = config.document is not None
    for name, options in (
        ("topologyManagerPolicyOptions", config.topology_manager_options),
        ("cpuManagerPolicyOptions", config.cpu_manager_options),
    ):
        yield SetupFact(name, _options(options) if is_known else None)


def _options(options: Mapping[str, str] | None) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted((options or {}).items())) or _NONE


def _sockets(machine: Machine) -> str | None:
    found = {cpu.socket for cpu in machine.cpus}
    return None if None in found or not found else str(len(found))


def _by_node(snapshot: Snapshot, settings: HostSettings) -> Iterator[SetupFact]:
    machine, devices = snapshot.machine, settings.devices
    for node in machine.nodes:
        yield SetupFact(MEMORY, node.memory, node.id)
        yield from _reserved(snapshot, node.id)
        distances = " ".join(str(value) for _, value in sorted(node.distances.items()))
        yield SetupFact("distances", distances or None, node.id)
        tier = machine.tier_of(node.id)
        yield SetupFact("memory tier", None if tier is None else str(tier), node.id)
        yield SetupFact("huge pages", _pools(node.huge_pages), node.id)
        yield SetupFact("devices", _counts(devices, node.id), node.id)
    yield SetupFact("devices without a node", _counts(devices, None))


def _reserved(snapshot: Snapshot, node: int) -> Iterator[SetupFact]:
    """By the Memory Manager's map; not known where there is none."""
    intent = snapshot.intent
    if intent is None:
        return
    found = (intent.machine or {}).get(node)
    if found is None:
        yield from (SetupFact(name, None, node) for name in (RESERVED, _RESERVED_PAGES))
        return
    sizes = {type_: table.system_reserved for type_, table in sorted(found.memory_map.items())}
    yield SetupFact(RESERVED, sizes.pop(MEMORY, None), node)
    pages = ", ".join(f"{type_} {in_units(size)}" for type_, size in sizes.items() if size)
    yield SetupFact(_RESERVED_PAGES, pages or _NONE, node)


def _pools(pools: Sequence[HugePages]) -> str:
    """Those that somebody asked for; surplus pages come and go."""
    sizes = ((one.page_size, one.total - (one.surplus or 0)) for one in pools)
    return ", ".join(f"{count} of {in_units(size)}" for size, count in sizes if count) or _NONE


def _counts(devices: Sequence[HeldDevice] | None, node: int | None) -> str | None:
    if devices is None:
        return None
    kinds = Counter(one.kind for one in devices if one.numa_node == node)
    return ", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds)) or _NONE


def _kernel(settings: HostSettings) -> Iterator[SetupFact]:
    words = settings.command_line
    yield SetupFact(KERNEL, settings.release)
    yield SetupFact(PARAMETERS, None if words is None else " ".join(words) or _NONE)
    for name, value in sorted(settings.sysctls.items()):
        yield SetupFact(name, str(value))
    yield SetupFact(HUGE_PAGES_MODE, settings.huge_pages)
    yield SetupFact(f"{HUGE_PAGES_MODE} defrag", settings.defrag)
