"""Headroom for people: the map by node, the largest admitted containers, and the holders of groups."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from numaudit.containermanager.pod.spec import MEMORY, full_name
from numaudit.errors import printable
from numaudit.report.memory_manager import HolderReport, MemoryManagerReport
from numaudit.report.words import amounts
from numaudit.views.headroom import HUGE_PAGES, largest, largest_with_huge_pages, map_columns, map_rows, warnings
from numaudit.views.terminal.fit import print_columns
from numaudit.views.terminal.terminal import print_note


def print_headroom(manager: MemoryManagerReport, out: Console, *, whole: bool = True) -> None:
    """The largest container that would be admitted, then the memory map by node, and who holds it.

    `whole` False: no legend, and holders only of groups of several nodes.
    """
    print_note(largest(manager), out, "bold")
    columns = [(column, place) for column, place in map_columns(manager) if column.title != "TYPE"]
    print_columns(columns, [row for row in map_rows(manager) if row.table.type == MEMORY], out, explains=whole)
    if manager.huge_pages:
        out.print()
        print_columns(HUGE_PAGES, list(manager.huge_page_rows()), out, explains=whole)
        for line in largest_with_huge_pages(manager):
            print_note(line, out)
    for line in _holders(manager, whole):
        print_note(line, out)
    for line in warnings(manager):
        print_note(line, out, "yellow")


def _holders(manager: MemoryManagerReport, whole: bool) -> Iterator[str]:
    by_group: dict[tuple[int, ...], list[HolderReport]] = {}
    for one in manager.holders:
        by_group.setdefault(tuple(one.group), []).append(one)
    for nodes, holders in by_group.items():
        if whole or len(nodes) > 1:
            what = (
                f"group {holders[0].group} is kept together by" if len(nodes) > 1 else f"node {nodes[0]} is promised to"
            )
            yield f"{what} {', '.join(map(_holder, holders))}"


def _holder(one: HolderReport) -> str:
    stale = "; stale" if one.stale else ""
    return printable(f"{full_name(one.namespace, one.pod, one.pod_uid, None)} ({amounts(one.bytes)}{stale})")
