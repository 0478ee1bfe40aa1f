"""Texts and tables of the page: what is wrong and what to do, refused pods, headroom, state files, what is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from numaudit.containermanager.pod.spec import MEMORY, full_name
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.columns import Placed
from numaudit.report.kubelet import CheckpointReport
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.report.values import Report
from numaudit.report.words import UNKNOWN, amounts, count_kinds, in_utc, kinds_in_words, requested
from numaudit.topology.quantity import some_of
from numaudit.views.headroom import (
    HUGE_PAGES,
    MapRow,
    largest,
    largest_with_huge_pages,
    map_columns,
    map_rows,
    warnings,
)
from numaudit.views.notes import (
    Note,
    NoteItem,
    finding_notes,
    not_known,
    sources_in_trouble,
    state_notes,
    verdict_notes,
)
from numaudit.views.page.markup import (
    Markup,
    PageSection,
    columns_table,
    element,
    explanations,
    folded_list,
    prose,
    short,
    table,
)
from numaudit.views.page.own_page import Addresses


def headroom_part(report: Report) -> PageSection | None:
    """The Memory Manager's room for new containers; nothing on a host without a kubelet."""
    manager = report.memory_manager
    if manager is None and report.kubelet is None:
        return None
    none = element("p", "There is no memory map of the kubelet's Memory Manager.")
    return PageSection("headroom", "Headroom", (none,) if manager is None else tuple(_content(manager)))


def _content(manager: MemoryManagerReport) -> Iterator[Markup]:
    yield element("p", f"{largest(manager)}.")
    if manager.fragmentation_ratio is not None:
        yield element(
            "p",
            "Fragmentation = the share by which that is smaller than what all free memory would allow.",
            class_="facts",
        )
    columns, resources = map_columns(manager), tuple(map_rows(manager))
    memory = [row for row in resources if row.table.type == MEMORY]
    yield columns_table("Promised and free memory of each node", columns, memory)
    for line in warnings(manager):
        yield element("p", f"{line}.")
    yield element("details", element("summary", "What the columns mean"), explanations(columns))
    huge = [row for row in resources if row.table.type != MEMORY]
    if huge or manager.huge_pages:
        yield element("details", element("summary", "Huge pages"), _huge_pages(manager, columns, huge))
    if manager.holders:
        rows = (
            (
                str(one.group),
                short(full_name(one.namespace, one.pod, one.pod_uid, None)),
                amounts(one.bytes),
                "yes" if one.stale else UNKNOWN if one.stale is None else "",
            )
            for one in manager.holders
        )
        yield table("Pods that hold promised memory", ("Group", "Pod", "Holds", "Stale"), rows)


def _huge_pages(
    manager: MemoryManagerReport, columns: Sequence[Placed[MapRow]], rows: Sequence[MapRow]
) -> Iterator[Markup]:
    for line in largest_with_huge_pages(manager):
        yield element("p", f"{line}.")
    filled = [(column, place) for column, place in columns if any(column.text(row) for row in rows)]
    yield columns_table("By the memory map", filled, rows)
    if manager.huge_pages:
        yield columns_table("By the memory map and by the kernel", HUGE_PAGES, manager.huge_page_rows())
        yield explanations(HUGE_PAGES)


_NAMES = 10
"""Of a longer list the rest is counted."""


def findings_part(report: Report, addresses: Addresses) -> PageSection:
    """Misaligned containers and findings, each group with its one remedy."""
    notes = [*verdict_notes(report.containers), *finding_notes(report.findings)]
    parts = [_group(note, addresses) for note in sorted(notes, key=lambda note: not _is_critical(note))]
    found = element("div", parts, class_="groups") if parts else element("p", _nothing(report))
    return PageSection("findings", "Findings, and what to do", (found,))


def _nothing(report: Report) -> str:
    """Options such as --verdict leave out containers, of which the findings then say nothing."""
    shown, whole = len(report.containers), report.summary.containers
    if shown < whole:
        return f"Nothing was found about the selected {shown} of {whole} containers and cgroups."
    return "No container is misaligned, and nothing else was found."


def _is_critical(note: Note) -> bool:
    return note.title.startswith("critical: ")


def _group(note: Note, addresses: Addresses) -> Markup:
    number = f": {kinds_in_words(count_kinds(note.containers))}" if note.containers else ""
    bad = note.title in MISALIGNED or _is_critical(note)
    todo = element("p", element("strong", "What to do: "), prose(note.remedy), class_="remedy") if note.remedy else ""
    title = element("h3", f"{note.title}{number}", class_="bad" if bad else None)
    items = [element("li", _item(item, addresses)) for item in note.items]
    return element("div", title, todo, folded_list(items), class_="group")


def _item(item: NoteItem, addresses: Addresses) -> Iterator[Markup | str]:
    if item.subject:
        name = short(item.subject)
        of = item.container
        yield element("strong", name) if of is None else element("a", name, href=addresses.nearest(of))
        yield ": " if item.text else ""
    yield item.text
    if item.names:
        yield f": {some_of([short(name) for name in item.names], _NAMES)}"
    if item.causes:
        yield element("ul", (element("li", cause) for cause in item.causes))
    yield from (element("p", element("code", command, class_="command")) for command in item.commands)


def refused_part(report: Report) -> PageSection | None:
    """Pods that the kubelet refused; nothing where there are none."""
    if not report.rejections:
        return None
    rows = (
        (_pod(one), one.outcome, one.message or "", requested(one), "" if one.at is None else in_utc(one.at))
        for one in report.rejections
    )
    titles = ("Pod", "Outcome", "The kubelet's words", "Asked for", "When")
    return PageSection("refused", "Refused pods", (table("Pods that the kubelet refused", titles, rows),))


def _pod(one: HintOutcome) -> str:
    return short(f"{one.namespace}/{one.pod}")


def state_part(checkpoints: Sequence[CheckpointReport]) -> PageSection | None:
    """The kubelet's checkpoints; nothing on a host without a kubelet."""
    if not checkpoints:
        return None
    words = {True: "yes", False: "no", None: "-"}
    rows = (
        (one.file, one.problem or "none", words[one.valid], one.starts_now, one.starts_after_reboot)
        for one in checkpoints
    )
    titles = ("File", "Problem", "Valid", "Starts now", "Starts after a reboot")
    found = (
        _group(note, Addresses())
        for one in checkpoints
        for note in state_notes(replace(each, message=f"{one.file}: {each.message}") for each in one.findings)
    )
    caption = "Would the kubelet start with them?"
    return PageSection("state", "The kubelet's state files", (table(caption, titles, rows), *found))


def unknown_part(report: Report) -> PageSection | None:
    """Unknown figures with their reasons."""
    in_trouble = (NoteItem(f"{sources}: {why}") for sources, why in sources_in_trouble(report))
    items = [element("li", _item(one, Addresses())) for one in (*not_known(report, report.containers), *in_trouble)]
    if not items:
        return None
    return PageSection("unknown", "What is not known, and why", tuple(folded_list(items)))
