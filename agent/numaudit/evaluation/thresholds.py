"""The limits that verdicts use. Each can be configured; these are the defaults."""

from __future__ import annotations

from dataclasses import dataclass


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
