"""Which pages and tasks were moved between nodes, and why?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from numaudit.collectors.base import Skipped, require_v2
from numaudit.collectors.owners import Owners
from numaudit.containers.inventory import Census
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Reader
from numaudit.kernel.host import Host
from numaudit.kernel.numa_balancing import parse, read_mode, read_vmstat
from numaudit.probes.reasons import Refusal
from numaudit.probes.session import Session
from numaudit.snapshot import Balancing, ContainerId, Migrated, MigratedPages

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Migrations:
    """Reads the probe's migrations and adds up each container's cgroups."""

    session: Session
    reader: Reader
    owners: Owners

    def collect(self, skipped: Skipped) -> dict[ContainerId, Migrated]:
        """Migrations that each container's tasks carried out. Raises Unavailable when the probe does not run."""
        require_v2(self.reader.hierarchies)
        read = self.session.read_migrations()
        lost = read.dropped + read.missed
        if lost:
            skipped.lose(lost, "migrations were not counted: a map was full, or another BPF program was running")
        succeeded = self.owners.add_up("migrations succeeded", read.succeeded)
        failed = self.owners.add_up("migrations failed", read.failed)
        tasks = self.owners.add_up("task moves", read.tasks)
        moved = self.owners.add_up("migrations between nodes succeeded", read.succeeded_between)
        stayed = self.owners.add_up("migrations between nodes failed", read.failed_between)
        refused = self._nodes_refused()
        if refused is not None:
            skipped.note(f"without the nodes that pages were moved between: {refused.text}")
        return {
            owner: Migrated(
                _pages(succeeded.get(owner, {}), failed.get(owner, {})),
                tasks.get(owner, {}),
                _pages(moved.get(owner, {}), stayed.get(owner, {})) if refused is None else None,
            )
            for owner in (succeeded | tasks)
        }

    def _nodes_refused(self) -> Refusal | None:
        probe = self.session.migrations
        return None if isinstance(probe, Refusal) else probe.nodes_refused


@dataclass(frozen=True, slots=True)
class KernelBalancing:
    """Reads the kernel's own counters of NUMA balancing, which need no BPF program."""

    host: Host
    reader: Reader
    by_container: bool = True
    """Read memory.stat of every container too; some 20 us each."""

    def collect(self, census: Census, skipped: Skipped) -> Balancing:
        """Of the host, and of each container where the kernel shows them.

        Raises Unavailable when the kernel has no NUMA balancing, OSError when /proc/vmstat cannot be read.
        """
        mode = read_mode(self.host)
        if mode is None:
            raise Unavailable("this kernel has no NUMA balancing (CONFIG_NUMA_BALANCING)")
        by_container: dict[ContainerId, dict[str, int]] = {}
        if self.by_container and mode.flags and self._root_is_shown():
            for container in census.containers:
                if container.whole:
                    try:
                        by_container[container.id] = self._read(container.path)
                    except (OSError, ValueError) as error:
                        skipped.count(error)
        return Balancing(read_vmstat(self.host), by_container)

    def _root_is_shown(self) -> bool:
        """Has this kernel the counters in memory.stat at all? The root cgroup is the quickest to ask."""
        try:
            return self.reader.hierarchies.is_v2 and bool(self._read(""))
        except FileNotFoundError:
            return False

    def _read(self, path: str) -> dict[str, int]:
        text = self.reader.read(f"{self.reader.hierarchies.memory}{path}/memory.stat")
        return parse(text.decode("ascii", "replace"))


def _pages(succeeded: Mapping[Key, int], failed: Mapping[Key, int]) -> dict[Key, MigratedPages]:
    """Both have every key: a program writes both values at once."""
    return {key: MigratedPages(done, failed.get(key, 0)) for key, done in succeeded.items()}
