"""Declarations of the processes of the containers that were asked for, and the devices that they have open.

Command lines and environments are read one at a time; what the table of launchers does not know is dropped at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.errors import Unavailable, printable
from numaudit.kernel import started_with, tasks
from numaudit.kernel.devices.descriptors import HeldDevices
from numaudit.kernel.host import Host, explain
from numaudit.kernel.memory import maps
from numaudit.ranks.declaration import CommandLine, HeldDevice, Placeable, ProcessTold, Runtimes, Told
from numaudit.ranks.table import RUNTIME_KEYS, declarations, environment_in, given_in, runtimes_in
from numaudit.snapshot import Allowed, Container, Snapshot
from numaudit.snapshot.processes import ContainerProcesses
from numaudit.topology.nodeset import CpuSet, NodeSet

_MOST_ANCESTORS = 32


class DeclaredCollector(Collector):
    name = "declared"

    def is_due(self, tick: TickInputs) -> bool:
        return tick.with_processes and tick.mappings_budget is not None

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Of every process in the snapshot."""
        assert tick.mappings_budget is not None
        if snapshot.machine.cpu_problem is not None:
            raise Unavailable(f"what processes were told cannot be judged: {snapshot.machine.cpu_problem}")
        reader = DeclarationReader(tick.host, monotonic() + tick.mappings_budget, HeldDevices(tick.host), skipped)
        told = {}
        for one in snapshot.containers:
            processes = snapshot.processes.get(one.id)
            if processes is not None:
                here = placeable(snapshot, snapshot.allowed.get(one.id))
                told[one.id] = reader.container(one, processes, here)
        return replace(snapshot, told=told)


def placeable(snapshot: Snapshot, allowed: Allowed | None) -> Placeable:
    """By the cpuset of a container, or by the machine where that is not known."""
    machine = snapshot.machine
    with_memory = NodeSet.from_ids(node.id for node in machine.nodes if node.memory != 0)
    nodes = with_memory if allowed is None or allowed.nodes is None else allowed.nodes & with_memory
    cpus_of = {node.id: node.cpus or CpuSet() for node in machine.nodes}
    cpus = None if allowed is None else allowed.cpus
    here = Placeable(cpus_of, nodes, CpuSet() if cpus is None else cpus)
    return here if here.cpus else replace(here, cpus=here.cpus_on(NodeSet.from_ids(cpus_of)))


class DeclarationReader(Struct):
    """Reads until a deadline: a command line may be made so that it takes long to understand."""

    host: Host
    deadline: float
    devices: HeldDevices
    skipped: SkippedItems
    _given: dict[int, CommandLine] = field(default_factory=dict)
    _runtimes: dict[int, Runtimes | str] = field(default_factory=dict)
    _variables: dict[int, tuple[Mapping[str, str], str | None]] = field(default_factory=dict)

    def as_a_whole(self, one: Container) -> Told:
        """The declarations of its unit and its runtime."""
        return Told(
            unit=started_with.unit_settings(self.host, one.path.rpartition("/")[2]) if one.kind == "service" else {},
            runtime=started_with.runtime_policy(self.host, one.container_id) if one.container_id else {},
        )

    def container(self, one: Container, found: ContainerProcesses, here: Placeable) -> dict[int, ProcessTold]:
        """By process."""
        as_a_whole = self.as_a_whole(one)
        parents = {process.pid: process.parent for process in found.processes}
        told: dict[int, ProcessTold] = {}
        for process in found.processes:
            if monotonic() > self.deadline:
                self.skipped.lose(len(found.processes) - len(told), "the time for command lines ran out")
                break
            try:
                told[process.pid] = self.process(process.pid, parents, as_a_whole, here)
            except OSError as error:
                self.skipped.count(error)
        return told

    def process(self, pid: int, parents: Mapping[int, int | None], as_a_whole: Told, here: Placeable) -> ProcessTold:
        """Raises OSError when it has ended."""
        _, unread = self._variables_of(pid)
        told = self.told(pid, parents, as_a_whole)
        found = declarations(told, here)
        devices: tuple[HeldDevice, ...] = ()
        if found or told.rank is not None:
            try:
                devices = self.devices.of(pid)
            except PermissionError as error:
                unread = unread or printable(explain(error))
            except FileNotFoundError:
                if self.host.is_live:
                    raise
                unread = unread or "the capture has none of its open devices"
        return ProcessTold(pid, told.rank, found, devices, unread)

    def read(self, pid: int) -> str | None:
        """Its command line and environment, once. The reason why the latter may not be read. Raises OSError."""
        self._given_to(pid)
        return self._variables_of(pid)[1]

    def told(self, pid: int, parents: Mapping[int, int | None], as_a_whole: Told) -> Told:
        """All that it and its ancestors were started with. Raises OSError when it has ended."""
        environment, _ = self._variables_of(pid)
        own = self._given_to(pid)
        return replace(
            as_a_whole,
            own=own,
            ancestors=self._ancestors(pid, parents),
            environment=environment,
            runtimes=self._runtimes_of(pid, environment),
        )

    def _runtimes_of(self, pid: int, environment: Mapping[str, str]) -> Runtimes | str:
        """Those of a process with variables for one. Raises OSError when it has ended."""
        if RUNTIME_KEYS.isdisjoint(environment):
            return Runtimes(frozenset(), 0)
        if pid not in self._runtimes:
            try:
                loaded = runtimes_in(maps.read_libraries(self.host, pid))
                self._runtimes[pid] = Runtimes(loaded, len(tasks.thread_ids(self.host, pid)))
            except PermissionError as error:
                self._runtimes[pid] = printable(explain(error))
        return self._runtimes[pid]

    def _variables_of(self, pid: int) -> tuple[Mapping[str, str], str | None]:
        """And why they were not read."""
        if pid not in self._variables:
            self._variables[pid] = self._environment(pid)
        return self._variables[pid]

    def _environment(self, pid: int) -> tuple[Mapping[str, str], str | None]:
        try:
            return environment_in(started_with.environment(self.host, pid)), None
        except (FileNotFoundError, ProcessLookupError):
            if self.host.is_live:
                raise
            return {}, "a capture keeps no environment"
        except OSError as error:
            return {}, printable(explain(error))

    def _ancestors(self, pid: int, parents: Mapping[int, int | None]) -> tuple[CommandLine, ...]:
        """Those in the same container, the nearest first."""
        found: list[CommandLine] = []
        parent = parents.get(pid)
        while parent is not None and parent in parents and len(found) < _MOST_ANCESTORS:
            try:
                found.append(self._given_to(parent))
            except OSError:
                break
            parent = parents[parent]
        return tuple(found)

    def _given_to(self, pid: int) -> CommandLine:
        if pid not in self._given:
            self._given[pid] = given_in(self._command_line(pid), started_with.program(self.host, pid))
        return self._given[pid]

    def _command_line(self, pid: int) -> bytes:
        try:
            return started_with.command_line(self.host, pid)
        except FileNotFoundError:
            if self.host.is_live:
                raise
            tasks.read_main_task(self.host, pid)  # (raises where nothing of it was captured, as of one that ended)
            return b""
