"""The kubelet of a host as the library's values: its set-up, its machine, what it remembers, and the pods that it
counts when the next one comes, as far as they are known. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from msgspec.structs import replace

from numaudit.checkpoints.formats.claims import ClaimCheckpoint
from numaudit.checkpoints.formats.device import NO_NODE, DeviceCheckpoint
from numaudit.checkpoints.formats.file import CPU, DEVICES, MEMORY, Checkpoint
from numaudit.containermanager.device.hints import Device
from numaudit.containermanager.pod.spec import PodName
from numaudit.containermanager.predicates import Capacity
from numaudit.errors import Unavailable
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile
from numaudit.kubelet.questions.kubelet_here import StartForecaster, kubelet_here
from numaudit.kubelet.questions.starting import AskedKubelet, changed_document, starting
from numaudit.kubelet.sources.podresources import NodesOfDevices
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.scenario.files import Files, starting_state
from numaudit.scenario.machine import Devices
from numaudit.scenario.values import Node, PodsHere, Setup
from numaudit.topology.nodeset import NodeSet

DEVICES_WITHOUT_PLACE = (
    "the kubelet did not say on which nodes free devices are (GetAllocatableResources), and its checkpoint has the "
    "nodes of devices in use only; so the free ones count as devices without a node"
)
DEVICES_ELSEWHERE = (
    "a device plugin says that devices ({}) are on NUMA nodes that this machine lacks, so their nodes are not known, "
    "and they count as devices without a node"
)
DEVICES_LOST = "the kubelet's checkpoint of its devices is damaged, so no device counts"


def pod_names(
    checkpoints: Iterable[Checkpoint], readings: KubeletReadings, with_cgroup: Set[str] | None = None
) -> dict[str, PodName]:
    """By UID, those of which anything is known. The checkpoints were read before the pods.

    `with_cgroup`: the UIDs of the pods that have a cgroup, which says who lives where the pods are not listed; None =
    not known.
    """
    named = {one.pod_uid: (one.namespace, one.pod) for one in readings.log.records if one.pod_uid is not None}
    named.update({uid: (one.namespace, one.pod) for uid, one in readings.log.rejections.items()})
    found: dict[str, PodName] = {}
    for uid in dict.fromkeys(uid for checkpoint in checkpoints for uid in _uids(checkpoint)):
        pod = (readings.pods or {}).get(uid)
        if pod is not None:
            found[uid] = PodName(pod.namespace, pod.name, pod.has_ended)
            continue
        stale = True if readings.pods_are_current else _lacks_cgroup(uid, readings, with_cgroup)
        if stale is not None or uid in named:
            namespace, name = named.get(uid, (None, None))
            found[uid] = PodName(namespace, name, stale)
    return found


def _lacks_cgroup(uid: str, readings: KubeletReadings, with_cgroup: Set[str] | None) -> bool | None:
    """A pod gets its cgroup a moment after its entry. Where no pod has one, they may be out of sight."""
    if not with_cgroup:
        return None
    if uid in with_cgroup:
        return False
    return True if readings.cgroups_are_settled else None


def _uids(checkpoint: Checkpoint) -> Iterable[str]:
    if isinstance(checkpoint, DeviceCheckpoint):
        return [entry.pod_uid for entry in checkpoint.entries or ()]
    if isinstance(checkpoint, ClaimCheckpoint):
        return [uid for claim in checkpoint.claims or () for uid in claim.pod_uids or ()]
    return [*(checkpoint.entries or {}), *(checkpoint.pod_entries or {})]


def pods_of(checkpoints: Iterable[Checkpoint], readings: KubeletReadings, with_cgroup: Set[str] | None) -> PodsHere:
    """`with_cgroup`: the UIDs of the pods that have a cgroup; None = not known.

    A pod whose phase is terminal counts no more, one that is about to be deleted still does.
    Source: pkg/kubelet/kubelet_pods.go (filterOutInactivePods).
    """
    names = pod_names(checkpoints, readings, with_cgroup)
    state = next((one for one in readings.polled if one.name == "pods"), None)
    reason = None if state is None else state.reason
    if readings.pods is None or not readings.pods_are_current:
        return PodsHere(names, problem=f"the kubelet's pods are not known ({reason})")
    alive = sorted((one for one in readings.pods.values() if not one.has_ended), key=lambda one: one.created_at or 0.0)
    active = tuple(one.spec for one in alive if one.spec is not None)
    return PodsHere(
        names, active, None if reason is None else f"not all of the kubelet's pods are understood ({reason})"
    )


def node_here(
    readings: KubeletReadings | None,
    asked: AskedKubelet,
    *,
    folder: str,
    with_cgroup: Set[str] | None,
    storage: int | None,
    start: StartForecaster = starting,
    restore: Callable[..., Node] | None = None,
) -> Node:
    """The node as its kubelet knows it. Raises Unavailable where that is too little to admit a pod, and InputError as
    `restored_node` does.

    `folder`: the kubelet's root folder; `with_cgroup`: the UIDs of the pods that have a cgroup, None = not known;
    `storage`: bytes of the folder's file system, None = not known, as in a captured tree. `start`: see `kubelet_here`;
    `restore` is `restored_node`, or remembers its result.
    """
    if readings is not None and readings.machine is None:
        raise Unavailable(readings.machine_problem or "this machine cannot be read whole")
    here = None if readings is None else kubelet_here(readings, asked, start)
    if readings is None or readings.machine is None or here is None or here.config.document is None:
        raise Unavailable(f"no configuration of a kubelet was found on this host (in {folder})")
    unread = [one.detail for one in readings.checkpoints.values() if one.problem == "unreadable"]
    if unread:
        raise Unavailable(str(unread[0]))
    decoded = readings.checkpoints
    files = Files(**{name: decoded[kind].data for name, kind in _FILES.items()})
    content = {kind: one.content[0] for kind, one in decoded.items() if one.content is not None}
    notices = []
    if files.devices is not None and not _is_sound(decoded[DEVICES]):
        files = replace(files, devices=None)
        notices.append(DEVICES_LOST)
    listed = readings.allocatable_devices or {}
    there = NodeSet.from_ids(one.id for one in readings.machine.nodes)
    checkpoint = content.get(DEVICES) if files.devices is not None else None
    devices, unplaced, elsewhere = devices_of(checkpoint, listed, there)
    version = here.starting.kubelet.version
    configuration = changed_document(here.config.document, asked)
    setup = Setup(readings.machine, configuration, f"{version[0]}.{version[1]}", devices)
    pods = pods_of(content.values(), readings, with_cgroup)
    return (restore or restored_node)(setup, files, pods, storage, tuple(notices), unplaced, elsewhere)


_FILES = {"memory": MEMORY, "cpu": CPU, "devices": DEVICES}


def restored_node(
    setup: Setup,
    files: Files,
    pods: PodsHere,
    storage: int | None = None,
    notices: tuple[str, ...] = (),
    unplaced: frozenset[str] = frozenset(),
    elsewhere: frozenset[str] = frozenset(),
) -> Node:
    """The node of a kubelet that has these files. Pods in the files that are known to be gone do not count.

    Where all pods of the node are known, what they ask for is added up; `storage`: see `node_here`. Raises InputError
    where such a kubelet would not start with the files, or refuses its configuration.
    """
    state, names = starting_state(setup, files), pods.names
    active = {pod.uid: pod for pod in pods.active}
    in_files = {
        uid: replace(pod, namespace=one.namespace, name=one.pod)
        if (one := names.get(uid)) is not None and one.namespace and one.pod
        else pod
        for uid, pod in state.pods.items()
        if not (uid in names and names[uid].stale)
    }
    capacity = None
    if pods.problem is None:
        capacity = Capacity.of(setup.allocatable(storage), active, setup.kubelet.features)
    state = replace(state, pods={**in_files, **active}, capacity=capacity)
    return Node(setup, state, pods, notices, unplaced, elsewhere)


def _is_sound(file: CheckpointFile) -> bool:
    return file.content is not None and file.content[1].is_valid


def devices_of(
    checkpoint: Checkpoint | None, listed: NodesOfDevices, there: NodeSet
) -> tuple[Devices, frozenset[str], frozenset[str]]:
    """The healthy devices that plugins have registered; the resources of which some are in an unknown place; and those
    of these whose plugin names nodes that are not `there`.

    The checkpoint has the nodes of devices that a pod holds, `listed` those of all that the kubelet may give.
    """
    if not isinstance(checkpoint, DeviceCheckpoint):
        return {}, frozenset(), frozenset()
    held = _nodes_of_held(checkpoint)
    devices, unplaced, elsewhere = dict[str, dict[str, Device]](), set[str](), set[str]()
    for resource, ids in (checkpoint.registered or {}).items():
        named = {**held.get(resource, {}), **listed.get(resource, {})}
        nodes = {one: places for one, places in named.items() if places is None or not places - there}
        devices[resource] = {one: Device(one, nodes.get(one)) for one in ids or ()}
        if not nodes.keys() >= devices[resource].keys():
            unplaced.add(resource)
        if nodes.keys() != named.keys():
            elsewhere.add(resource)
            unplaced.add(resource)
    return devices, frozenset(unplaced), frozenset(elsewhere)


def _nodes_of_held(checkpoint: DeviceCheckpoint) -> NodesOfDevices:
    found: dict[str, dict[str, NodeSet | None]] = {}
    for entry in checkpoint.entries or ():
        nodes = found.setdefault(entry.resource_name, {})
        for node, ids in (entry.device_ids or {}).items():
            for one in ids or ():
                nodes[one] = None if node == NO_NODE else (nodes.get(one) or NodeSet()) | NodeSet.of(node)
    return found
