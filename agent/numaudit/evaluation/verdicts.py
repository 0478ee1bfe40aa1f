"""The verdicts: their names, in one order of severity, and what to do about each. docs/verdicts.md explains them.

And the limits that they use; each can be configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from numaudit.encoding.value import Timestamp, Value

VerdictName = Literal["unmanaged", "drifted", "cpu-remote", "spilled", "remote-access", "split", "aligned", "unknown"]
MISALIGNED: tuple[VerdictName, ...] = ("drifted", "cpu-remote", "spilled", "remote-access")

REMEDIES: Mapping[VerdictName, str | None] = {
    "drifted": "Find out who wrote to its cpuset (a runtime hook, an admin, another agent). Write the promised nodes "
    "back to cpuset.mems, which moves its mapped memory too, or delete the pod so that it is created again.",
    "spilled": "See its causes. Memory seldom comes back by itself: restart the container, or migrate the pages "
    "of each of its processes (`migratepages PID all NODES`).",
    "cpu-remote": "Request whole CPUs, so that the CPU Manager pins it too, and use the Topology Manager policy "
    "single-numa-node or restricted. A Guaranteed pod with a fraction of a CPU runs on the shared pool of all nodes.",
    "remote-access": "Bring its memory and the threads that use it to one node: migrate its pages (`migratepages PID "
    "FROM TO`), or bind its threads to the CPUs of that node (`taskset`). Memory that it shares with another container "
    "moves with its owner.",
    "unknown": "Give numaudit the source that is named; `numaudit doctor` says how.",
    "split": "Request less memory, or use machines with larger nodes. Nothing else helps.",
    "aligned": None,
    "unmanaged": "Nothing is wrong. To get a promise, use the Memory Manager policy Static and a Guaranteed pod.",
}
"""Verdict -> what to do about it, of a pod's container; None = nothing. In the order of severity, the worst first."""

_RANKS = {name: rank for rank, name in enumerate(REMEDIES)}


CauseName = Literal["mempolicy", "cpuset", "full-node", "migration", "demoted", "shared-memory", "unknown"]


class Cause(Value, frozen=True):
    """A cause of bytes on the wrong nodes: its own, or shared memory of others that it maps."""

    cause: CauseName
    """Name of the cause."""
    evidence: str
    """Evidence of the cause."""


class Verdict(Value, frozen=True):
    """Did the container get what it was promised?"""

    name: VerdictName
    """Name of the verdict; docs/verdicts.md explains each."""
    reason: str
    """The evidence in words; for `unknown` what is missing."""
    since: Timestamp | None
    """Time of the first tick that saw it; null when it was so at the very first."""
    causes: tuple[Cause, ...]
    """Reason why bytes are where they should not be; empty when they are where they should be."""
    remedy: str | None
    """Remedy; null when the container is aligned."""
    commands: tuple[str, ...] = ()
    """The remedy as shell commands of root on the host, with this container's values; empty = it has none."""


def harm(verdict: Verdict | None, elsewhere: int) -> tuple[bool, int, int]:
    """Sort key, the worst first: the misaligned ones by their bytes on wrong or remote nodes, then by severity."""
    is_misaligned = verdict is not None and verdict.name in MISALIGNED
    return not is_misaligned, -elsewhere if is_misaligned else 0, severity(verdict)


def severity(verdict: Verdict | None) -> int:
    """Its place in the order of severity, 0 for the worst. No verdict counts like `unmanaged`: nothing was promised."""
    return _RANKS["unmanaged" if verdict is None else verdict.name]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Shares are of 1; a container is past a limit when it is above it."""

    cpu_remote_share: float = 0.05
    """CPU time on other nodes than the promised ones."""
    cpu_seconds: float = 1.0
    """With less measured CPU time in the window no share is made of it."""
    spilled_share: float = 0.01
    """Judged bytes outside the promised nodes, and also at least:"""
    spilled_bytes: int = 1 << 20
    spilled_ticks: int = 2
    """Number of successive ticks that must see it: memory.numa_stat may lag by a second."""
    settling_seconds: float = 3.0
    """After its cpuset was put right, its bytes must also have stopped moving, and be there for this long."""
    remote_access_share: float = 0.10
    """Lower bound of the share of its accesses, or else of its memory, that is used from other nodes."""
    access_age: float = 120.0
    """Seconds after which a measured share ends of which its source says nothing any more."""
    window: float = 600.0
    """Seconds for which samples and CPU time count, for less the older they are."""
    failed_moves: int = 100
    """Pages that could not be moved to where they are used, and at least as many as could."""
    full_node_share: float = 0.03
    """A node with less of its memory free counts as full when a cause is sought."""


DEFAULT = Thresholds()
