"""Choice of the events that count local and remote memory accesses on this machine, and their conversion to accesses;
or the reason why the kernel does not open them or counts nothing, with a remedy.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.pmu.families import CpuFamily, Encoding, EventSet, family_of
from numaudit.pmu.identity import CpuIdentity, MachineKind

T = TypeVar("T")

_NEXT_SET = (errno.EINVAL, errno.ENXIO)
"""A mask that this CPU does not take, a register that a hypervisor does not show, a group that does not fit."""
_LOCAL_SOCKET = "local_socket_dram"
_MIXED = "no pair of events fits all of them; use another source"
_OTHERS = "use another source"


Word = Literal[
    "one-node",
    "no-pmu",
    "cpu-unknown",
    "mixed-cpus",
    "no-events",
    "refused",
    "no-permission",
    "too-many-files",
    "busy",
    "counts-nothing",
]


class CannotCount(Unavailable):
    """Reason why accesses are not counted, and the remedy."""

    def __init__(self, text: str, hint: str, word: Word) -> None:
        super().__init__(f"{text}; {hint}")
        self.text = text
        self.hint = hint
        self.word = word


class CorePmu(Struct, frozen=True):
    """A PMU of the cores, as /sys/bus/event_source/devices has it."""

    name: str
    """`cpu`, or `armv8_...` on ARM."""
    type: int
    """Of struct perf_event_attr."""
    events: frozenset[str] = frozenset()
    """The names in its folder `events`."""


class Cores(Struct, frozen=True):
    """Facts about a machine before an event is opened."""

    cpus: tuple[CpuIdentity, ...]
    """Its kinds of CPUs."""
    pmus: tuple[CorePmu, ...]
    nodes: int
    """That have CPUs online. One of memory alone (CXL, HBM) is neither local nor remote to these events."""
    sockets: int | None
    """None = the kernel does not say."""
    is_guest: bool = False
    """Has the CPU the flag of a hypervisor?"""
    kind: MachineKind = MachineKind()
    nmi_watchdog: bool | None = None
    """Does it hold a counter of each core? None = the kernel does not say."""

    @property
    def is_virtual(self) -> bool:
        return self.is_guest or self.kind.virtual is not None

    @property
    def has_clusters(self) -> bool:
        """Has a socket several nodes (sub-NUMA clustering, cluster on die, NPS2 and NPS4)?"""
        return self.sockets is not None and self.nodes > self.sockets


class Accesses(NamedTuple):
    """Counted accesses, in the unit of their set."""

    local: float
    remote: float


class Plan(Struct, frozen=True):
    """Events to open on every CPU, and what their counts mean."""

    family: CpuFamily
    set: EventSet
    type: int
    """Of struct perf_event_attr, for each event."""
    groups: tuple[tuple[Encoding, ...], ...]
    """Each is one group of perf: counted together or not at all. Of several groups the kernel counts one at a time."""
    local: tuple[int, ...]
    """The weight of each event, in the order of `events`."""
    remote: tuple[int, ...]

    @property
    def events(self) -> tuple[Encoding, ...]:
        return tuple(event for group in self.groups for event in group)

    def accesses(self, counts: Sequence[float | None]) -> Accesses | None:
        """Accesses computed from the scaled counts of `events` over the same time; None = one of them did not run.

        A difference of two counts may come out below 0 by their noise: then it is 0.
        """
        known = [count for count in counts if count is not None]
        if len(known) < len(self.events):
            return None
        return Accesses(_weigh(self.local, known), _weigh(self.remote, known))


def _weigh(weights: Sequence[int], counts: Sequence[float]) -> float:
    return max(0.0, sum(weight * count for weight, count in zip(weights, counts, strict=True)))


def scaled(count: int, enabled: int, running: int) -> float | None:
    """The count over the whole time that the event was enabled, of which it ran a part; None = it never ran.

    Source: include/uapi/linux/perf_event.h (PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING).
    """
    return count * enabled / running if running else None


def plans(cores: Cores) -> tuple[Plan, ...]:
    """All that may work here, the best first. Never empty: raises CannotCount."""
    if cores.nodes < 2:
        raise CannotCount("with one node all memory is local", "there is nothing to count", "one-node")
    pmu = _only_pmu(cores)
    family = _only_family(cores)
    listed = [one for one in family.sets if set(one.requires) <= pmu.events]
    if not listed:
        lacking = sorted(set(family.sets[0].requires) - pmu.events)
        what = f"the PMU {pmu.name} does not have {' and '.join(lacking)}: CPU or hypervisor does not count it"
        raise CannotCount(what, _OTHERS, "no-events")
    usable = [one for one in listed if not cores.has_clusters or one.far_cluster is not None]
    if not usable:
        raise _cannot_tell(family, cores)
    return tuple(_plan(family, one, pmu, cores) for one in usable)


def first_that_opens(candidates: Sequence[Plan], open_plan: Callable[[Plan], T]) -> tuple[Plan, T]:
    """The best plan whose events open, with what `open_plan` made of them.

    A refusal that another set would meet as well (no PMU, no rights, too many files, busy) ends the search. Raises the
    OSError of the last that was tried.
    """
    *others, last = candidates
    for plan in others:
        try:
            return plan, open_plan(plan)
        except OSError as error:
            if error.errno not in _NEXT_SET:
                raise
    return last, open_plan(last)


def _only_family(cores: Cores) -> CpuFamily:
    report = "`numaudit capture` takes what is needed to add it; until then use another source"
    if not cores.cpus:
        raise CannotCount("the kernel does not say which CPU this is", report, "cpu-unknown")
    known = {cpu: family_of(cpu) for cpu in cores.cpus}
    unknown = [cpu for cpu, family in known.items() if family is None]
    if unknown:
        raise CannotCount(f"the table of CPU families does not have this CPU ({unknown[0]})", report, "cpu-unknown")
    found = {family.id: family for family in known.values() if family is not None}
    if len(found) > 1:
        titles = " and ".join(family.title for family in found.values())
        raise CannotCount(f"this machine has CPUs of several families ({titles})", _MIXED, "mixed-cpus")
    (family,) = found.values()
    if not family.sets:
        what = f"{family.title}: its cores have no events that tell local from remote memory"
        raise CannotCount(what, _OTHERS, "no-events")
    return family


def _only_pmu(cores: Cores) -> CorePmu:
    if not cores.pmus:
        raise no_pmu(cores)
    if len(cores.pmus) > 1:
        names = ", ".join(pmu.name for pmu in cores.pmus)
        raise CannotCount(f"this machine has cores of several kinds ({names})", _MIXED, "mixed-cpus")
    return cores.pmus[0]


def _cannot_tell(family: CpuFamily, cores: Cores) -> CannotCount:
    what = f"{family.title}: sockets with several nodes, whose nodes the events do not tell apart"
    physical = "switch sub-NUMA clustering off in the firmware"
    remedy = "give the virtual machine one socket for each node" if cores.is_virtual else physical
    return CannotCount(what, f"{remedy}, or {_OTHERS}", "no-events")


def no_pmu(cores: Cores) -> CannotCount:
    """The kernel drives no PMU of the cores, whichever way that shows."""
    if cores.is_virtual:
        whose = f" ({cores.kind})" if str(cores.kind) else ""
        what = f"this is a virtual machine{whose}, and its hypervisor shows no PMU"
        return CannotCount(what, cores.kind.hint, "no-pmu")
    return CannotCount("this machine shows no PMU of its cores", "use a kernel with the driver of its PMU", "no-pmu")


def _plan(family: CpuFamily, one: EventSet, pmu: CorePmu, cores: Cores) -> Plan:
    near, far = len(one.local), len(one.remote)
    in_local = -1 if one.local_is_total else 0
    local, remote = (1,) * near + (in_local,) * far, (0,) * near + (1,) * far
    plan = Plan(family, one, pmu.type, ((*one.local, *one.remote),), local, remote)
    if not cores.has_clusters or one.far_cluster == "remote":
        return plan
    return _with_far_cluster(plan)


def _with_far_cluster(plan: Plan) -> Plan:
    """Remote is also the memory of the socket's other nodes: what all of the socket gave - what the own node gave.

    That takes three masks, and a core has registers for two. So there are two groups that take turns.
    """
    socket, local = plan.set.facets[_LOCAL_SOCKET], plan.set.local
    return Plan(
        plan.family,
        plan.set,
        plan.type,
        (*plan.groups, (*local, *socket)),
        plan.local + (0,) * (len(local) + len(socket)),
        plan.remote + (-1,) * len(local) + (1,) * len(socket),
    )


_NO_RIGHT = (errno.EACCES, errno.EPERM)
_ABSENT = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
_TOO_MANY = (errno.EMFILE, errno.ENFILE)


def why_not_open(code: int, cores: Cores, plan: Plan) -> CannotCount:
    """By the errno of perf_event_open(2) for the last plan that was tried. Source: kernel/events/core.c."""
    if code in _ABSENT:
        return no_pmu(cores)
    if code in _NO_RIGHT:
        hint = "run as root, or with the capability PERFMON, or lower kernel.perf_event_paranoid"
        return CannotCount("no right to count events of all tasks", hint, "no-permission")
    if code in _TOO_MANY:
        hint = "raise the limit of open files (ulimit -n, or LimitNOFILE of the service)"
        return CannotCount("too many files are open to open an event for each CPU", hint, "too-many-files")
    if code == errno.EBUSY:
        return CannotCount("another tool holds the counters for itself", _others(cores), "busy")
    names = " and ".join(dict.fromkeys(event.name for event in plan.events))
    what = f"the kernel refuses {names} of {plan.family.title} ({errno.errorcode.get(code, code)})"
    if cores.is_virtual:
        return CannotCount(f"{what}: the hypervisor does not offer them", cores.kind.hint, "refused")
    return CannotCount(what, "please report it with the output of `numaudit capture`", "refused")


def never_ran(cores: Cores) -> CannotCount:
    """The events open, and the kernel never gave them a counter."""
    return CannotCount("the events open, but no counter is ever free for them", _others(cores), "busy")


def counts_nothing(cores: Cores, plan: Plan, seconds: float) -> CannotCount:
    """The events open and run, and a load that reads memory leaves them at 0."""
    what = f"the events of {plan.family.title} open, but counted nothing of a test load of {seconds:g} s"
    if cores.is_virtual:
        return CannotCount(f"{what}: the hypervisor filters them", cores.kind.hint, "counts-nothing")
    return CannotCount(what, "please report it with the output of `numaudit capture`", "counts-nothing")


def _others(cores: Cores) -> str:
    end = "end other profilers (perf, VTune, a second agent), or wait until they have ended"
    if cores.nmi_watchdog:
        return f"free the counter that the NMI watchdog holds (sysctl kernel.nmi_watchdog=0), and {end}"
    return end
