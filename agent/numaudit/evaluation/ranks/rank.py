"""A process with a declaration, and its verdict; and what the rules of verdicts ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from numaudit.encoding.value import Value
from numaudit.evaluation.causes.causes import full_nodes
from numaudit.evaluation.verdicts import DEFAULT
from numaudit.ranks.declaration import Declaration, HeldDevice, NodesOfCpus, ProcessTold
from numaudit.snapshot import Allowed, ContainerId, Snapshot
from numaudit.snapshot.processes import ContainerProcesses, ProcessPlacement
from numaudit.topology.nodeset import CpuSet, NodeSet

RankVerdict = Literal[
    "declared-not-in-force", "first-touch-before-bind", "thread-astray", "unknown", "in-force", "unbound"
]
RANK_VERDICTS: tuple[RankVerdict, ...] = (
    "declared-not-in-force",
    "first-touch-before-bind",
    "thread-astray",
    "unknown",
    "in-force",
    "unbound",
)
"""In the order of severity, the worst first. `unbound`, where nothing was declared, accuses nobody."""
_NAMED = 2
NOT_WHERE_BOUND: tuple[RankVerdict, ...] = RANK_VERDICTS[:3]

RankCause = Literal[
    "refused-by-seccomp",
    "not-set",
    "policy-lost",
    "other-policy",
    "wrong-node",
    "cut-by-cpuset",
    "cpus-not-bound",
    "touched-before",
    "node-full",
    "threads-outside",
    "threads-policy",
]
"""`refused-by-seccomp`: no policy is set, a seccomp filter is, and CAP_SYS_NICE is missing; the kernel does not say
which calls a filter refuses. `not-set`: there is none, for no reason that shows. `policy-lost`: an ancestor has the
declared policy, and the process does not. `other-policy`, `wrong-node`: another one is in force, or the same on other
nodes. `cut-by-cpuset`: the cpuset lacks declared nodes or CPUs. `cpus-not-bound`: it may run on CPUs that were not
declared. `touched-before`, `node-full`: memory elsewhere was used before the policy, or came when the node was full.
`threads-outside`, `threads-policy`: threads have other CPUs than declared, or another policy than the main thread."""


class RankProblem(Value, frozen=True):
    """One difference between a declaration and what is in force."""

    name: RankVerdict
    """The verdict that follows."""
    cause: RankCause
    """Likely cause."""
    detail: str
    """The difference in words."""
    bytes: int | None = None
    """Bytes on other nodes; null = it is not about bytes."""
    numa_nodes: NodeSet | None = None
    """Those nodes; null = it is not about bytes."""


class Rank(Value, frozen=True):
    """A process that its launcher binds to nodes or CPUs, or an actor of Ray, which is not bound."""

    pid: int
    process: str | None
    rank: int | None
    """Its number in its job; null = it shows none."""
    counts: bool
    """Is it one of the ranks that are counted? Small helpers of a rank that inherited its environment are not, nor are
    processes that are `unbound`."""
    declarations: tuple[Declaration, ...]
    """Declaration of its memory, of its CPUs, or of both; of neither where it is `unbound`."""
    devices: tuple[HeldDevice, ...]
    """Accelerators and network adapters that it has open."""
    devices_elsewhere: tuple[HeldDevice, ...]
    """Those of them that are on another node than the one to which it is bound. Of a kind of device of which one is on
    its node, or on a node that is not known, there is none here: programs open all that they see."""
    idle_nodes: NodeSet | None
    """Other nodes of its container's, where all ranks of its job are on one node; null = they are not, it is the only
    one, or their GPUs are on that node."""
    verdict: RankVerdict
    """The worst of its problems; `unknown` where there is none and something could not be compared."""
    detail: str
    """The evidence in words."""
    problems: tuple[RankProblem, ...]
    """All differences, the worst first."""
    judged_bytes: int | None
    """Its memory without files of disks, shared memory included; null = not read."""
    shared_elsewhere_bytes: int | None
    """Bytes of shared memory under its policy on other nodes: whoever touched them first chose the node. null = not
    read."""
    memory_only_bytes: int | None
    """Bytes on nodes without CPUs (HBM, CXL, memory of a GPU), which are not counted as remote; null = not read."""

    @property
    def title(self) -> str:
        """As a sentence names it."""
        if self.rank is not None:
            return f"rank {self.rank}"
        return f"process {self.pid}" if self.process is None else f"{self.process} ({self.pid})"

    @property
    def devices_note(self) -> str | None:
        """Devices on other nodes, in words; None = there is none."""
        found = " and ".join(f"{one.in_words} (node {one.numa_node})" for one in self.devices_elsewhere[:_NAMED])
        more = f" and {len(self.devices_elsewhere) - _NAMED} more" if len(self.devices_elsewhere) > _NAMED else ""
        return f"it has {found}{more} open, but is bound to another node" if found else None


class RankContext(NodesOfCpus, frozen=True):
    """Parts of a snapshot that the rules of one container's ranks ask for."""

    allowed: Allowed | None
    full_nodes: NodeSet
    """Nodes with next to no free memory now."""
    processes: Mapping[int, ProcessPlacement]
    told: Mapping[int, ProcessTold]

    @property
    def memory_only(self) -> NodeSet:
        """Nodes without CPUs."""
        return NodeSet.from_ids(node for node, cpus in self.cpus_of.items() if not cpus)


def context_of(
    container: ContainerId, snapshot: Snapshot, processes: ContainerProcesses, told: Mapping[int, ProcessTold]
) -> RankContext:
    """Of a container whose processes were read."""
    return RankContext(
        {node.id: node.cpus or CpuSet() for node in snapshot.machine.nodes},
        snapshot.allowed.get(container),
        full_nodes(snapshot.nodes, DEFAULT),
        {one.pid: one for one in processes.processes},
        told,
    )
