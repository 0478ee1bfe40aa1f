"""A tick whose probes have read what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from numaudit.collectors.base import Tick
from numaudit.collectors.memory_stat import MemoryStats
from numaudit.collectors.owners import Owners
from numaudit.collectors.penalty import MachinePenalty
from numaudit.collectors.sanity_check import SanityCheck
from numaudit.collectors.scan_passes import ScanPasses
from numaudit.containers.inventory import Census
from numaudit.kernel.cgroup import Hierarchies, Reader
from numaudit.kernel.host import Host
from numaudit.probes.probe import Reading
from numaudit.probes.session import Readings, Session
from numaudit.topology.machine import Machine


def readings_of(taken: Mapping[str, Reading], probes: Mapping[str, Any] | None = None) -> Readings:
    """Readings that were taken already, by the probe's name."""
    return Readings(Session(cast("Any", probes or {})), dict(taken))


def tick_of(host: Host, taken: Mapping[str, Reading], owners: Owners | None = None) -> Tick:
    """A tick of a host with cgroup v2 and no containers."""
    top = Path("/sys/fs/cgroup")
    reader = Reader(Hierarchies("v2", top, top, top, top))
    census = Census((), {}, {})
    kubelet = cast("Any", None)
    return Tick(
        host,
        Machine(()),
        reader,
        census,
        owners or Owners(),
        kubelet,
        SanityCheck(),
        ScanPasses(),
        MachinePenalty(),
        MemoryStats(),
        readings_of(taken),
    )
