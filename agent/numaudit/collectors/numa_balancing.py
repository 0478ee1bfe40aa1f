"""What does the kernel itself count of NUMA balancing and migrations, without any BPF program?"""

from __future__ import annotations

from dataclasses import replace

from numaudit.collectors.base import Skipped, Tick
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Reader
from numaudit.kernel.numa_balancing import parse, read_mode, read_vmstat
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.reasons import Refusal
from numaudit.snapshot import Balancing, ContainerId, Snapshot


def collect(tick: Tick, snapshot: Snapshot, skipped: Skipped) -> Snapshot:
    """Of the host, and of each container where the kernel shows them.

    Raises Unavailable when the kernel has no NUMA balancing, OSError when /proc/vmstat cannot be read.
    """
    mode = read_mode(tick.host)
    if mode is None:
        raise Unavailable("this kernel has no NUMA balancing (CONFIG_NUMA_BALANCING)")
    by_container: dict[ContainerId, dict[str, int]] = {}
    if _reads_containers(tick) and mode.flags and _root_is_shown(tick.reader):
        for container in tick.census.containers:
            if container.whole:
                try:
                    by_container[container.id] = _read(tick.reader, tick.census.folder(container.id))
                except (OSError, ValueError) as error:
                    skipped.count(error)
    return replace(snapshot, numa_balancing=Balancing(read_vmstat(tick.host), by_container))


def _reads_containers(tick: Tick) -> bool:
    """The hint-fault probe gives more on each container, for less: memory.stat takes 20 us each."""
    return tick.readings is None or isinstance(tick.readings.session.probe(HINT_FAULTS), Refusal)


def _root_is_shown(reader: Reader) -> bool:
    """Has this kernel the counters in memory.stat at all? The root cgroup is the quickest to ask."""
    try:
        return reader.hierarchies.is_v2 and bool(_read(reader, ""))
    except FileNotFoundError:
        return False


def _read(reader: Reader, path: str) -> dict[str, int]:
    text = reader.read(f"{reader.hierarchies.memory}{path}/memory.stat")
    return parse(text.decode("ascii", "replace"))
