"""A tick whose probes have read what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import TickInputs
from numaudit.engine.collectors.containers.owners import Owners
from numaudit.kernel.cgroup import Hierarchies, Reader
from numaudit.kernel.host import Host
from numaudit.probes.probe import Reading
from numaudit.probes.session import ProbeReadings, Session
from numaudit.topology.machine import Machine

NO_MACHINE = Machine(())


def readings_of(taken: Mapping[str, Reading], probes: Mapping[str, Any] | None = None) -> ProbeReadings:
    """Readings that were taken already, by the probe's name."""
    return ProbeReadings(Session(cast("Any", probes or {})), dict(taken))


def tick_of(
    host: Host, taken: Mapping[str, Reading], owners: Owners | None = None, machine: Machine = NO_MACHINE
) -> TickInputs:
    """A tick of a host with cgroup v2 and no containers."""
    top = Path("/sys/fs/cgroup")
    reader = Reader(Hierarchies("v2", top, top, top, top))
    census = Census((), {}, {})
    return TickInputs(host, machine, reader, census, owners or Owners(), readings_of(taken))
