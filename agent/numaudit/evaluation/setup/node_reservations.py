"""How much memory the system needs on each node, and how a sum is divided among nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.evaluation.headroom import held_without_promise
from numaudit.evaluation.setup.reservations import kept_by_kernel
from numaudit.evaluation.setup.rule import CannotJudge, SetupEvidence
from numaudit.topology.quantity import in_units

Reserve = Literal["measured", "even"]
STEP = 64 << 20
"""What is measured on a node is rounded up to a multiple of this, for memory in use differs from minute to minute. So
much of each node is never reserved: MemTotal may be less after a reboot, and a kubelet that reserves more than a node
has counts 2^64 bytes as its own.
"""
_MIB = 1 << 20


class NodeReservation(Struct, frozen=True):
    """Bytes to reserve on one node, and why as many."""

    size: int
    reason: str


def reserve_by_node(
    evidence: SetupEvidence, how: Reserve, *, least: int, threshold: int, is_set: bool
) -> tuple[dict[int, NodeReservation], tuple[str, ...]]:
    """Memory to reserve by node, at least `least` bytes in all; and what was not known.

    `threshold`: bytes of free memory below which the kubelet evicts pods. `is_set`: does the configuration name an
    amount for the system, which counts where what is in use is not known? Raises Unavailable.
    """
    rooms = _rooms(evidence)
    needs: Mapping[int, NodeReservation] = {}
    notes: tuple[str, ...] = ()
    try:
        needs, notes = _needs(evidence, rooms, threshold)
    except CannotJudge as error:
        if how == "measured" or not is_set:
            raise Unavailable(f"what the system needs of each node was not measured: {error}") from None
        notes = (f"The sum is as it is set; what is in use was not measured: {error}.",)
    total, most = max(least, sum(one.size for one in needs.values())), sum(rooms.values())
    if total > most:
        raise Unavailable(
            f"the system needs {in_units(total)}, and its nodes have {in_units(most)} besides huge pages and what a "
            "reboot may take"
        )
    if how == "even":
        parts = spread(_equal(total, len(rooms), most) if total > least else total, rooms)
        return {node: NodeReservation(size, "") for node, size in parts.items() if size}, notes
    more = spread(
        total - sum(one.size for one in needs.values()), {node: room - needs[node].size for node, room in rooms.items()}
    )
    return {
        node: NodeReservation(
            one.size + more[node],
            f"{one.reason}{f' {in_units(more[node])} more, for the sum is set.' if more[node] else ''}",
        )
        for node, one in needs.items()
    }, notes


def spread(amount: int, rooms: Mapping[int, int]) -> dict[int, int]:
    """Equal parts of an amount by node, in whole MiB as far as that is possible, and no more than each has room for.

    The rooms together hold the amount.
    """
    parts: dict[int, int] = {}
    for place, (node, room) in enumerate(sorted(rooms.items(), key=lambda one: (one[1], one[0]))):
        equal = -(-amount // (len(rooms) - place))
        parts[node] = min(room, amount, -(-equal // _MIB) * _MIB)
        amount -= parts[node]
    return dict(sorted(parts.items()))


def _equal(total: int, nodes: int, most: int) -> int:
    """Rounded up so that each part is whole steps, where the nodes have as much."""
    return min(most, -(-total // (STEP * nodes)) * STEP * nodes)


def _rooms(evidence: SetupEvidence) -> dict[int, int]:
    """Bytes of each node that can be reserved, in whole MiB; no entry where there are none. Raises Unavailable."""
    found = {}
    for node in evidence.machine.nodes:
        if node.memory is None:
            raise Unavailable(f"MemTotal of node {node.id} cannot be read, so nothing can be reserved by node")
        huge = sum(pages.total * pages.page_size for pages in node.huge_pages)
        found[node.id] = (node.memory - huge - STEP) // _MIB * _MIB
    return {node: room for node, room in found.items() if room > 0}


def _needs(
    evidence: SetupEvidence, rooms: Mapping[int, int], threshold: int
) -> tuple[dict[int, NodeReservation], tuple[str, ...]]:
    """What the system needs of each node now, and what was not known. Raises CannotJudge.

    Memory that the kernel keeps free is free for the kubelet too, so it counts against the threshold of eviction.
    """
    snapshot = evidence.snapshot
    if evidence.residency and not snapshot.is_whole_host:
        raise CannotJudge("only a part of this host's cgroups can be seen; run it on the host itself")
    kernel = {one.node: one.kernel_held for one in snapshot.nodes}
    guaranteed = frozenset(one.id for one in snapshot.containers if one.qos == "Guaranteed")
    pods = frozenset(one.id for one in snapshot.containers if one.pod_uid is not None)
    held, by_services = held_without_promise(snapshot, guaranteed), held_without_promise(snapshot, guaranteed | pods)
    found, unknown = {}, dict[str, None]()
    for node, room in rooms.items():
        own = kernel.get(node)
        if own is None:
            raise CannotJudge(f"the kernel's own memory on node {node} cannot be read")
        kept, share = 0, threshold // len(rooms)
        try:
            kept = kept_by_kernel(evidence, node)
        except CannotJudge as error:
            unknown[f"What the kernel keeps free on each node is not known: {error}."] = None
        in_use, services = held.get(node, 0), by_services.get(node, 0)
        size = -(-(in_use + own + max(kept, share)) // STEP) * STEP
        free = f"{in_units(kept)} (kept by the kernel)" if kept > share else f"{in_units(share)} (part of evictionHard)"
        reason = (
            f"In use: services {in_units(services)}, pods that are not Guaranteed {in_units(in_use - services)}, "
            f"kernel {in_units(own)}. To stay free: {free}."
        )
        found[node] = NodeReservation(
            min(size, room), reason + (" The node has too little for all of it." if size > room else "")
        )
    if snapshot.unattributed is None:
        unknown["Memory that belongs to no container or service was not measured."] = None
    if snapshot.not_resident:
        unknown[f"The memory of {len(snapshot.not_resident)} containers or services was not, or not wholly, read."] = (
            None
        )
    return found, tuple(unknown)
