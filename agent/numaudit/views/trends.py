"""The last ticks of the page's numbers: those of the host, and of each container its bytes outside and remote share.

Bounded in number and size. A tick replaces values as a whole, so other threads may read them meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from numaudit.report.values import ContainerReport, Report

KEPT = 60
"""Ticks."""
MOST = 4096
"""Containers, in the report's order: the worst first."""
_WIDE = 4
"""Bytes of memory for an amount, which is kept in KiB."""
_UNKNOWN_AMOUNT, _UNKNOWN_SHARE = (1 << 8 * _WIDE) - 1, 255
_Key = int | tuple[str | None, str | None]


class Trends:
    """Sequences with the newest tick last; None = not known at that tick."""

    def __init__(self) -> None:
        self._host: tuple[tuple[int, int, int], ...] = ()
        self._containers: dict[_Key, tuple[bytes, bytes]] = {}

    def add(self, report: Report) -> None:
        """One tick. Containers that are gone are forgotten."""
        summary = report.summary
        self._host = (*self._host[1 - KEPT :], (summary.aligned, summary.misaligned, summary.refused_pods))
        before, now = self._containers, {}
        for one in report.containers[:MOST]:
            amounts, shares = before.get(_key(one), (b"", b""))
            amounts = amounts[_WIDE * (1 - KEPT) :] + _amount(one).to_bytes(_WIDE, "little")
            now[_key(one)] = amounts, shares[1 - KEPT :] + bytes((_share(one),))
        self._containers = now

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
        kept = self._containers.get(_key(one), (b"", b""))[0]
        amounts = (int.from_bytes(kept[at : at + _WIDE], "little") for at in range(0, len(kept), _WIDE))
        return [None if amount == _UNKNOWN_AMOUNT else amount << 10 for amount in amounts]

    def remote_share(self, one: ContainerReport) -> Sequence[int | None]:
        """Measured remote share in per cent."""
        return [None if share == _UNKNOWN_SHARE else share for share in self._containers.get(_key(one), (b"", b""))[1]]


def _key(one: ContainerReport) -> _Key:
    return (one.pod_uid, one.container) if one.id is None else one.id


def _amount(one: ContainerReport) -> int:
    """In KiB; a little is not nothing."""
    amount = one.remote_bytes if one.misplaced_bytes is None else one.misplaced_bytes
    return _UNKNOWN_AMOUNT if amount is None else min(-(-max(amount, 0) >> 10), _UNKNOWN_AMOUNT - 1)


def _share(one: ContainerReport) -> int:
    if one.measured is None:
        return _UNKNOWN_SHARE
    share = one.measured.lower
    return min(100, max(round(100 * share), 1 if share else 0))
