"""Remote shares of containers over the last ticks, as small drawings. Bounded in number and size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from numaudit.report.values import ContainerReport, Report
from numaudit.views.top.news import RowKey, key_of

KEPT = 60
"""Ticks."""
_MOST = 10_000
"""Containers; of more nobody looks at the last."""
_UNKNOWN = 255
_LEVELS = "▁▂▃▄▅▆▇█"


class ShareTrends:
    """Of each container of the newest tick its shares in per cent, a byte each."""

    def __init__(self) -> None:
        self._shares: dict[RowKey, bytes] = {}
        self._by_access = False

    @property
    def of_what(self) -> str:
        return "accesses" if self._by_access else "bytes"

    def add(self, report: Report) -> None:
        """One tick. Containers that are gone are forgotten, and all when the shares are of something else now."""
        by_access = any(one.measured is not None for one in report.containers)
        if by_access != self._by_access:
            self._shares.clear()
            self._by_access = by_access
        before = self._shares
        self._shares = {}
        for one in report.containers[:_MOST]:
            key = key_of(one)
            earlier = before.get(key, b"")[1 - KEPT :]
            self._shares[key] = earlier + bytes([_per_cent(one, by_access)])

    def have_begun(self) -> bool:
        """Is there more than one tick of any container?"""
        return any(len(one) > 1 for one in self._shares.values())

    def shares(self, key: RowKey) -> Sequence[int | None]:
        """Per cent, the newest last; None = not known at that tick."""
        return [None if one == _UNKNOWN else one for one in self._shares.get(key, b"")]


def drawn(shares: Iterable[int | None]) -> str:
    """A block for each: the lowest for nothing, the next for a little, the full one for 100 %; a blank = not known."""
    return "".join(" " if one is None else _LEVELS[-(-one * (len(_LEVELS) - 1) // 100)] for one in shares)


def _per_cent(one: ContainerReport, by_access: bool) -> int:
    """Rounded, but a little is not nothing."""
    if by_access:
        share = None if one.measured is None else one.measured.lower
    elif one.remote_bytes is None or one.judged_bytes is None:
        share = None
    else:
        share = one.remote_bytes / one.judged_bytes if one.judged_bytes else 0.0
    if share is None:
        return _UNKNOWN
    return min(100, max(round(100 * share), 1 if share else 0))
