"""The composition root: here sources are built and joined, once per tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.containers.inventory import Census, Inventory
from numaudit.engine.collectors.base import CollectorRun, DeviceRequest, TickInputs
from numaudit.engine.collectors.containers.owners import Owners
from numaudit.engine.collectors.table import Collectors
from numaudit.kernel.cgroup import Hierarchies, Reader, find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.node import MachineNow
from numaudit.kernel.open_file_cache import OpenFileCache
from numaudit.kernel.origin import origin_of
from numaudit.snapshot import ContainerId, Snapshot

if TYPE_CHECKING:  # the probes' modules are imported with the first probe
    from numaudit.probes.probe import ProbeKind
    from numaudit.probes.session import ProbeReadings, Session

_LEAST_CAPACITY = 1024
"""BPF maps hold twice as many cgroups as there are, and at least this many."""
_LEAST_PAIRS = 4096
"""And at least this many pairs of a cgroup and a node: those that come and go within a tick have one or two each."""


class Observer(Struct, frozen=True):
    """Observes one host. Built once; each `observe` is one tick."""

    host: Host
    machine: MachineNow
    hierarchies: Hierarchies
    inventory: Inventory
    reader: Reader
    files: OpenFileCache
    collectors: Collectors
    owners: Owners = field(default_factory=Owners)

    @classmethod
    def of(cls, host: Host) -> Observer:
        """Find out what this host has. Raises Unavailable when it shows no nodes or no cgroups."""
        machine = MachineNow.of(host)
        hierarchies = find_hierarchies(host)
        files = OpenFileCache()
        reader = Reader(hierarchies, page_size=machine.read().page_size, read=files.read)
        inventory = Inventory(host, hierarchies)
        return cls(host, machine, hierarchies, inventory, reader, files, Collectors(host))

    def open_probes(self, kinds: Collection[ProbeKind[Any]] | None = None) -> Session:
        """Load probes, each as far as this host lets it. The session is the caller's to close.

        Where memory is counted by cgroup v1 no two containers could be kept apart, so nothing is loaded.
        """
        from numaudit.probes.kinds import KINDS  # noqa: PLC0415 (takes long)

        return self.probe_loader(KINDS if kinds is None else kinds)()

    def probe_loader(self, kinds: Collection[ProbeKind[Any]]) -> Callable[[], Session]:
        """Return a function that loads these probes, in any thread, sized for the present cgroups."""
        from numaudit.probes.reasons import ProbeRefusal, Reason  # noqa: PLC0415 (takes long)
        from numaudit.probes.session import Session  # noqa: PLC0415

        if self.host.is_live and not self.hierarchies.is_v2:
            text = f"cgroup {self.hierarchies.mode}: memory is counted by cgroup v1, which BPF programs do not see"
            return partial(Session.refused, kinds, ProbeRefusal(Reason.CGROUP_V1, text))
        cgroups = sum(len(groups) for groups in self.inventory.take().groups.values())
        nodes = len(self.machine.read().nodes)
        capacity = max(_LEAST_CAPACITY, _LEAST_PAIRS // nodes, 2 * cgroups)
        return partial(Session.open, self.host, kinds, cgroups=capacity, nodes=nodes)

    def observe(
        self,
        mappings_budget: float | None = None,
        readings: ProbeReadings | None = None,
        mappings_of: frozenset[ContainerId] | None = None,
        with_processes: bool = False,
        devices: DeviceRequest | None = None,
    ) -> Snapshot:
        """Measure everything once. numa_maps is read only with a budget (seconds), probes only with `readings`.

        `mappings_of`: the containers of which numa_maps is read; None = all of them. `with_processes`: the threads of
        these containers' processes are read, too; without a budget only their CPU times, which the next tick needs.
        `devices`: the containers whose PCI devices are read now; of others those stay that were read before.
        """
        run = CollectorRun()
        counted: set[int] = set()
        if readings is not None and self.hierarchies.is_v2:
            # Before the walk: what is counted by then and not found by the walk has ended.
            counted = run("bpf cgroups", lambda _: readings.session.cgroups(), counted)
        machine = self.machine.read()
        census = run("cgroups", lambda _: self.inventory.take(), Census((), {}, {"/": ()}))
        is_followed = readings is not None and self.hierarchies.is_v2 and bool(census.containers)
        if is_followed:
            self.owners.follow(census, counted)
        tick = TickInputs(
            self.host,
            machine,
            self.reader,
            census,
            self.owners,
            readings,
            mappings_budget,
            mappings_of,
            devices,
            with_processes,
        )
        hierarchies = self.hierarchies
        snapshot = Snapshot(0.0, machine, hierarchies.mode, census.containers, hierarchies.is_whole)
        for one in self.collectors.due(tick):
            snapshot = run(one.name, partial(one.collect, tick, snapshot), snapshot)
        if readings is not None and is_followed:
            run("bpf clean-up", lambda _: readings.forget(self.owners.ended()), 0)
        self.files.end_tick()
        taken_at = origin_of(self.host).taken_at or time.time()
        return replace(snapshot, taken_at=taken_at, outcomes=tuple(run.outcomes))
