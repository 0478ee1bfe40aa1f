"""Nodes and CPUs that the kernel lets each container use."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import PurePosixPath

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.errors import ParseError, to_keep
from numaudit.kernel.cgroup import Reader, parse_process_cgroups
from numaudit.kernel.host import Host, read_text
from numaudit.snapshot import Allowed, ContainerId, Snapshot
from numaudit.topology.nodeset import NodeSet


class AllowedCollector(Collector):
    name = "allowed"

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """The effective cpuset of every container, and its own where that is not as promised, which is known by now."""
        intents = {} if snapshot.intent is None else snapshot.intent.by_cgroup
        promised = {id_: one.promise.memory_nodes for id_, one in intents.items() if one.promise.memory_nodes}
        return replace(snapshot, allowed=AllowedNodes(tick.host, tick.reader, promised).collect(tick.census, skipped))


class AllowedNodes(Struct, frozen=True):
    """Reads the effective cpuset of every container, for one tick."""

    host: Host
    reader: Reader
    promised: Mapping[int, NodeSet] = field(default_factory=dict)
    """The nodes that containers were promised."""
    _above: dict[str, Allowed | OSError | ParseError] = field(default_factory=dict)
    """Answers of parent groups in this tick, for groups without a cpuset of their own."""

    def collect(self, census: Census, skipped: SkippedItems) -> dict[ContainerId, Allowed]:
        found: dict[ContainerId, Allowed] = {}
        for container, path in census.with_folders():
            try:
                one = self._of(path)
                promised = self.promised.get(container.id)
                if promised is not None and promised != one.nodes:
                    one = replace(
                        one, own_nodes=self.reader.own_nodes(path), narrowed_at=self._narrowed_at(path, promised)
                    )
                found[container.id] = one
            except (OSError, ParseError) as error:
                skipped.count(error)
        return found

    def _narrowed_at(self, path: str, promised: NodeSet) -> str | None:
        above = [parent.as_posix() for parent in reversed(PurePosixPath(path).parents) if parent != PurePosixPath("/")]
        for one in above:
            nodes = self.reader.own_nodes(one)
            if nodes and not promised <= nodes:
                return one
        return None

    def _of(self, path: str) -> Allowed:
        try:
            return self.reader.allowed(path)
        except FileNotFoundError:
            return self._by_process(path) if self.reader.hierarchies.is_v2 is False else self._by_parent(path)

    def _by_process(self, path: str) -> Allowed:
        """cgroup v1: the cpuset hierarchy may be cut another way, so ask a process where it is."""
        for pid in self.reader.processes(path):
            try:
                own = parse_process_cgroups(read_text(self.host.proc / str(pid) / "cgroup"))
            except OSError:
                continue
            if "cpuset" in own:
                return self.reader.allowed(own["cpuset"])
        return Allowed(None, None)

    def _by_parent(self, path: str) -> Allowed:
        """cgroup v2 without the cpuset controller that far down: the nearest group above that has it decides.

        Each group above is asked once, for a tenant may make thousands of groups, each below the last.
        """
        without: list[str] = []
        above = path.rpartition("/")[0]
        while above not in self._above:
            try:
                self._above[above] = self.reader.allowed(above)
            except FileNotFoundError:
                if not above:
                    self._above[above] = Allowed(None, None)
                    break
                without.append(above)
                above = above.rpartition("/")[0]
            except (OSError, ParseError) as error:
                self._above[above] = to_keep(error)
        answer = self._above[above]
        self._above.update(dict.fromkeys(without, answer))
        if isinstance(answer, Exception):
            raise copy(answer)
        return answer
