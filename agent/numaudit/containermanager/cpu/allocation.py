"""Allocation and release of CPUs by the static CPU Manager.

Source: pkg/kubelet/cm/cpumanager/policy_static.go (Allocate, AllocatePod, RemoveContainer).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import takewhile
from types import MappingProxyType

from msgspec.structs import replace

from numaudit.containermanager.cpu.assignment import take_packed
from numaudit.containermanager.cpu.distribution import take_distributed
from numaudit.containermanager.cpu.hints import CPUContainer, CPUPod, check_shared_pool
from numaudit.containermanager.cpu.topology import CPUOptions, CPUPolicy, CPUState, CPUTopology, Group
from numaudit.containermanager.topologymanager.policy import SMT_ALIGNMENT, AdmissionError
from numaudit.containermanager.versions import LATEST, KubernetesVersion, charges_pods_again
from numaudit.topology.nodeset import CpuSet, NodeSet


class RefusedWithState(AdmissionError):
    """A refusal that leaves another state behind.

    Either the pod's CPUs were stored before they were to be divided, and stay taken, for no container gives them back;
    or they were released.
    """

    def __init__(self, error: AdmissionError, state: CPUState) -> None:
        super().__init__(str(error), error.reason)
        self.state = state


def take(
    topology: CPUTopology,
    options: CPUOptions,
    available: CpuSet,
    count: int,
    *,
    version: KubernetesVersion = LATEST,
) -> CpuSet:
    """Choose `count` of the available CPUs as the options say. Raises AdmissionError or KubeletHangs."""
    if options.distribute_cpus_across_numa:
        return take_distributed(
            topology,
            available,
            count,
            group_size=topology.cpus_per_core if options.full_pcpus_only else 1,
            across_cores=options.distribute_cpus_across_cores,
            version=version,
        )
    return take_packed(
        topology,
        available,
        count,
        across_cores=options.distribute_cpus_across_cores,
        by_uncore=options.prefer_align_cpus_by_uncorecache,
        version=version,
    )


def allocate(policy: CPUPolicy, state: CPUState, pod: CPUPod, name: str, affinity: NodeSet | None) -> CPUState:
    """Give a container its exclusive CPUs, near the nodes of the merged hint (None = anywhere).

    A container without exclusive CPUs leaves the state alone. One that holds its CPUs already keeps
    them, but the check for whole cores comes first, so a running pod can be refused when the kubelet
    admits it again (kubernetes/kubernetes#129078). Raises AdmissionError, KubeletHangs.
    """
    container = pod.container(name)
    if container.exclusive == 0 or not pod.managed:
        return state
    _check_whole_cores(policy, state, container.exclusive)
    cpus = state.entries.get(pod.uid, {}).get(name)
    if cpus is None:
        reusable = state.reusable.get(pod.uid, CpuSet())
        cpus = _choose(policy, state, container.exclusive, affinity, reusable)
        state = replace(
            state,
            default_cpus=state.default_cpus - cpus,
            entries=_with(state.entries, pod.uid, {**state.entries.get(pod.uid, {}), name: cpus}),
        )
    return replace(state, reusable=_reusable_after(state, pod.uid, container, cpus))


def allocate_pod(policy: CPUPolicy, state: CPUState, pod: CPUPod, affinity: NodeSet | None) -> CPUState:
    """Give a pod with pod-level resources its CPUs at once, and divide them among its containers.

    A pod that has its CPUs already keeps them (`_restored`), except in 1.36, which gives it others, so that
    the first ones are in no set any more. Raises AdmissionError, KubeletHangs; RefusedWithState for a pod of
    which a container wants more CPUs than there are for it, or whose own CPUs are too few.
    """
    if pod.exclusive == 0:
        return state
    if pod.uid in state.pod_entries and not charges_pods_again(policy.version):
        restored = _restored(policy, state, pod)
        if restored is not None:
            return restored
        state = _without(state, pod.uid)
    check_shared_pool(pod)
    _check_whole_cores(policy, state, pod.exclusive)
    bubble = _choose(policy, state, pod.exclusive, affinity, CpuSet())
    state = replace(
        state,
        default_cpus=state.default_cpus - bubble,
        pod_entries={**state.pod_entries, pod.uid: bubble},
    )
    try:
        return replace(state, entries=_with(state.entries, pod.uid, _divide(policy, pod, bubble)))
    except AdmissionError as error:
        raise RefusedWithState(error, state) from None


def remove(state: CPUState, pod_uid: str, name: str, *, version: KubernetesVersion = LATEST) -> CPUState:
    """Take back a container's CPUs; one that is not known changes nothing.

    CPUs that another container of the pod holds, too, stay with it, except in 1.23, which frees them
    as well. The CPUs of a pod with pod-level resources come back with its last container.
    """
    containers = state.entries.get(pod_uid, {})
    if name not in containers:
        return state
    others = {other: cpus for other, cpus in containers.items() if other != name}
    entries = _with(state.entries, pod_uid, others)
    bubble = state.pod_entries.get(pod_uid)
    if bubble is None:
        free = containers[name]
        for cpus in others.values() if version >= (1, 28) else ():
            free -= cpus
        return replace(state, default_cpus=state.default_cpus | free, entries=entries)
    if others:
        return replace(state, entries=entries)
    pods = {uid: cpus for uid, cpus in state.pod_entries.items() if uid != pod_uid}
    return replace(state, default_cpus=state.default_cpus | bubble, entries=entries, pod_entries=pods)


def remove_stale(
    state: CPUState, active: Mapping[str, Collection[str]], *, version: KubernetesVersion = LATEST
) -> CPUState:
    """Take back what containers hold that no active pod has; `active` is pod UID -> container names."""
    for uid, containers in state.entries.items():
        for name in containers:
            if name not in active.get(uid, ()):
                state = remove(state, uid, name, version=version)
    return state


def cpus_of(state: CPUState, pod_uid: str, name: str) -> CpuSet:
    """The CPUs that a container may run on: its own, else the shared pool as it is now."""
    return state.entries.get(pod_uid, {}).get(name, state.default_cpus)


def _choose(policy: CPUPolicy, state: CPUState, count: int, affinity: NodeSet | None, reusable: CpuSet) -> CpuSet:
    """Near CPUs first, then the rest: two independent choices."""
    pool = policy.available(state) | reusable
    chosen = CpuSet()
    if affinity is not None:
        near = pool & _near(policy, affinity)
        chosen = _take(policy, near, min(count, len(near)))
    return chosen | _take(policy, pool - chosen, count - len(chosen))


def _near(policy: CPUPolicy, affinity: NodeSet) -> CpuSet:
    cpus = policy.topology.cpus_in(Group.NODE, affinity)
    if not policy.options.align_by_socket:
        return cpus
    return policy.topology.cpus_in(Group.SOCKET, policy.topology.groups_of(Group.SOCKET, cpus))


def _take(policy: CPUPolicy, available: CpuSet, count: int) -> CpuSet:
    return take(policy.topology, policy.options, available, count, version=policy.version)


def _check_whole_cores(policy: CPUPolicy, state: CPUState, count: int) -> None:
    if not policy.options.full_pcpus_only:
        return
    per_core = policy.topology.cpus_per_core
    misaligned = f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {per_core}"
    if count % per_core:
        raise AdmissionError(misaligned, SMT_ALIGNMENT)
    cores = policy.topology.groups_of(Group.CORE, policy.reserved)
    if policy.version < (1, 28):
        return
    physical = len(state.default_cpus - policy.topology.cpus_in(Group.CORE, cores))
    if count <= physical:
        return
    if physical == 0 and policy.version < (1, 32):
        raise AdmissionError(misaligned, SMT_ALIGNMENT)
    raise AdmissionError(
        f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {physical}, "
        f"requested CPUs = {count}, CPUs per core = {per_core}",
        SMT_ALIGNMENT,
    )


def _reusable_after(state: CPUState, uid: str, container: CPUContainer, cpus: CpuSet) -> dict[str, CpuSet]:
    """CPUs that later containers of this pod may take over; all other pods' are forgotten."""
    before = state.reusable.get(uid, CpuSet())
    return {uid: before | cpus if container.init and not container.restartable else before - cpus}


def _restored(policy: CPUPolicy, state: CPUState, pod: CPUPod) -> CPUState | None:
    """The state in which a pod keeps its own CPUs, and containers that are in no record get theirs of them.

    None = a container is missing before one that has other CPUs than the order of the spec gives it, so all of them
    are to be given afresh. Raises RefusedWithState, with all released, where the pod asks for more than it has.

    Source: kubernetes/kubernetes#141041, in 1.38.0-alpha.1; policy_static_restore_test.go.
    """
    bubble, recorded = state.pod_entries[pod.uid], state.entries.get(pod.uid, {})
    if len(bubble) < pod.exclusive:
        few = AdmissionError(
            f"the pod was restored with CPUs {bubble}, fewer than the {pod.exclusive} that it asks for"
        )
        raise RefusedWithState(few, _without(state, pod.uid))
    names = [one.name for one in pod.containers]
    if all(name in recorded for name in names):
        return state
    before = takewhile(lambda name: name in recorded, names)
    try:
        divided = _divide(policy, pod, bubble, {name: recorded[name] for name in before})
    except AdmissionError:
        return None
    if any(divided.get(name) != cpus for name, cpus in recorded.items()):
        return None
    return replace(state, entries=_with(state.entries, pod.uid, divided))


def _without(state: CPUState, uid: str) -> CPUState:
    """With all of a pod's own CPUs in the shared pool again."""
    pods = {other: cpus for other, cpus in state.pod_entries.items() if other != uid}
    entries = _with(state.entries, uid, {})
    return replace(state, default_cpus=state.default_cpus | state.pod_entries[uid], entries=entries, pod_entries=pods)


def _divide(
    policy: CPUPolicy, pod: CPUPod, bubble: CpuSet, kept: Mapping[str, CpuSet] = MappingProxyType({})
) -> dict[str, CpuSet]:
    """The pod's CPUs by container: sidecars first, ordinary init containers over the rest, then the apps.

    `kept`: of the containers that have theirs already.
    """
    own: dict[str, CpuSet] = {}
    sidecars = CpuSet()
    for one in pod.containers:
        if not one.init:
            continue
        if one.exclusive:
            own[one.name] = kept.get(one.name) or _take(policy, bubble - sidecars, one.exclusive)
            if one.restartable:
                sidecars |= own[one.name]
        elif not one.restartable:
            own[one.name] = bubble - sidecars
    shared = bubble - sidecars
    for one in pod.containers:
        if not one.init and one.exclusive:
            own[one.name] = kept.get(one.name) or _take(policy, shared, one.exclusive)
            shared -= own[one.name]
    return {one.name: own.get(one.name, shared) for one in pod.containers}


def _with(
    entries: Mapping[str, Mapping[str, CpuSet]], uid: str, containers: Mapping[str, CpuSet]
) -> dict[str, Mapping[str, CpuSet]]:
    """The entries with one pod's replaced; a pod without containers is left out."""
    others = {other: held for other, held in entries.items() if other != uid}
    return {**others, uid: containers} if containers else others
