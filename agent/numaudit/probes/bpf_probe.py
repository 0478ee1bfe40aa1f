"""A probe whose programs count in BPF maps: what all of them share."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection
from typing import ClassVar

from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf, perf_event
from numaudit.kernel.tracing.bpf import RunTime
from numaudit.kernel.tracing.bpf_map import Map, sum_per_cpu
from numaudit.probes import reasons
from numaudit.probes.loading.loader import LoadedProbe

_CGROUP_ID = "=Q"
FIRST = bytes(4)
"""The key of the only entry of an array."""


class BpfProbe:
    """Holds the descriptors of one probe. Subclasses attach the programs and read the tables."""

    tables: ClassVar[tuple[str, ...]]
    """Maps whose keys begin with a cgroup id, without the probe's name before theirs."""

    def __init__(self, host: Host, loaded: LoadedProbe) -> None:
        """Attach. Raises ProbeRefusal, and OSError when a map cannot be used."""
        self._host = host
        self._loaded = loaded
        self._maps = {name.removeprefix(f"{loaded.name}_"): Map.of(one, host) for name, one in loaded.maps.items()}
        self._hooks: list[int] = []
        """Descriptors that keep the programs attached while they are open."""
        self._watched: frozenset[int] | None = None
        self.is_paused = True
        self._prepare()
        self.resume()

    @property
    def how(self) -> str | None:
        return None

    def pause(self) -> None:
        for descriptor in self._hooks:
            os.close(descriptor)
        self._hooks.clear()
        self.is_paused = True

    def resume(self) -> None:
        if self.is_paused:
            try:
                self._attach()
            except BaseException:
                self.pause()
                raise
            self.is_paused = False

    def watch(self, cgroups: frozenset[int] | None) -> None:
        watched, narrowed = self._maps.get("probe_watched"), self._maps.get("probe_narrowed")
        if watched is None or narrowed is None or cgroups == self._watched:
            return
        known, wanted = self._watched or frozenset(), cgroups or frozenset()
        for cgroup in known - wanted:
            watched.delete(struct.pack(_CGROUP_ID, cgroup))
        one = struct.pack("=I", 1)
        watched.update_all({struct.pack(_CGROUP_ID, cgroup): one for cgroup in wanted - known})
        narrowed.update(FIRST, struct.pack("=I", cgroups is not None))
        self._watched = cgroups

    def cgroups(self) -> set[int]:
        return {_cgroup_of(key) for table in self.tables for key in self._maps[table].read_keys()}

    def forget(self, cgroups: Collection[int]) -> int:
        return sum(self._forget(table, cgroups) for table in self.tables)

    def run_time(self) -> RunTime:
        return bpf.read_run_time(self._loaded.programs.values())

    def close(self) -> None:
        self.pause()
        self._loaded.close()

    def _prepare(self) -> None:
        """Fill what the programs need before they are attached."""

    def _attach(self) -> None:
        """Attach the programs and keep the descriptors in `_hooks`. Raises ProbeRefusal, OSError."""
        raise NotImplementedError

    def _forget(self, table: str, cgroups: Collection[int]) -> int:
        counters = self._maps[table]
        return sum(counters.delete(key) for key in counters.read_keys() if _cgroup_of(key) in cgroups)

    def _dropped(self) -> int:
        """Events that found their map full."""
        dropped = self._maps["probe_dropped"]
        found = dropped.lookup(FIRST)
        return sum_per_cpu(found, dropped.cpus)[0] if found else 0

    def _missed(self, programs: Collection[str]) -> int:
        """Runs left out because another BPF program was running on that CPU."""
        loaded = self._loaded.programs
        return sum(bpf.read_program_info(loaded[name]).misses for name in programs if name in loaded)

    def _attach_tracepoint(self, tracepoint: str, program: str) -> None:
        """One CPU's event is enough, for a tracepoint's programs run on all CPUs. Raises ProbeRefusal."""
        number = self._loaded.tracepoint_ids[tracepoint]
        try:
            event = perf_event.open_event(perf_event.tracepoint(number), cpu=perf_event.any_cpu(self._host))
        except OSError as error:
            raise reasons.of_perf_event(f"cannot open the tracepoint {tracepoint}", error) from error
        self._hooks.append(event)
        try:
            perf_event.set_program(event, self._loaded.programs[program])
            perf_event.enable(event)
        except OSError as error:
            raise reasons.of_error(f"cannot attach to the tracepoint {tracepoint}", error) from error

    def _attach_raw_tracepoint(self, tracepoint: str, program: str) -> None:
        """Raises ProbeRefusal."""
        try:
            self._hooks.append(bpf.open_raw_tracepoint(tracepoint, self._loaded.programs[program]))
        except OSError as error:
            raise reasons.of_error(f"cannot attach to the raw tracepoint {tracepoint}", error) from error


def _cgroup_of(key: bytes) -> int:
    (cgroup,) = struct.unpack_from(_CGROUP_ID, key)
    return int(cgroup)
