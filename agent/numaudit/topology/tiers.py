"""Memory tiers: nodes of equally fast memory, between which the kernel moves cold and hot pages. Pure.

A tier with a smaller number is faster. Cold pages may be demoted to a slower tier, and hot ones promoted from it.
Source: the kernel's mm/memory-tiers.c (establish_demotion_targets), Documentation/admin-guide/mm/numaperf.rst,
Documentation/admin-guide/sysctl/kernel.rst (numa_balancing).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from numaudit.encoding.value import Value
from numaudit.topology.nodeset import NodeSet

_NORMAL, _TIERING = 1, 2


class MemoryTier(Struct, frozen=True):
    """Nodes whose memory is equally fast."""

    id: int
    """The kernel's number, as in memory_tier4; a smaller one is faster."""
    nodes: NodeSet


class MemorySpeed(Value, frozen=True):
    """A node's memory as the nearest CPUs see it, by the firmware; nothing of this was measured. null = not said."""

    initiators: NodeSet
    """Nodes that reach this memory fastest, and for which the figures hold."""
    read_latency_nanoseconds: int | None = None
    """Latency of a read."""
    write_latency_nanoseconds: int | None = None
    """Latency of a write."""
    read_bytes_per_second: int | None = None
    """Bandwidth of reads."""
    write_bytes_per_second: int | None = None
    """Bandwidth of writes."""


class MemoryTiers(Struct, frozen=True):
    """All tiers, the fastest first."""

    tiers: tuple[MemoryTier, ...]

    @property
    def are_several(self) -> bool:
        """Between the nodes of a single tier nothing is demoted."""
        return len(self.tiers) > 1

    def of(self, node: int) -> MemoryTier | None:
        """None = a node without memory, or one that has just come."""
        return next((tier for tier in self.tiers if node in tier.nodes), None)

    def below(self, nodes: NodeSet) -> NodeSet:
        """All nodes that a page of one of these nodes may be demoted to, step by step."""
        found = NodeSet()
        above = False
        for tier in self.tiers:
            if above:
                found |= tier.nodes
            above = above or not tier.nodes.isdisjoint(nodes)
        return found

    def demotion_targets(self, node: int, distances: Mapping[int, int]) -> NodeSet:
        """The nearest nodes of the next slower tier, which are tried first; empty = nothing is demoted from here.

        `distances` are those of the node; without them no node is nearer than another.
        """
        for tier, slower in zip(self.tiers, self.tiers[1:], strict=False):
            if node in tier.nodes:
                far = max(distances.values(), default=0) + 1
                nearest = min((distances.get(one, far) for one in slower.nodes), default=0)
                return NodeSet.from_ids(one for one in slower.nodes if distances.get(one, far) == nearest)
        return NodeSet()


class TopologyTier(Value, frozen=True):
    """Nodes whose memory the kernel counts as equally fast."""

    tier: int
    """The kernel's number, as in memory_tier4; a smaller one is faster."""
    numa_nodes: NodeSet
    """Its nodes."""
    has_cpus: bool | None
    """Has any of its nodes CPUs? The kernel promotes no page out of such a tier, nor of a faster one. null = not
    known."""


class TieringReport(Value, frozen=True):
    """Memory tiers, and what the kernel may move between them."""

    tiers: tuple[TopologyTier, ...]
    """The fastest first; of a single one, nothing is demoted."""
    demotion_enabled: bool | None
    """Does the kernel move cold pages to slower tiers? null = it cannot, it does not say, or there is one tier."""
    demotion_keeps_cpuset: bool | None
    """Do demoted pages stay on nodes of their cgroup's cpuset.mems? null = not known, or there is one tier."""
    numa_balancing: int | None
    """kernel.numa_balancing: 0 is off, 1 normal, 2 memory tiering (hot pages are promoted), 3 both; null = not known,
    or there is one tier."""


class TierSettings(Struct, frozen=True):
    """Switches of this kernel. None = it has none, or does not say."""

    demotion: bool | None = None
    """May cold pages be moved to slower tiers?"""
    numa_balancing: int | None = None
    """kernel.numa_balancing: its flags."""
    keeps_cpuset: bool | None = None
    """Do demoted pages stay on the nodes of their cgroup's effective cpuset.mems?"""

    @property
    def promotes(self) -> bool:
        """Are hot pages of slow tiers moved to fast ones? NUMA_BALANCING_MEMORY_TIERING, Linux 5.18."""
        return bool((self.numa_balancing or 0) & _TIERING)

    @property
    def balancing_in_words(self) -> str:
        """The mode in the words of the kernel's documentation."""
        mode = self.numa_balancing
        if mode is None:
            return "unknown"
        names = {0: "off", _NORMAL: "normal", _TIERING: "memory tiering", _NORMAL | _TIERING: "normal, memory tiering"}
        return names.get(mode, "a mode without a name in mainline Linux")


def in_words(tiers: int, settings: TierSettings) -> str:
    """One sentence about this number of tiers; for the table and for `doctor`."""
    if tiers == 1:
        return "one memory tier, so the kernel demotes nothing"
    demotion = {True: "on", False: "off", None: "not possible"}[settings.demotion]
    return f"{tiers} memory tiers; demotion is {demotion}, NUMA balancing is {settings.balancing_in_words}"
