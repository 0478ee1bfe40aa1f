"""What to do about a verdict, in terms of what the container is: a pod's, a command of `numaudit run`, or another.

Only the first two have promises. docs/verdicts.md has all of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from numaudit.evaluation.verdicts import REMEDIES, VerdictName
from numaudit.intent import Intent
from numaudit.snapshot import Container

Owner = Literal["pod", "command", "other"]
"""`other`: a systemd unit, or a plain cgroup."""

OF_COMMANDS: Mapping[VerdictName, str] = {
    "drifted": "Find out who wrote to its cpuset (an admin, another agent). Write the promised nodes back to "
    "cpuset.mems, which moves its mapped memory too, or end the command and start it again.",
    "spilled": "See its causes. Memory does not come back by itself: end the command and start it again, or migrate "
    "the pages of each of its processes (`migratepages PID all NODES`).",
    "cpu-remote": "Start it with `--cpus N`, which gives it whole CPUs near its memory. Without that option it may "
    "run on all CPUs.",
}
"""For a command of `numaudit run`, where that differs from a pod's container."""
OF_OTHERS: Mapping[VerdictName, str] = {
    "unmanaged": "Nothing is wrong. For a promise: start it with `numaudit run`, or as a Guaranteed pod where the "
    "Memory Manager policy is Static.",
}
"""For a systemd unit or a plain cgroup."""

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
    """What a container is, where remedies are concerned."""
    if container.pod_uid is not None:
        return "pod"
    if intent is None or container.id not in intent.by_cgroup:
        return "other"
    return "command" if intent.promised_by == "numaudit run" else "pod"


def remedy(verdict: VerdictName, of: Owner) -> str | None:
    """What to do about it; None = nothing."""
    return {"pod": {}, "command": OF_COMMANDS, "other": OF_OTHERS}[of].get(verdict, REMEDIES[verdict])


def of_unmapped(of: Owner, are_all: bool) -> str:
    """What to do about a spill into files that no process maps; not `are_all`: into other memory, too."""
    about_files = f"{_UNMAPPED} {_STAY[of]}"
    return about_files if are_all else f"{remedy('spilled', of)} {about_files}"
