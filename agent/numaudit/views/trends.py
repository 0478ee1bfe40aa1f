"""The last ticks of what the page and `numaudit top` draw: the host's numbers, and figures of each node and container.

A tick replaces values as a whole, so other threads may read them meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct

from numaudit.report.node_columns import NodeRow
from numaudit.report.values import ContainerReport, Report

KEPT = 60
"""Ticks."""
MOST = 4096
"""Containers, in the report's order: the worst first."""
_TICK = Struct("=IBB")
"""Of one container: its bytes outside in KiB, and its remote shares of accesses and of bytes in per cent."""
_UNKNOWN_AMOUNT, _UNKNOWN_SHARE = (1 << 32) - 1, 255

RowKey = tuple[str, ...]
"""Key of a container, which stays the same while its row moves, and when it is started again."""


def key_of(one: ContainerReport) -> RowKey:
    """Containers of a pod by their name, all others by their cgroup."""
    if one.pod_uid is None or one.kind == "pod":
        return (one.path or "",)
    return one.pod_uid, one.kind, one.container or one.container_id or one.path or ""


class Trends:
    """Sequences with the newest tick last; None = not known at that tick."""

    def __init__(self) -> None:
        self._host: tuple[tuple[int, int, int], ...] = ()
        self._ticks: Mapping[RowKey, bytes] = {}
        self._nodes: Mapping[int, bytes] = {}
        self._by_access = False

    def add(self, report: Report, nodes: Iterable[NodeRow] = ()) -> None:
        """One tick. Containers and nodes that are gone are forgotten."""
        summary, before = report.summary, self._ticks
        self._host = (*self._host[1 - KEPT :], (summary.aligned, summary.misaligned, summary.refused_pods))
        self._by_access = any(one.measured is not None for one in report.containers)
        rows = ((key_of(one), one) for one in report.containers[:MOST])
        self._ticks = {key: before.get(key, b"")[(1 - KEPT) * _TICK.size :] + _tick(one) for key, one in rows}
        shares = {row.node.numa_node: _per_cent(row.elsewhere.remote_ratio) for row in nodes}
        self._nodes = {node: self._nodes.get(node, b"")[1 - KEPT :] + bytes((share,)) for node, share in shares.items()}

    @property
    def aligned(self) -> Sequence[int]:
        """Containers, as misaligned ones; refused are pods."""
        return [one[0] for one in self._host]

    @property
    def misaligned(self) -> Sequence[int]:
        return [one[1] for one in self._host]

    @property
    def refused(self) -> Sequence[int]:
        return [one[2] for one in self._host]

    def outside(self, one: ContainerReport) -> Sequence[int | None]:
        """Judged bytes outside its promise; without a promise, on nodes that have none of its CPUs."""
        return [None if amount == _UNKNOWN_AMOUNT else amount << 10 for amount, _, _ in self._of(one)]

    def remote_accesses(self, one: ContainerReport) -> Sequence[int | None]:
        """Measured remote share of its accesses in per cent."""
        return [None if share == _UNKNOWN_SHARE else share for _, share, _ in self._of(one)]

    def remote(self, one: ContainerReport) -> Sequence[int | None]:
        """Remote share in per cent of its accesses; of its bytes where the newest tick measured no accesses."""
        if self._by_access:
            return self.remote_accesses(one)
        return [None if share == _UNKNOWN_SHARE else share for _, _, share in self._of(one)]

    def remote_of_node(self, node: int) -> Sequence[int | None]:
        """Remote share in per cent of the bytes that containers hold on the node."""
        return [None if share == _UNKNOWN_SHARE else share for share in self._nodes.get(node, b"")]

    @property
    def of_what(self) -> str:
        """The word for what `remote` is a share of."""
        return "accesses" if self._by_access else "bytes"

    def _of(self, one: ContainerReport) -> Sequence[tuple[int, int, int]]:
        return list(_TICK.iter_unpack(self._ticks.get(key_of(one), b"")))


def _tick(one: ContainerReport) -> bytes:
    amount = one.remote_bytes if one.misplaced_bytes is None else one.misplaced_bytes
    in_kib = _UNKNOWN_AMOUNT if amount is None else min(-(-max(amount, 0) >> 10), _UNKNOWN_AMOUNT - 1)
    of_bytes = None
    if one.remote_bytes is not None and one.judged_bytes is not None:
        of_bytes = one.remote_bytes / one.judged_bytes if one.judged_bytes else 0.0
    return _TICK.pack(in_kib, _per_cent(None if one.measured is None else one.measured.lower), _per_cent(of_bytes))


def _per_cent(share: float | None) -> int:
    """Rounded, but a little is not nothing."""
    return _UNKNOWN_SHARE if share is None else min(100, max(round(100 * share), 1 if share else 0))
