"""PCI devices of containers, with their nodes and interrupts, within a time budget.

Descriptors are many, so no ordinary tick reads them. One that is asked to does, and what it found stays until the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, DeviceRequest, SkippedItems, TickInputs
from numaudit.engine.collectors.containers.mappings import HIDDEN, processes_of
from numaudit.errors import ParseError, Unavailable, printable
from numaudit.intent.node import Intent
from numaudit.kernel import files
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.devices import device_cgroup, network
from numaudit.kernel.devices.descriptors import HeldDevices
from numaudit.kernel.devices.pci import InterruptReader, PciDevices
from numaudit.kernel.host import Host, explain
from numaudit.ranks.declaration import HeldDevice
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.processes import ContainerDevice, ContainerDevices, HeldBy, UnreadDevices
from numaudit.topology.machine import Machine
from numaudit.topology.quantity import plural

_MOST_PROCESSES = 1024
"""Processes of one container whose descriptors are read."""
_INIT = 1
_NO_RIGHT = "CAP_SYS_ADMIN is missing"


@dataclass(slots=True)
class DevicesCollector(Collector):
    name = "devices"
    _known: dict[ContainerId, ContainerDevices] = dataclasses.field(default_factory=dict)
    _turns: dict[ContainerId, int] = dataclasses.field(default_factory=dict)
    """The number of the turn in which each was read last."""
    _turn: int = 0
    _was_asked: bool = False

    def is_due(self, tick: TickInputs) -> bool:
        self._was_asked |= tick.devices is not None
        return self._was_asked

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Those of the containers asked for; those read longest ago come first, so all have their turn."""
        known = {id_: one for id_, one in self._known.items() if id_ in tick.census.groups}
        if tick.devices is not None and files.is_folder(tick.host.sys / "bus/pci/devices"):
            known |= self._read(tick, tick.devices, snapshot.intent, skipped)
        self._known = known
        return replace(snapshot, devices=self._known)

    def _read(
        self, tick: TickInputs, asked: DeviceRequest, intent: Intent | None, skipped: SkippedItems
    ) -> dict[ContainerId, ContainerDevices]:
        """Until the time runs out."""
        of = _promised(intent) if asked.of is None else asked.of
        groups, turns = tick.census.groups, self._turns
        order = sorted((id_ for id_ in groups if id_ in of), key=lambda id_: turns.get(id_, 0))
        deadline = monotonic() + asked.seconds
        reader = _Reader(tick.host, tick.machine, tick.reader.hierarchies, deadline)
        found: dict[ContainerId, ContainerDevices] = {}
        for id_ in order:
            if monotonic() > deadline:
                skipped.note(f"the time for devices ran out after {len(found)} of {plural(len(order), 'container')}")
                break
            pids = processes_of(tick.reader, groups[id_], skipped)
            found[id_] = reader.container(pids, tick.census.folder(id_), _plugin_ids(intent, id_))
            self._turn += 1
            turns[id_] = self._turn
        self._turns = {id_: turn for id_, turn in turns.items() if id_ in groups}
        return found


def _promised(intent: Intent | None) -> frozenset[ContainerId]:
    """Containers to which memory, CPUs or devices were promised."""
    if intent is None:
        return frozenset()
    promises = ((id_, one.promise) for id_, one in intent.by_cgroup.items())
    return frozenset(ContainerId(id_) for id_, one in promises if one.memory_nodes or one.cpus or one.devices)


def _plugin_ids(intent: Intent | None, id_: ContainerId) -> Iterable[str]:
    of = None if intent is None else intent.by_cgroup.get(id_)
    return () if of is None else (name for one in of.promise.devices or () for name in one.ids)


class _Found(Struct):
    """Ways to the devices of one container."""

    by: dict[str, tuple[HeldDevice, list[HeldBy]]] = field(default_factory=dict)
    interfaces: dict[str, list[str]] = field(default_factory=dict)
    unread: dict[HeldBy, str] = field(default_factory=dict)

    def add(self, device: HeldDevice, by: HeldBy) -> None:
        ways = self.by.setdefault(device.address, (device, []))[1]
        if by not in ways:
            ways.append(by)

    def follow(self, by: HeldBy, way: Callable[[], None]) -> None:
        """A process that has just ended leads nowhere; why another way could not be followed is kept."""
        try:
            way()
        except (FileNotFoundError, ProcessLookupError):
            return
        except PermissionError as error:
            self.unread.setdefault(by, printable(_NO_RIGHT if error.filename is None else explain(error)))
        except (OSError, ParseError, Unavailable) as error:
            self.unread.setdefault(by, printable(explain(error)))


class _Reader:
    """Of one tick."""

    def __init__(self, host: Host, machine: Machine, hierarchies: Hierarchies, deadline: float) -> None:
        self._host, self._hierarchies, self._deadline = host, hierarchies, deadline
        self._pci = PciDevices(host)
        self._held = HeldDevices(host, self._pci)
        self._interrupts = InterruptReader(host, machine)
        self._namespaces: dict[int, tuple[network.Interface, ...]] = {}

    def container(self, pids: Sequence[int], group: str, plugin_ids: Iterable[str]) -> ContainerDevices:
        """`group`: the folder of its cgroup. `plugin_ids`: names of its devices by their plugins."""
        found = _Found()
        if 0 in pids:
            found.unread["descriptor"] = HIDDEN
        for position, pid in enumerate(filter(None, pids)):
            if position == _MOST_PROCESSES or monotonic() > self._deadline:
                missing = f"{len(pids) - position} of its {len(pids)} processes"
                found.unread["descriptor"] = f"{missing} were not read: there are too many for the time"
                break
            found.follow("descriptor", lambda pid=pid: self._open(pid, found))  # type: ignore[misc]
            found.follow("network-namespace", lambda pid=pid: self._network(pid, found))  # type: ignore[misc]
        found.follow("device-list", lambda: self._listed(group, found))
        items = (self._item(*one, found.interfaces.get(address, ())) for address, one in sorted(found.by.items()))
        unread = tuple(UnreadDevices(what, reason) for what, reason in found.unread.items())
        return ContainerDevices(tuple(items), unread, self._promised(plugin_ids))

    def _open(self, pid: int, found: _Found) -> None:
        for device in self._held.of(pid):
            found.add(device, "descriptor")

    def _network(self, pid: int, found: _Found) -> None:
        """The interfaces of devices in its network namespace, unless that is the host's."""
        if self._host.is_live and not self._pci.missing_adapters:
            return
        number = network.namespace(self._host, pid)
        if number == network.namespace(self._host, _INIT):
            return
        if number not in self._namespaces:
            self._namespaces[number] = network.interfaces(self._host, pid, number)
        for interface in self._namespaces[number]:
            device = self._pci.of_interface(interface.bus, interface.device)
            if device is not None:
                found.add(device, "network-namespace")
                names = found.interfaces.setdefault(device.address, [])
                if interface.name not in names:
                    names.append(interface.name)

    def _listed(self, group: str, found: _Found) -> None:
        files = device_cgroup.allowed(self._host, self._hierarchies, group, lambda: self._pci.files)
        for file in files or ():
            for device in self._pci.of_file(file):
                found.add(device, "device-list")

    def _item(self, device: HeldDevice, by: Sequence[HeldBy], interfaces: Sequence[str]) -> ContainerDevice:
        interrupts = self._interrupts.of(device.address)
        return ContainerDevice(
            device.kind, device.address, device.numa_node, tuple(by), tuple(sorted(interfaces)), interrupts
        )

    def _promised(self, ids: Iterable[str]) -> Mapping[str, HeldDevice]:
        known = {id_: self._pci.of_id(id_) for id_ in ids}
        return {id_: one for id_, one in known.items() if one is not None}
