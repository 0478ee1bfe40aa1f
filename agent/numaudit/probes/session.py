"""The BPF probes of one agent or one report: load, read, close."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from numaudit.errors import Unavailable
from numaudit.kernel import bpf, cgroup
from numaudit.kernel.host import Host
from numaudit.probes import cpu_time, first_touch, hint_faults, loader, migrations, page_alloc, reasons
from numaudit.probes.cpu_time import CpuTime, CpuTimeByNode
from numaudit.probes.first_touch import FirstTouch, FirstTouchByNode
from numaudit.probes.hint_faults import HintFaults, HintFaultsByNode
from numaudit.probes.loader import LoadedProbe, Outcome
from numaudit.probes.migrations import Migrations, MigrationsByCgroup
from numaudit.probes.page_alloc import AllocationsByNode, PageAlloc
from numaudit.probes.reasons import Reason, Refusal

PROBES = (page_alloc.NAME, cpu_time.NAME, hint_faults.NAME, migrations.NAME)
"""Those that run unless others are named: first_touch, which reads every sample in user space, is not one."""
AnyRead = AllocationsByNode | CpuTimeByNode | HintFaultsByNode | MigrationsByCgroup | FirstTouchByNode
Read = TypeVar("Read", AllocationsByNode, CpuTimeByNode, HintFaultsByNode, MigrationsByCgroup, FirstTouchByNode)
AnyProbe = PageAlloc | CpuTime | HintFaults | Migrations | FirstTouch
Probe = TypeVar("Probe", PageAlloc, CpuTime, HintFaults, Migrations)
Running = TypeVar("Running", PageAlloc, CpuTime, HintFaults, Migrations, FirstTouch)


@dataclass(frozen=True, slots=True)
class Session:
    """Each probe, or why it does not run. Programs run until `close`, or until this process ends in any way."""

    page_alloc: PageAlloc | Refusal
    cpu_time: CpuTime | Refusal
    hint_faults: HintFaults | Refusal
    migrations: Migrations | Refusal
    first_touch: FirstTouch | Refusal
    last_reads: dict[str, AnyRead] = field(default_factory=dict)
    """What each probe counted when it was last read, by its name; one that rests is not in it."""
    programs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Descriptors of the BPF programs of each probe that runs, by its name. They are the probe's."""

    @classmethod
    def open(
        cls,
        host: Host,
        *,
        cgroups: int,
        nodes: int,
        probes: Collection[str] = PROBES,
        deadline: float = 60.0,
        pythons: Sequence[str | Path] | None = None,
    ) -> Self:
        """Load and attach the probes of these names, each as far as this host lets it.

        The maps get room for `cgroups` cgroups of which each uses `nodes` pairs of CPU's and page's node.
        Raises InputError when a BPF text of ours is missing.
        """
        refusal = _refuse_all(host)
        if refusal is not None:
            return cls.refused(refusal)
        outcomes: dict[str, Outcome] = {}
        requests = []
        for probe in (page_alloc, cpu_time, hint_faults, migrations):
            if probe.NAME not in probes:
                outcomes[probe.NAME] = _not_asked_for()
                continue
            try:
                requests.append(probe.request(host, cgroups, nodes))
            except Refusal as error:
                outcomes[probe.NAME] = error
        outcomes |= loader.load(requests, deadline=deadline, pythons=pythons).outcomes
        started = cls(
            _start(PageAlloc, host, outcomes[page_alloc.NAME]),
            _start(CpuTime, host, outcomes[cpu_time.NAME]),
            _start(HintFaults, host, outcomes[hint_faults.NAME]),
            _start(Migrations, host, outcomes[migrations.NAME]),
            _open_first_touch(host) if first_touch.NAME in probes else _not_asked_for(),
        )
        programs = {
            name: tuple(outcome.programs.values())
            for name, outcome in outcomes.items()
            if isinstance(outcome, LoadedProbe) and not isinstance(started.outcomes[name], Refusal)
        }
        return replace(started, programs=programs)

    @classmethod
    def refused(cls, refusal: Refusal) -> Self:
        """A session in which no probe runs, for one reason."""
        return cls(refusal, refusal, refusal, refusal, refusal)

    @property
    def outcomes(self) -> Mapping[str, AnyProbe | Refusal]:
        """By the probe's name; `loader.diagnose` puts them into words."""
        return {
            page_alloc.NAME: self.page_alloc,
            cpu_time.NAME: self.cpu_time,
            hint_faults.NAME: self.hint_faults,
            migrations.NAME: self.migrations,
            first_touch.NAME: self.first_touch,
        }

    def was_asked_for(self, name: str) -> bool:
        """Is the probe of this name one that was to be loaded, whether it runs or not?"""
        outcome = self.outcomes[name]
        return not (isinstance(outcome, Refusal) and outcome.reason is Reason.SWITCHED_OFF)

    def read_page_alloc(self) -> AllocationsByNode:
        """Raises Refusal when the probe does not run, OSError when its maps cannot be read."""
        return self._remember(page_alloc.NAME, _running(self.page_alloc).read())

    def read_cpu_time(self) -> CpuTimeByNode:
        """Raises Refusal when the probe does not run, OSError when its maps cannot be read."""
        return self._remember(cpu_time.NAME, _running(self.cpu_time).read())

    def read_hint_faults(self) -> HintFaultsByNode:
        """Raises Refusal when the probe does not run, OSError when its maps cannot be read."""
        return self._remember(hint_faults.NAME, _running(self.hint_faults).read())

    def read_migrations(self) -> MigrationsByCgroup:
        """Raises Refusal when the probe does not run, OSError when its maps cannot be read."""
        return self._remember(migrations.NAME, _running(self.migrations).read())

    def read_first_touch(self) -> FirstTouchByNode:
        """Raises Refusal when the probe does not run, OSError and ParseError when its rings cannot be read."""
        return self._remember(first_touch.NAME, _running(self.first_touch).read())

    def read_runs(self) -> dict[str, tuple[int, float]]:
        """Probe's name -> runs of its programs and their seconds, by the kernel's account. Raises OSError.

        The kernel keeps account only while kernel.bpf_stats_enabled is 1.
        """
        found = {}
        for name, programs in self.programs.items():
            infos = [bpf.read_program_info(program) for program in programs]
            found[name] = sum(one.run_count for one in infos), sum(one.run_time_ns for one in infos) / 1e9
        return found

    def let_rest(self, name: str, rests: bool) -> None:
        """Take a probe off its hook, or put it back. What cannot rest, or does not run, is left as it is.

        Raises Refusal when it cannot be put back.
        """
        probe = self.outcomes[name]
        if isinstance(probe, PageAlloc | HintFaults | FirstTouch) and probe.is_suspended != rests:
            self.last_reads.pop(name, None)
            if rests:
                probe.suspend()
            else:
                probe.resume()

    def _remember(self, name: str, read: Read) -> Read:
        self.last_reads[name] = read
        return read

    def forget_all_but(self, cgroups: Collection[int]) -> int:
        """Delete the counters of every cgroup but these, so that dead ones do not fill the maps; how many went.

        Cgroup ids are not used again, so a counter once deleted never comes back as another's.
        """
        running = [probe for probe in self.outcomes.values() if not isinstance(probe, Refusal)]
        return sum(probe.forget_all_but(cgroups) for probe in running)

    def close(self) -> None:
        for probe in self.outcomes.values():
            if not isinstance(probe, Refusal):
                probe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _refuse_all(host: Host) -> Refusal | None:
    if not host.is_live:
        return Refusal(Reason.NOT_LIVE, f"{host.root} is a captured tree")
    try:
        unified = cgroup.find_hierarchies(host).unified
    except Unavailable:
        unified = None
    if unified is None:
        text = "cgroup version 2 is not mounted, and to BPF programs every task of version 1 is in the root cgroup"
        return Refusal(Reason.CGROUP_V1, text)
    return None


def _start(probe: Callable[[Host, LoadedProbe], Probe], host: Host, outcome: Outcome) -> Probe | Refusal:
    if isinstance(outcome, Refusal):
        return outcome
    try:
        return probe(host, outcome)
    except Refusal as error:
        outcome.close()
        return error
    except OSError as error:
        outcome.close()
        return reasons.of_error(f"cannot start the probe {outcome.name}", error)


def _not_asked_for() -> Refusal:
    return Refusal(Reason.SWITCHED_OFF, "it was not asked for")


def _open_first_touch(host: Host) -> FirstTouch | Refusal:
    """It needs no BPF program, so no loader either."""
    try:
        return FirstTouch(host)
    except Refusal as refusal:
        return refusal
    except OSError as error:
        return reasons.of_error("cannot sample page faults", error)


def _running(probe: Running | Refusal) -> Running:
    if isinstance(probe, Refusal):
        raise Refusal(probe.reason, probe.text)
    if isinstance(probe, PageAlloc | HintFaults | FirstTouch) and probe.is_suspended:
        raise Refusal(Reason.OVER_BUDGET, "it rests, for all probes together took more CPU time than they may")
    return probe
