"""The room of a node beside its memory map: CPUs, and what its pods do not request. Pure."""

from __future__ import annotations

from collections.abc import Set

from numaudit.containermanager.cpu.room import cpu_room
from numaudit.containermanager.predicates import unrequested
from numaudit.errors import InputError, Unavailable
from numaudit.intent.node import NodeRoom
from numaudit.kubelet.questions.kubelet_here import StartForecaster
from numaudit.kubelet.questions.node_here import NodeHere, node_here, state_of
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.kubelet.sources.memo import Memo
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.memorymanager.admission import reconcile


def room_of(node: NodeHere) -> NodeRoom | None:
    """As the kubelet will see it when the next pod comes; None where it would not start with its files."""
    try:
        kubelet, state = node.setup.kubelet, state_of(node.setup, node.files, node.pods, node.storage)
    except InputError:  # `state verify` and `explain` say why
        return None
    state = reconcile(state, version=kubelet.features.version)
    left = None
    if state.capacity is not None:
        left = unrequested(state.pods.values(), state.capacity, kubelet.features)
    cpus = None if kubelet.cpu is None or state.cpu is None else cpu_room(kubelet.cpu, state.cpu)
    return NodeRoom(cpus, left, None if kubelet.cpu is None else kubelet.cpu.reserved, kubelet, state, node.unplaced)


def room_here(
    readings: KubeletReadings, with_cgroup: Set[str], of_node: Memo[[NodeHere], NodeRoom | None], start: StartForecaster
) -> NodeRoom | None:
    """The same of what was read; None where that is too little. `of_node` is `room_of` and remembers its result, as
    does `start`, see `kubelet_here`."""
    try:
        node = node_here(
            readings, AskedKubelet(), folder=readings.folder, with_cgroup=with_cgroup, storage=None, start=start
        )
    except Unavailable:
        return None
    return of_node(node)
