"""Walks over all cgroups, one in a tick, in the place of thousands of files; and why files are read instead.

A walk is loaded in a thread of its own, is proven against files (kernel/memory/walk_proof.py), and is never used again
once it was wrong or held the kernel's mutex of cgroups for too long.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.containers.inventory import Census
from numaudit.errors import Absent, NumauditError, ParseError, Unavailable
from numaudit.kernel.cgroup import Cgroup, Reader
from numaudit.kernel.host import Host, explain
from numaudit.kernel.memory import numa_stat
from numaudit.kernel.memory.cgroup_layout import cgroup_layout
from numaudit.kernel.memory.cgroup_rows import AllowedSets, CgroupRows, Residents, RowDecoding, RowLayout
from numaudit.kernel.memory.walk_proof import LATE_PAGES, Contradiction, Rows, WalkProof
from numaudit.kernel.tracing import btf
from numaudit.kernel.tracing.bpf_map import count_possible_cpus
from numaudit.probes import residency
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.residency import MoreCgroups, ResidencyWalk
from numaudit.snapshot import Allowed, BytesByNode, Resident
from numaudit.topology.machine import Machine

_LEAST_CGROUPS = 1024
"""There is room for twice as many cgroups as there are, and for at least this many."""
_MOST_CGROUPS = 1 << 15
"""A walk over more would hold the mutex for too long, and its rows would take more than 30 MB."""
_ATTEMPTS = 3
"""A cell that moves up and down while it is compared may look wrong once."""
_COMPARE_EVERY = 60.0
"""Seconds."""
_LARGEST, _SOME = 8, 3
"""Cgroups that are compared first, and again each minute."""
_LONGEST_SECONDS = 0.2
"""A container's start, end or change of CPUs waits while a walk holds the kernel's mutex of cgroups.

1,000 cgroups took up to 30 ms in a busy emulated machine."""
_TOO_LONG_IN_A_ROW = 3
"""The walking thread may have waited for its CPU."""
_TRY_AGAIN = 600.0
"""Seconds, for what may pass."""
_ROOT = Cgroup(0, "/")
_log = logging.getLogger(__name__)


class WalkedNow:
    """The result of a walk, proven as far as it is used."""

    def __init__(self, walked: CgroupRows, decode: _Decoders, how: RowDecoding, allowed: Mapping[int, Allowed]) -> None:
        self.ids = decode.ids(walked)
        self.allowed = allowed
        """Cgroup id -> its effective cpuset, of those that have one of their own."""
        self.root = walked.ids[0]
        self._walked, self._how, self._decode = walked, how, decode

    def residents(self, hugetlb: BytesByNode | None) -> Mapping[int, Resident]:
        """Cgroup id -> its memory, descendants included. `hugetlb` is that of each cgroup, where it is not None."""
        return self._decode.residents.decode(self._walked, replace(self._how, hugetlb=hugetlb))


class _Decoders(Struct):
    """Of the walks of one loading, from tick to tick."""

    residents: Residents = field(default_factory=Residents)
    allowed: AllowedSets = field(default_factory=AllowedSets)
    _ids: tuple[list[int], frozenset[int]] = ([], frozenset())

    def ids(self, walked: CgroupRows) -> frozenset[int]:
        if walked.ids != self._ids[0]:
            self._ids = walked.ids, frozenset(walked.ids)
        return self._ids[1]


class CgroupWalks(Struct):
    """The walks of one host with cgroup v2."""

    host: Host
    reader: Reader
    """Reads the files that a walk is compared with."""
    longest_seconds: float | None = None
    """Longest time that a walk held the kernel's mutex, at most."""
    newest_seconds: float | None = None
    """The same of this tick's; None = there was none."""
    _walk: ResidencyWalk | None = None
    _proof: WalkProof = field(default_factory=lambda: WalkProof(0))
    _decode: _Decoders = field(default_factory=_Decoders)
    _loading: threading.Thread | None = None
    _loaded: ResidencyWalk | Exception | None = None
    """Result of the thread, written once, at its end."""
    _refused: Unavailable | None = None
    """Reason why there are no walks."""
    _page_size: int = 4096
    _is_tiered: bool = False
    """Of the machine for which the walk was loaded."""
    _again_at: float | None = None
    """Time to load once more, by the monotonic clock; None = never."""
    _compared_at: float | None = None
    _too_long: int = 0

    def take(self, census: Census, machine: Machine) -> WalkedNow:
        """Walk now. `census` has the groups of the tick before.

        Raises Absent where there are no walks on this host or not yet, Unavailable with the reason where they worked
        and do not any more, OSError.
        """
        self.newest_seconds = None
        walk = self._ready(census, machine)
        try:
            return self._attempt(walk, census)
        except MoreCgroups as error:
            self._unload()
            self._load(error.cgroups, machine)  # raises where they are too many
            raise Absent(f"{error}; files are read until the walk is loaded with room for them") from None
        except (Contradiction, _TooLong) as error:
            self._unload()
            self._refused = Unavailable(f"{error}; files are read instead")
            raise _again(self._refused) from None

    def load(self, census: Census, machine: Machine) -> WalkedNow:
        """The first walk, as soon as it is loaded. Raises as `take`."""
        with suppress(Absent):
            self.take(census, machine)
        if self._loading is not None:
            self._loading.join()
        return self.take(census, machine)

    def close(self) -> None:
        if self._loading is not None:
            self._loading.join()
            self._take_over()
        self._unload()

    def _ready(self, census: Census, machine: Machine) -> ResidencyWalk:
        """Raises Absent while it is loaded, and the reason why there is none."""
        if self._again_at is not None and time.monotonic() >= self._again_at:
            self._refused = self._again_at = None
        if self._loading is not None and not self._loading.is_alive():
            self._take_over()
        if self._refused is not None:
            raise _again(self._refused)
        if self._walk is None:
            if self._loading is None:
                self._load(sum(map(len, census.groups.values())), machine)
            raise Absent("the walk over all cgroups is being loaded")
        if machine.with_memory.mask >> self._walk.layout.nodes:
            self._unload()
            raise Absent("there is memory on another node; the walk over all cgroups is loaded again")
        if machine.is_tiered is not self._is_tiered:
            self._unload()
            raise Absent("memory tiers have come or gone; the walk over all cgroups is loaded again")
        return self._walk

    def _load(self, cgroups: int, machine: Machine) -> None:
        """Raises Unavailable for more than a walk may visit."""
        if cgroups > _MOST_CGROUPS:
            self._refused = Unavailable(f"there are {cgroups} cgroups, and a walk visits {_MOST_CGROUPS} at most")
            self._again_at = time.monotonic() + _TRY_AGAIN
            raise _again(self._refused)
        most, nodes = min(max(_LEAST_CGROUPS, 2 * cgroups), _MOST_CGROUPS), machine.with_memory.mask.bit_length()
        self._proof = WalkProof(LATE_PAGES * machine.page_size * count_possible_cpus(self.host))
        self._compared_at, self._decode = None, _Decoders()
        self._page_size, self._is_tiered = machine.page_size, machine.is_tiered
        target, arguments = self._load_in_thread, (most, nodes)
        self._loading = threading.Thread(target=target, args=arguments, name="cgroup walk", daemon=True)
        self._loading.start()

    def _load_in_thread(self, cgroups: int, nodes: int) -> None:
        try:
            types = btf.read(self.host)
            kernel = cgroup_layout(types, self._page_size, self._is_tiered)
            layout = RowLayout.of(kernel, nodes, count_possible_cpus(self.host))
            folder = self.reader.hierarchies.memory
            self._loaded = residency.load(self.host, types, layout, cgroups, folder)
        except (NumauditError, OSError, ParseError) as error:
            self._loaded = error
        except Exception as error:
            _log.exception("internal error while the walk over cgroups was loaded")
            self._loaded = error

    def _take_over(self) -> None:
        loaded, self._loaded, self._loading = self._loaded, None, None
        if isinstance(loaded, ResidencyWalk):
            self._walk = loaded
        elif loaded is not None:
            self._refused = Absent(f"no walk over all cgroups: {explain(loaded)}")
            if isinstance(loaded, ProbeRefusal) and loaded.reason.may_pass:
                self._again_at = time.monotonic() + _TRY_AGAIN

    def _unload(self) -> None:
        if self._walk is not None:
            self._walk.close()
            self._walk = None

    def _attempt(self, walk: ResidencyWalk, census: Census) -> WalkedNow:
        for left in reversed(range(_ATTEMPTS)):
            try:
                return self._compared(walk, self._sample(walk, census))
            except Contradiction:
                if not left:
                    raise
        raise AssertionError

    def _sample(self, walk: ResidencyWalk, census: Census) -> list[Cgroup]:
        """Return the groups whose files are read in this tick: always the root, because reading it makes the kernel add
        up all counters."""
        now = time.monotonic()
        if self._compared_at is not None and now < self._compared_at + _COMPARE_EVERY:
            return [_ROOT]
        groups = [group for groups in census.groups.values() for group in groups]
        if not groups:  # none are known yet, or there are none
            return [_ROOT]
        if self._compared_at is not None:
            return [_ROOT, *random.sample(groups, min(_SOME, len(groups)))]
        return [_ROOT, *self._largest(walk.walk(), groups)]

    def _largest(self, walked: CgroupRows, groups: Sequence[Cgroup]) -> list[Cgroup]:
        """Those with the most memory, and one of each of the first different cpusets."""
        place_of, allowed = walked.place_of, self._decode.allowed.decode(walked)
        sizes = [anon + file for anon, file in zip(walked.sizes("anon"), walked.sizes("file"), strict=True)]
        here = [group for group in groups if group.id in place_of]
        here.sort(key=lambda group: sizes[place_of[group.id]], reverse=True)
        unlike = {allowed.get(group.id): group for group in reversed(here)}
        return list(dict.fromkeys([*here[:_LARGEST], *list(unlike.values())[:_LARGEST]]))

    def _compared(self, walk: ResidencyWalk, sample: Sequence[Cgroup]) -> WalkedNow:
        """One walk between two readings of the sample's files."""
        before = {group.path: self._read(group) for group in sample}
        root = before["/"]
        if root is None:
            raise Unavailable("the root cgroup's memory.numa_stat cannot be read")
        rows, nodes = self._rows(walk, root.rows), tuple(root.rows["anon"])
        zeros = self._proof.zeros({row: root.rows[row] for row in rows})
        walked = walk.walk(unused=zeros)
        self._note_seconds(walk)
        allowed = self._decode.allowed.decode(walked)
        for group in sample:
            earlier = before[group.path]
            place = 0 if group is _ROOT else walked.place_of.get(group.id)
            if earlier is not None and place is not None and walked.has_memory(place):
                found = walked.of_cgroup(place, rows, nodes)
                self._compare(group, earlier, found, allowed.get(walked.ids[place]))
        if len(sample) > 1:
            self._compared_at = time.monotonic()
        waiting = [row for row in self._proof.unproven(rows) if row not in zeros]
        if waiting:
            raise Absent(f"files are read until the walk is proven: not yet are the rows {', '.join(waiting)}")
        return WalkedNow(walked, self._decode, RowDecoding(tuple(rows), nodes, zeros, None), allowed)

    def _compare(self, group: Cgroup, before: _Files, found: Rows, allowed: Allowed | None) -> None:
        """Raises Contradiction."""
        is_allowed = allowed is None or before.allowed is None or before.allowed == allowed
        if self._proof.is_equal(before.rows, found) and is_allowed:
            return
        after = self._read(group)
        if after is None:
            return
        self._proof.compare(group.path, before.rows, found, after.rows)
        if not is_allowed and after.allowed != allowed:
            raise Contradiction(f"the walk found {allowed} in {group.path}, and the files have {after.allowed}")

    def _read(self, group: Cgroup) -> _Files | None:
        """None = it has ended, or memory is not counted there. Raises ParseError."""
        path = "" if group is _ROOT else group.path
        try:
            text = self.reader.read(f"{self.reader.hierarchies.memory}{path}/memory.numa_stat")
        except OSError:
            return None
        try:
            allowed = self.reader.allowed(path)
        except OSError:
            allowed = None
        page_size = self._page_size if self._is_tiered else None
        return _Files(numa_stat.parse_v2(text.decode("ascii", "replace"), page_size), allowed)

    @staticmethod
    def _rows(walk: ResidencyWalk, root: Rows) -> list[str]:
        """Those that the files have. Raises Contradiction where the walk lacks one."""
        known = walk.layout.kernel.rows
        lacking = sorted(root.keys() - known.keys())
        if lacking or not root.keys() >= {"anon", "file", "shmem"}:
            raise Contradiction(f"the kernel's types do not say where it counts {', '.join(lacking) or 'anon'}")
        return [row for row in known if row in root]

    def _note_seconds(self, walk: ResidencyWalk) -> None:
        self.newest_seconds = walk.seconds
        self.longest_seconds = max(walk.seconds, self.longest_seconds or 0.0)
        self._too_long = self._too_long + 1 if walk.seconds > _LONGEST_SECONDS else 0
        if self._too_long >= _TOO_LONG_IN_A_ROW:
            times, most = self._too_long, _LONGEST_SECONDS
            raise _TooLong(f"{times} walks in a row held the kernel's mutex of cgroups for more than {most:g} s")


def _again(error: Unavailable) -> Unavailable:
    """Without the frames of those who raised it before."""
    return error.with_traceback(None)


class _TooLong(Unavailable):
    """Walks hold the mutex for too long."""


class _Files(Struct, frozen=True):
    """Contents of the files of a cgroup."""

    rows: Rows
    allowed: Allowed | None
