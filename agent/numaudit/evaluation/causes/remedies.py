"""Remedies of verdicts for a pod's container, a command of `numaudit run`, or another cgroup; and the cause, with its
remedy, for a container to run on CPUs of other nodes than its promised memory.

Only pods and commands have promises. docs/verdicts.md has the remedy of each verdict.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from numaudit.containermanager.pod.spec import full_name
from numaudit.evaluation.verdicts import REMEDIES, VerdictName
from numaudit.intent.node import ContainerIntent, Intent
from numaudit.snapshot import Container
from numaudit.topology.nodeset import CpuSet, NodeSet

Owner = Literal["pod", "command", "other"]
"""`other`: a systemd unit, or a plain cgroup."""

OF_COMMANDS: Mapping[VerdictName, str] = {
    "drifted": "Find out who wrote to its cpuset (an admin, another agent). Write the promised nodes back to "
    "cpuset.mems, which moves its mapped memory too, or end the command and start it again.",
    "spilled": "See its causes. Memory seldom comes back by itself: end the command and start it again, or migrate "
    "the pages of each of its processes (`migratepages PID all NODES`).",
    "cpu-remote": "Start it with `--cpus N`, which gives it whole CPUs near its memory. Without that option it may "
    "run on all CPUs.",
}
"""For a command of `numaudit run`, where that differs from a pod's container."""
OF_OTHERS: Mapping[VerdictName, str] = {
    "unmanaged": "Nothing is wrong. To get a promise, start it with `numaudit run`, or as a Guaranteed pod where the "
    "Memory Manager policy is Static.",
}
"""For a systemd unit or a plain cgroup."""

_OF_OWNERS: Mapping[Owner, Mapping[VerdictName, str]] = {"pod": {}, "command": OF_COMMANDS, "other": OF_OTHERS}
IN_FORCE: Mapping[VerdictName, str] = {
    "cpu-remote": "Request whole CPUs, so that the CPU Manager pins it too. A Guaranteed pod with a fraction of a CPU "
    "runs on the shared pool of all nodes.",
    "unmanaged": "Nothing is wrong. To get a promise, make the pod Guaranteed.",
}
"""For a pod's container where the policy that the usual remedy names is in force."""
_TOGETHER = ("restricted", "single-numa-node")
"""Policies of the Topology Manager under which CPUs, memory and devices are chosen together."""
_CHOSEN_APART = (
    "The policy in force chooses CPUs, memory and devices together. It did not then: a provider gave no hint, or "
    "another policy was in force. {again}."
)

_UNMAPPED = (
    "No process maps these files in memory (tmpfs), so neither `migratepages` nor a change of cpuset.mems moves them. "
    "Replace each by a copy that a process of this cgroup makes (`cp FILE NEW && mv NEW FILE`), or remove it; a System "
    "V segment goes with `ipcrm`."
)
_STAY: Mapping[Owner, str] = {
    "pod": "They outlive a restart of the container (/dev/shm and an emptyDir are the pod's), and go when the pod is "
    "deleted.",
    "command": "They outlive the command.",
    "other": "They outlive its processes.",
}


def owner(container: Container, intent: Intent | None) -> Owner:
    """Kind of container, where remedies are concerned."""
    if container.pod_uid is not None:
        return "pod"
    if intent is None or container.id not in intent.by_cgroup:
        return "other"
    return "command" if intent.promised_by == "numaudit run" else "pod"


def aligns_cpus_and_memory(intent: Intent | None) -> bool:
    """Is a policy of the Topology Manager in force under which a pod's CPUs and memory are chosen together?"""
    return intent is not None and intent.config.topology_manager_policy in _TOGETHER


def remedy_for_split_resources(intent: Intent) -> str | None:
    """Remedy where CPUs, memory or devices are apart under a policy that chooses them together; else None."""
    if not aligns_cpus_and_memory(intent):
        return None
    return _CHOSEN_APART.format(again=_WORDS[intent.promised_by]["again"].capitalize())


def remedy(verdict: VerdictName, of: Owner, intent: Intent | None = None) -> str | None:
    """Remedy of a verdict; None = nothing. No policy is named that is in force, as far as the intent says."""
    if of == "pod" and verdict in IN_FORCE and verdict in _in_force(intent):
        return IN_FORCE[verdict]
    return _OF_OWNERS[of].get(verdict, REMEDIES[verdict])


def _in_force(intent: Intent | None) -> Iterator[VerdictName]:
    if aligns_cpus_and_memory(intent):
        yield "cpu-remote"
    if intent is not None and (intent.config.memory_manager_policy or "").lower() == "static":
        yield "unmanaged"


def of_narrowed(path: str, promised: NodeSet) -> str:
    """Remedy of a drift where a cgroup above the container lacks promised nodes: its own cpuset.mems is right."""
    return (
        f"Write the promised nodes ({promised}) back to the cpuset.mems of {path}, a cgroup above it that lacks some, "
        "and find out who narrowed it. Its own cpuset.mems needs no change."
    )


def of_unmapped(of: Owner, are_all: bool) -> str:
    """Remedy of a spill into files that no process maps; not `are_all`: into other memory, too."""
    about_files = f"{_UNMAPPED} {_STAY[of]}"
    return about_files if are_all else f"{remedy('spilled', of)} {about_files}"


def write_back(container: Container, file: str, ids: NodeSet | CpuSet | None) -> tuple[str, ...]:
    """A shell command that writes what was promised to a file of its cpuset; empty = there is none."""
    folder = _folder(container)
    return () if folder is None or not ids else (f"echo {ids} > {folder}/{file}",)


def migrate_pages(container: Container, nodes: NodeSet) -> tuple[str, ...]:
    """A shell command that moves the pages of each of its processes to the promised nodes; empty = there is none."""
    folder = _folder(container)
    if folder is None:
        return ()
    processes = f"find {folder} -name cgroup.procs -exec cat {{}} +"  # those of cgroups that it made below, too
    return (f"{processes} | xargs -I PID migratepages PID all {nodes}",)


def _folder(container: Container) -> str | None:
    """In cgroup v2, as a word of the shell; None = its path has what cannot be printed."""
    return None if "\\" in container.path else shlex.quote(f"/sys/fs/cgroup{container.path}")


_MOST_OWNERS = 3
_WRITE_BACK = (
    "Find out who wrote to its cpuset (a runtime hook, an admin, another agent). Write the promised CPUs back to "
    "cpuset.cpus, or {again}."
)
_CHOOSE_TOGETHER = (
    "Use the Topology Manager policy restricted or single-numa-node{where}, so that CPUs and memory are chosen "
    "together, and {again}."
)
_WORDS = {
    "kubelet": {"again": "delete the pod so that it is created again", "where": ""},
    "numaudit run": {
        "again": "end the command and start it again",
        "where": " (`topologyManagerPolicy` in its configuration)",
    },
}
"""By who gave the promise."""


class CpuCause(NamedTuple):
    """Reason why a container runs on these CPUs."""

    reason: str
    remedy: str | None
    """None = that of the verdict."""
    write_back: CpuSet | None = None
    """The CPUs that its cpuset lacks; None = it is not what is wrong."""


def cpu_cause(own: ContainerIntent, allowed: CpuSet, intent: Intent) -> CpuCause | None:
    """By its promised CPUs and those that it may use; None = what it was promised is not known."""
    promised = own.promise.cpus
    if promised is None:
        return None
    if not promised:
        return CpuCause(f"it has no CPUs of its own and shares {allowed.in_words}", None)
    words = _WORDS[intent.promised_by]
    if allowed <= promised:
        apart = remedy_for_split_resources(intent) or _CHOOSE_TOGETHER.format(**words)
        return CpuCause(f"its promised {_cpus(promised, 'is', 'are')} there", apart)
    reason = f"it may use {allowed.in_words}, but was promised {promised.in_words}"
    owners = list(_owners(own, allowed - promised, intent))
    if len(owners) > _MOST_OWNERS:
        owners[_MOST_OWNERS:] = [f"{len(owners) - _MOST_OWNERS} more"]
    return CpuCause("; ".join([reason, *owners]), _WRITE_BACK.format(**words), promised)


def _owners(own: ContainerIntent, cpus: CpuSet, intent: Intent) -> Iterator[str]:
    """Name the owner of each of these CPUs: `CPU 2 belongs to default/web/app`."""
    for one in intent.containers:
        held = CpuSet() if one is own or one.is_stale or one.has_ended else cpus & (one.promise.cpus or CpuSet())
        if held:
            yield f"{_cpus(held, 'belongs', 'belong')} to {full_name(one.namespace, one.pod, one.pod_uid, one.name)}"
    shared = cpus & (intent.shared_cpus or CpuSet())
    if shared:
        yield f"{_cpus(shared, 'is', 'are')} shared"


def _cpus(cpus: CpuSet, one: str, several: str) -> str:
    return f"{cpus.in_words} {one if len(cpus) == 1 else several}"
