"""The composition root: here sources are built and joined, once per look at the host."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from numaudit.collectors.allocation import Allocation
from numaudit.collectors.allowed import AllowedNodes
from numaudit.collectors.base import Run
from numaudit.collectors.cpu_time import CpuTime
from numaudit.collectors.first_touch import FirstTouch
from numaudit.collectors.hint_faults import HintFaults
from numaudit.collectors.mappings import ProcessMappings
from numaudit.collectors.migrations import KernelBalancing, Migrations
from numaudit.collectors.node import Nodes
from numaudit.collectors.owners import Owners
from numaudit.collectors.probe_accounts import ProbeAccounts
from numaudit.collectors.residency import Residency
from numaudit.collectors.sanity_check import Witness
from numaudit.containers.inventory import Census, Inventory
from numaudit.kernel.cgroup import Hierarchies, Reader, find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.kept_files import KeptFiles
from numaudit.kernel.node import read_machine
from numaudit.kubelet.client import Connection
from numaudit.kubelet.intent_of import Collected
from numaudit.kubelet.kubelet_intent import KubeletIntent
from numaudit.probes.reasons import Reason, Refusal
from numaudit.probes.session import PROBES, Session
from numaudit.snapshot import (
    Allowed,
    Balancing,
    BytesByNode,
    ContainerId,
    Mappings,
    Migrated,
    NodeMemory,
    ProbeAccount,
    Resident,
    Sampled,
    Snapshot,
)
from numaudit.topology.machine import Machine

_NOTHING_ALLOWED: dict[ContainerId, Allowed] = {}
_NOTHING_RESIDENT: tuple[dict[ContainerId, Resident], Resident | None] = ({}, None)
_NO_NODES: tuple[NodeMemory, ...] = ()
_NOTHING_INTENDED: Collected | None = None
_NO_MAPPINGS: dict[ContainerId, Mappings] = {}
_NO_CPU_TIME: Mapping[ContainerId, Mapping[int, float]] | None = None
_NO_ALLOCATION: Mapping[ContainerId, Mapping[tuple[int, int | None], int]] | None = None
_NO_HINT_FAULTS: Mapping[ContainerId, Sampled] | None = None
_NO_FIRST_TOUCH: Mapping[ContainerId, Mapping[tuple[int, int | None], int]] | None = None
_NO_MIGRATIONS: Mapping[ContainerId, Migrated] | None = None
_NO_PROBES: dict[str, ProbeAccount] = {}
_NO_BALANCING: Balancing | None = None
_ROOM_FOR_CGROUPS = 1024
"""BPF maps have room for twice the cgroups that are there, and for this many at least."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Looks at one host. Built once; each `look` is one tick."""

    host: Host
    machine: Machine
    hierarchies: Hierarchies
    inventory: Inventory
    reader: Reader
    files: KeptFiles
    kubelet: KubeletIntent
    owners: Owners = field(default_factory=Owners)
    witness: Witness = field(default_factory=Witness)

    @classmethod
    def of(cls, host: Host, connection: Connection | None = None) -> Observer:
        """Find out what this host has. Raises Unavailable when it shows no nodes or no cgroups."""
        machine = read_machine(host)
        hierarchies = find_hierarchies(host)
        files = KeptFiles()
        reader = Reader(hierarchies, page_size=machine.page_size, read=files.read)
        kubelet = KubeletIntent.of(host, connection or Connection())
        return cls(host, machine, hierarchies, Inventory(host, hierarchies), reader, files, kubelet)

    def open_probes(self, probes: Collection[str] = PROBES) -> Session:
        """Load BPF programs, each as far as this host lets it. The session is the caller's to close.

        Where memory is counted by cgroup v1 nothing could be told apart, so nothing is loaded.
        """
        if self.host.is_live and not self.hierarchies.is_v2:
            text = f"cgroup {self.hierarchies.mode}: memory is counted by cgroup v1, which BPF programs do not see"
            return Session.refused(Refusal(Reason.CGROUP_V1, text))
        cgroups = sum(len(groups) for groups in self.inventory.take().groups.values())
        room = max(_ROOM_FOR_CGROUPS, 2 * cgroups)
        return Session.open(self.host, cgroups=room, nodes=len(self.machine.nodes), probes=probes)

    def look(self, mappings_budget: float | None = None, session: Session | None = None) -> Snapshot:
        """Measure everything once. numa_maps is read only with a budget (seconds), BPF programs only with a session."""
        run = Run()
        empty = Census((), {}, {"/": ()})
        census = run("cgroups", lambda _: self.inventory.take(), empty)
        if session is not None and self.hierarchies.is_v2 and census.containers:
            # Right after the walk, so that hardly any cgroup can have come in between.
            self.owners.follow(census)
            run("bpf clean-up", lambda _: session.forget_all_but(self.owners.cgroups()), 0)
        allowed = run("allowed", partial(AllowedNodes(self.host, self.reader).collect, census), _NOTHING_ALLOWED)
        nodes = run("node", lambda _: Nodes(self.host, self.machine).collect(), _NO_NODES)
        reader = replace(self.reader, huge_page_sizes=_huge_page_sizes(nodes))
        resident, unattributed = run("residency", partial(Residency(reader).collect, census), _NOTHING_RESIDENT)
        # After the census: whatever had a cgroup then was promised its memory before.
        intended = run("intent", lambda _: self.kubelet.collect(census.containers), _NOTHING_INTENDED)
        # Hint faults that we count ourselves tell more of each container, for less.
        by_container = session is None or isinstance(session.hint_faults, Refusal)
        kernels_own = KernelBalancing(self.host, self.reader, by_container)
        balancing = run("numa_balancing", partial(kernels_own.collect, census), _NO_BALANCING)
        cpu_seconds, allocated = _NO_CPU_TIME, _NO_ALLOCATION
        hint_faults, migrated, first_touch = _NO_HINT_FAULTS, _NO_MIGRATIONS, _NO_FIRST_TOUCH
        probes = _NO_PROBES
        if session is not None:
            cpu_seconds = run("cpu_time", CpuTime(session, self.hierarchies, self.owners).collect, _NO_CPU_TIME)
            allocation = Allocation(session, self.hierarchies, self.owners)
            allocated = run("page_alloc", allocation.collect, _NO_ALLOCATION)
            sampling = HintFaults(self.host, self.machine, session, self.reader, self.owners, self.witness)
            hint_faults = run("hint_faults", partial(sampling.collect, census), _NO_HINT_FAULTS)
            if session.was_asked_for("first_touch"):
                touching = FirstTouch(session, self.hierarchies, self.owners)
                first_touch = run("first_touch", touching.collect, _NO_FIRST_TOUCH)
            migrations = Migrations(session, self.reader, self.owners)
            migrated = run("migrations", migrations.collect, _NO_MIGRATIONS)
            probes = run("bpf account", ProbeAccounts(self.host, session).collect, _NO_PROBES)
        mappings: dict[ContainerId, Mappings] = {}
        if mappings_budget is not None:
            mappings, hugetlb = self._mappings(run, census, resident, mappings_budget)
            if unattributed is not None and unattributed.hugetlb is None:
                unattributed = msgspec.structs.replace(unattributed, hugetlb=hugetlb)
        self.files.end_look()
        return Snapshot(
            taken_at=time.time(),
            machine=self.machine,
            cgroup_mode=self.hierarchies.mode,
            containers=census.containers if intended is None else intended.containers,
            allowed=allowed,
            resident=resident,
            mappings=mappings,
            nodes=nodes,
            unattributed=unattributed,
            cpu_seconds=cpu_seconds,
            allocated_bytes=allocated,
            hint_faults=hint_faults,
            migrated=migrated,
            probes=probes,
            first_touch=first_touch,
            balancing=balancing,
            intent=None if intended is None else intended.intent,
            outcomes=tuple(run.outcomes),
        )

    def _mappings(
        self, run: Run, census: Census, resident: dict[ContainerId, Resident], budget: float
    ) -> tuple[dict[ContainerId, Mappings], BytesByNode | None]:
        maps = ProcessMappings(self.host, self.reader, budget)
        judged = {id_: sum(bytes_.judged.values()) for id_, bytes_ in resident.items()}
        order = sorted(judged, key=lambda id_: judged[id_], reverse=True)
        found = run("numa_maps", partial(maps.collect, census, order), _NO_MAPPINGS)
        hugetlb = run("numa_maps of the root cgroup", maps.unattributed_hugetlb, None)
        return found, hugetlb


def _huge_page_sizes(nodes: Sequence[NodeMemory]) -> tuple[int, ...]:
    """The sizes of which there are pages now; they can be reserved and given back at any time."""
    return tuple(sorted({pages.page_size for node in nodes for pages in node.huge_pages if pages.total}))
