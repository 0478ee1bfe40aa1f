"""Speed of this machine's memory, as `numaudit doctor --calibrate` measured it here or on a machine of its kind, and by
how much remote memory takes longer than local memory.
"""

from __future__ import annotations

import msgspec

from numaudit.encoding.value import Timestamp
from numaudit.errors import Absent, Unavailable
from numaudit.kernel.cores import cores_hertz, read_cores
from numaudit.kernel.host import Host, read_bytes
from numaudit.pmu.calibration import Calibration, Fingerprint
from numaudit.pmu.families import family_of
from numaudit.pmu.stall import LatencyTable, Penalty, penalty
from numaudit.topology.machine import Machine

_AGAIN = "run `numaudit doctor --calibrate` again"


def read_calibration(host: Host, machine: Machine) -> Calibration:
    """The stored figures. Raises Absent where there are none, and Unavailable where they are not this machine's."""
    path = host.calibration
    try:
        text = read_bytes(path)
    except FileNotFoundError:
        raise Absent(
            "the speed of memory was not measured on this host; run `numaudit doctor --calibrate` to measure it"
        ) from None
    try:
        found = msgspec.json.decode(text, type=Calibration, strict=False, dec_hook=_time)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{host.name_of(path)} is not a calibration: {error}; {_AGAIN}") from None
    here = Fingerprint.of(machine, read_cores(host, machine).cpus)
    if (difference := found.machine.differs_from(here)) is not None:
        raise Unavailable(f"{host.name_of(path)} is of another kind of machine: {difference}; {_AGAIN}")
    return found


def latencies_here(host: Host, machine: Machine) -> dict[tuple[int, int], float] | None:
    """Nanoseconds by the CPU's node and the memory's; None = not measured, and `numaudit doctor` says why."""
    try:
        return read_calibration(host, machine).latencies()
    except (Unavailable, OSError):
        return None


def _time(_type: type, value: object) -> Timestamp:
    return Timestamp.parse(str(value))


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
