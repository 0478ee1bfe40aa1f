"""By how much does remote memory take longer than local memory on this machine?"""

from __future__ import annotations

from numaudit.engine.collectors.probes.calibration import read_calibration
from numaudit.errors import Unavailable
from numaudit.kernel.cores import cores_hertz, read_cores
from numaudit.kernel.host import Host
from numaudit.pmu.families import family_of
from numaudit.pmu.stall import LatencyTable, Penalty, penalty
from numaudit.topology.machine import Machine


def read_penalty(host: Host, machine: Machine) -> Penalty:
    """The best that is known: measured on this machine, else published for its CPU family, else assumed."""
    families = {family.id: family for cpu in read_cores(host, machine).cpus if (family := family_of(cpu)) is not None}
    latency = next(iter(families.values())).latency if len(families) == 1 else None
    return penalty(tuple(machine.with_cpus), _table(host, machine), latency, cores_hertz(host))


def _table(host: Host, machine: Machine) -> LatencyTable | None:
    try:
        return read_calibration(host, machine).table()
    except Unavailable:  # the doctor says why
        return None
