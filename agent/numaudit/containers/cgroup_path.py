"""The owner of a cgroup, by its path. Pure: text in, values out.

Sources: the kubelet's pkg/kubelet/cm/{pod_container_manager,cgroup_manager}_linux.go (QoS and pod
groups, systemd escaping), KEP-5894 (the node system partition, kubepods/system), the runtimes' naming of
leaf groups, systemd's unit names, Slurm's cgroup plugins (src/plugins/cgroup/v1/cgroup_v1.c, v2/cgroup_v2.c:
[NODE_]slurmstepd.scope/job_N/step_S/user/task_T, and slurm[_NODE]/uid_U/job_N/step_S/task_T).
"""

from __future__ import annotations

import re

from msgspec import Struct

from numaudit.snapshot import Kind, Qos

_ID = r"[0-9a-f]{64}"
_UID = r"[0-9a-f]{32}|[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}"
_QOS: dict[str | None, Qos] = {None: "Guaranteed", "burstable": "Burstable", "besteffort": "BestEffort"}

# kubepods-burstable-pod<uid>.slice, also with a prefix (kubelet-kubepods-...) and with the runtime's
# leaf appended after a colon, which runc does when containerd and kubelet disagree about the driver.
_SYSTEMD_POD = re.compile(
    rf"(?:.+-)?kubepods(?:-system)?(?:-(burstable|besteffort))?-pod({_UID})\.slice(?::([\w.-]+):({_ID}))?", re.ASCII
)
_CGROUPFS_POD = re.compile(rf"pod({_UID})", re.ASCII)
# cri-containerd-<id>.scope, crio-<id>, docker-<id>.scope, libpod-<id>.scope, <id>
_LEAF = re.compile(rf"(?:(?P<prefix>[a-z][a-z0-9.]*(?:-[a-z0-9.]+)*)-)?(?P<id>{_ID})(?:\.scope)?", re.ASCII)
_RUNTIMES = {
    "cri-containerd": "containerd",
    "crio": "cri-o",
    "docker": "docker",
    "libpod": "podman",
    "nerdctl": "containerd",
}
_SLURM_PARENT = re.compile(r"(?:.+_)?slurmstepd\.scope|uid_\d+", re.ASCII)
_SLURM_JOB = re.compile(r"job_(\d+)", re.ASCII)
_SLURM_STEP = re.compile(r"step_(\d+(?:\+\d+)?|batch|extern|interactive)", re.ASCII)
_BARE_PARENTS = {"docker": "docker", "libpod_parent": "podman", "default": "containerd", "k8s.io": "containerd"}


class CgroupOwner(Struct, frozen=True):
    """The kind and owner of one cgroup, by its path alone. None = the path does not say."""

    kind: Kind
    pod_uid: str | None = None
    qos: Qos | None = None
    runtime: str | None = None
    container_id: str | None = None
    name: str | None = None
    """Of a job of Slurm, its id; of a step of it, both ids as Slurm writes them: 77.0, 77.batch."""


class Lineage(Struct, frozen=True):
    """A group's place, and what its name and those above it say of the groups below."""

    place: CgroupOwner = CgroupOwner("group")
    name: str = ""
    in_kubepods: bool = False
    """Is it, or one above it, called kubepods?"""
    pod: CgroupOwner | None = None
    """The innermost pod: a pod inside a container (kind, minikube) is found as such."""
    joined: bool = False
    """Does one name say both the pod and the container?"""
    below_pod: str = ""
    """Name of the group right below the pod that it is, or is in."""


ROOT = Lineage()


def parse(path: str) -> CgroupOwner:
    """Sort a cgroup path by its last component, with the pod found among its parents."""
    lineage = ROOT
    for name in path.split("/"):
        if name:
            lineage = descend(lineage, name)
    return lineage.place


def descend(above: Lineage, name: str) -> Lineage:
    """The group of this name in another: one step, however deep that is."""
    in_kubepods = above.in_kubepods or name == "kubepods"
    match = _SYSTEMD_POD.fullmatch(name)
    if match is not None:
        pod = CgroupOwner("pod", match[2].replace("_", "-"), _QOS[match[1]])
        joined = _joined_leaf(pod, match)
        return Lineage(joined or pod, name, in_kubepods, pod, joined is not None)
    match = _CGROUPFS_POD.fullmatch(name)
    if match is not None and above.in_kubepods:
        tier = above.name if above.name in _QOS else None
        pod = CgroupOwner("pod", match[1].replace("_", "-"), _QOS[tier])
        return Lineage(pod, name, in_kubepods, pod)
    if above.pod is None:
        return Lineage(_of_slurm(name, above) or _outside_pods(name, above.name), name, in_kubepods)
    if above.joined:
        return Lineage(above.place, name, in_kubepods, above.pod, joined=True)
    place = _inside_pod(above.below_pod or name, None if not above.below_pod else name, above.pod)
    return Lineage(place, name, in_kubepods, above.pod, below_pod=above.below_pod or name)


def _joined_leaf(place: CgroupOwner, match: re.Match[str]) -> CgroupOwner | None:
    if match[4] is None:
        return None
    return CgroupOwner("container", place.pod_uid, place.qos, _RUNTIMES.get(match[3]), match[4])


def _inside_pod(first: str, last: str | None, pod: CgroupOwner) -> CgroupOwner:
    """A group below a pod: in the group `first`, or `first` itself where there is no `last`."""
    match = _LEAF.fullmatch(first)
    if match is None or (match["prefix"] or "").endswith("conmon"):
        # The runtime's monitor or a group of the pod's own making: no container the pod names.
        return CgroupOwner(_unit_kind(last or first), pod.pod_uid, pod.qos)
    if last is not None:
        return CgroupOwner(_unit_kind(last), pod.pod_uid, pod.qos, container_id=match["id"])
    return CgroupOwner("container", pod.pod_uid, pod.qos, _RUNTIMES.get(match["prefix"] or ""), match["id"])


def _of_slurm(name: str, above: Lineage) -> CgroupOwner | None:
    """A job, or a step of one."""
    job = _SLURM_JOB.fullmatch(name)
    if job is not None and _SLURM_PARENT.fullmatch(above.name):
        return CgroupOwner("job", runtime="slurm", name=job[1])
    step = _SLURM_STEP.fullmatch(name)
    if step is not None and above.place.kind == "job":
        return CgroupOwner("step", runtime="slurm", name=f"{above.place.name}.{step[1]}")
    return None


def _outside_pods(name: str, parent: str) -> CgroupOwner:
    match = _LEAF.fullmatch(name)
    if match is not None and not (match["prefix"] or "").endswith("conmon"):
        runtime = _RUNTIMES.get(match["prefix"] or "") or _BARE_PARENTS.get(parent)
        return CgroupOwner("container", runtime=runtime, container_id=match["id"])
    return CgroupOwner(_unit_kind(name))


def _unit_kind(name: str) -> Kind:
    if name.endswith(".service"):
        return "service"
    if name.endswith(".scope"):
        return "scope"
    return "slice" if name.endswith(".slice") else "group"
