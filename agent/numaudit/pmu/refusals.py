"""Reasons why the kernel does not open the events or counts nothing, with remedies."""

from __future__ import annotations

import errno

from numaudit.pmu.choose import CannotCount, Cores, Plan, no_pmu

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
