"""Pages that scan passes saw used, by kind of fault: joined, limited and by side. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numaudit.counted import HintFault

Pages = Mapping[HintFault, int]
NO_PAGES: Pages = {}


def bytes_by_side(pages: Pages, page_size: int) -> tuple[dict[tuple[int, int], int], dict[int, int], int]:
    """Bytes used from another node, by both; used from their own, by node; and brought to the CPU's node."""
    remote: dict[tuple[int, int], int] = {}
    local: dict[int, int] = {}
    home = 0
    for fault, count in pages.items():
        size = count * page_size
        if not size:
            continue
        if fault.has_moved:
            home += size
        elif fault.is_remote:
            pair = fault.cpu_node, fault.memory_node
            remote[pair] = remote.get(pair, 0) + size
        else:
            local[fault.memory_node] = local.get(fault.memory_node, 0) + size
    return remote, local, home


def most_of_each(processes: Iterable[Pages]) -> Pages:
    """By the page's node, and whether it was used from there: the pages of the process that has most of them."""
    most: dict[tuple[int, bool], Pages] = {}
    for pages in processes:
        sides: dict[tuple[int, bool], dict[HintFault, int]] = {}
        for fault, count in pages.items():
            sides.setdefault((fault.memory_node, fault.is_remote), {})[fault] = count
        for side, own in sides.items():
            if total_of(own) > total_of(most.get(side, NO_PAGES)):
                most[side] = own
    return {fault: count for pages in most.values() for fault, count in pages.items()}


def together(newest: Pages, before: Pages) -> Pages:
    """Two passes: each side as the one saw it that saw more; what was used from its own node as that which saw less.

    A side is the page's node, whether it is used from another one, and whether processes share it. A side that one of
    them left out is as the other saw it.
    """
    if not before:
        return newest
    if newest.keys() == before.keys() and len({fault.side for fault in newest}) == len(newest):
        # As in most passes. What an older pass brought home is used from there since.
        return {
            fault: count
            if fault.has_moved
            else max(count, before[fault])
            if fault.stays_remote
            else min(count, before[fault])
            for fault, count in newest.items()
        }
    sides: dict[tuple[int, bool, bool], tuple[dict[HintFault, int], dict[HintFault, int]]] = {}
    for place, pages in enumerate((newest, before)):
        for fault, count in pages.items():
            if place and fault.has_moved:  # what an older pass brought home is used from there since
                continue
            side = fault.side
            if side in sides:
                sides[side][place][fault] = count
            else:
                sides[side] = ({}, {fault: count}) if place else ({fault: count}, {})
    found: dict[HintFault, int] = {}
    for (_, is_remote, _), (now, then) in sides.items():
        more, less = (now, then) if total_of(now) >= total_of(then) else (then, now)
        found.update(more if is_remote or not less else less)
    return found


def without(pages: Pages, home: int) -> Pages:
    """Less the remote pages that have been brought home since: nobody says which, so each kind loses its part."""
    remote = _remote_of(pages)
    if not home or not remote:
        return pages
    left = max(0, remote - home)
    return {fault: count * left // remote if fault.stays_remote else count for fault, count in pages.items()}


def no_more_than(limit: int, pages: Pages, newer: Pages) -> Pages:
    """Less of the remote pages that the newer pass did not see, where there are more than the limit in all."""
    return without(pages, max(0, min(_remote_of(pages) - _remote_of(newer), total_of(pages) - limit)))


def _remote_of(pages: Pages) -> int:
    return sum(count for fault, count in pages.items() if fault.stays_remote)


def shared_of(pages: Pages) -> Pages:
    return {fault: count for fault, count in pages.items() if fault.is_shared}


def brought_home(pages: Pages) -> int:
    return sum(count for fault, count in pages.items() if fault.has_moved)


def most_of_both(one: Pages, other: Pages) -> Pages:
    return {fault: max(count, one.get(fault, 0)) for fault, count in {**one, **other}.items()}


def total_of(pages: Pages) -> int:
    return sum(pages.values())


def sum_of(one: Pages, other: Pages) -> Pages:
    return {fault: one.get(fault, 0) + other.get(fault, 0) for fault in {*one, *other}}
