"""Effect of a kubelet's restart on the pods of a node: which it refuses, and which it places elsewhere.

A kubelet that restarts reads its files and admits every pod once more, the oldest first. A pod keeps what the files say
it holds, unless the configuration or the version no longer lets it. Devices are left out: which plugins register again,
and when, is not known beforehand.

Source: pkg/kubelet/kubelet.go (HandlePodAdditions), pkg/kubelet/cm/container_manager_linux.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from numaudit.checkpoints.start.findings import StartAnswer
from numaudit.containermanager.memory.headroom import HugePagesAtStart
from numaudit.containermanager.memory.static_policy import memory_nodes
from numaudit.containermanager.pod.spec import Pod, qos
from numaudit.encoding.value import Value
from numaudit.memorymanager.admission import Admission, NodeState
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.manager import StartRefused, fresh_state, has_moved, restart
from numaudit.topology.nodeset import CpuSet, NodeSet

LACKS_PAGES = "kernel-huge-pages"
"""Reason of a refusal by a rule that no released kubelet has: the kernel must have the pages that a pod asks for."""

Fate = Literal["kept", "elsewhere", "refused", "unknown"]
"""`elsewhere`: admitted, with other nodes or CPUs than it has now. `unknown`: admitted, but the file that says what it
has now is damaged or gone; or what the kubelet's version does with it is not known, as the message says."""


class Obstacle(Value, frozen=True):
    """One thing for which the kubelet may not start."""

    file: str
    """`memory_manager_state` or `cpu_manager_state`."""
    name: str
    """Of a finding, as `numaudit state verify` names it."""
    message: str
    """Description of the problem."""


class KubeletStart(Struct, frozen=True):
    """Does the kubelet start with its files? The answer of `restart.outlook` for all of them together."""

    answer: StartAnswer = "yes"
    refusal: str | None = None
    obstacles: tuple[Obstacle, ...] = ()


_ANY_START = KubeletStart()


class PodForecast(Value, frozen=True):
    """One pod, and what would become of it."""

    uid: str
    """The pod's UID."""
    namespace: str
    """The pod's namespace."""
    pod: str
    """The pod's name."""
    fate: Fate
    """Fate of the pod."""
    nodes_now: NodeSet | None
    """Of its memory; None = it holds none of its own."""
    nodes_then: NodeSet | None
    """Nodes of its memory after the restart."""
    cpus_now: CpuSet | None
    """Exclusive ones; None = it has none."""
    cpus_then: CpuSet | None
    """Its exclusive CPUs after the restart."""
    reason: str | None = None
    """Of a refusal, in the kubelet's words."""
    message: str | None = None
    """The kubelet's message for a refusal, or why its fate is not known."""


class Forecast(Value, frozen=True):
    """One restart."""

    reboot: bool
    """Of the whole node: then no container runs when the kubelet starts, and a node's memory may be another than now.
    As devices are left out, it changes nothing else."""
    starts: StartAnswer
    """Does the kubelet start with its files? As `numaudit state verify` answers for the worst of them."""
    refusal: str | None
    """The kubelet's error when it does not start with its files. None = it may start, or its words are not known."""
    obstacles: tuple[Obstacle, ...]
    """Reason why `starts` is not yes."""
    pods: tuple[PodForecast, ...]
    """The Guaranteed ones. Others hold nothing of their own, and are not refused for it. Where the kubelet starts,
    or may start: on this machine as it is now. Where it does not: after its files were removed."""
    pods_problem: str | None = None
    """Reason why nothing is known of the pods of a kubelet that does not start; None = `pods` has them all."""

    @property
    def refused(self) -> tuple[PodForecast, ...]:
        return tuple(one for one in self.pods if one.fate == "refused")

    @property
    def is_safe(self) -> bool:
        """Does the kubelet start, and every pod keep what it has?"""
        return self.starts == "yes" and all(one.fate == "kept" for one in self.pods)

    @property
    def is_open(self) -> bool:
        """Is nothing worse known than that something is not known?"""
        fates = {one.fate for one in self.pods}
        return not self.is_safe and self.starts not in ("no", "once") and not fates & {"refused", "elsewhere"}


def forecast(
    kubelet: Kubelet,
    state: NodeState,
    pods: Sequence[Pod],
    *,
    reboot: bool,
    start: KubeletStart = _ANY_START,
    is_whole: bool = True,
    huge_pages: HugePagesAtStart | None = None,
) -> Forecast:
    """Restart `kubelet`, which may be another version or configuration than the running one, with a node's files.

    `state` is what the files hold, `pods` the active ones, the oldest first. `start`: what was found out about the
    files beside that, for example that one is damaged. `is_whole` False: a file is damaged or gone, so pods may hold
    what `state` does not have. `huge_pages`: refuse pods that lack some of these, too. Raises InputError and
    KubeletHangs for a pod on which the kubelet would crash or hang.
    """
    pods = [one for one in pods if qos(one, kubelet.features) == "Guaranteed"]
    running = {} if reboot else {one.uid: [container.name for container in one.containers] for one in pods}
    answer, refusal = start.answer, start.refusal
    found: tuple[NodeState, Sequence[Admission]] | None = None
    if answer != "no":
        try:
            found = restart(kubelet, state, pods, running=running)
        except StartRefused as refused:
            answer, refusal = "no" if answer == "yes" else answer, str(refused)
    after, admissions = found or restart(kubelet, fresh_state(kubelet), pods, running=running)
    fates = tuple(_fate(one, state, after, is_whole=is_whole) for one in admissions)
    if huge_pages is not None:
        fates = tuple(_with_pages(one, huge_pages, after) for one in fates)
    return Forecast(reboot, answer, refusal, start.obstacles, fates)


def _fate(admission: Admission, before: NodeState, after: NodeState, *, is_whole: bool) -> PodForecast:
    pod, rejection = admission.pod, admission.rejection
    now, then = _held(before, pod), _held(after, pod)
    if admission.problem is not None:
        open_end = (None, now[1], None, None, admission.problem)
        return PodForecast(pod.uid, pod.namespace, pod.name, "unknown", now[0], *open_end)
    if rejection is not None:
        named = (rejection.reason, rejection.message)
        return PodForecast(pod.uid, pod.namespace, pod.name, "refused", now[0], None, now[1], None, *named)
    moved = has_moved(before, after, pod.uid)
    forgotten = not is_whole and any(had is None and has for had, has in zip(now, then, strict=True))
    fate: Fate = "elsewhere" if moved else "unknown" if forgotten else "kept"
    return PodForecast(pod.uid, pod.namespace, pod.name, fate, now[0], then[0], now[1], then[1])


def _with_pages(pod: PodForecast, huge_pages: HugePagesAtStart, after: NodeState) -> PodForecast:
    """Refused where the kernel does not have its huge pages."""
    lacking = None if pod.fate == "refused" else huge_pages.lacking(after.memory.state, pod.uid)
    if lacking is None:
        return pod
    return replace(pod, fate="refused", nodes_then=None, cpus_then=None, reason=LACKS_PAGES, message=lacking)


def _held(state: NodeState, pod: Pod) -> tuple[NodeSet | None, CpuSet | None]:
    """The nodes of all its containers' memory, and their exclusive CPUs."""
    nodes = NodeSet.from_ids(
        node for one in pod.all_containers for node in memory_nodes(state.memory.state, pod.uid, one.name) or ()
    )
    cpus = CpuSet()
    for own in ({} if state.cpu is None else state.cpu.entries.get(pod.uid, {})).values():
        cpus |= own
    return nodes or None, cpus or None
