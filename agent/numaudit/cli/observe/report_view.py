"""Selection, order and form of the rows of a report."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from numaudit.api.selection import first, in_order_of, narrow, of_verdicts
from numaudit.report.values import Report
from numaudit.report.words import is_small_remainder
from numaudit.snapshot import ContainerId

if TYPE_CHECKING:
    from rich.console import Console


class ReportSelection(Struct, frozen=True):
    """Contents of a report that the options of `numaudit report` select."""

    which: str | None = None
    namespace: str | None = None
    verdicts: Collection[str] | None = None
    sort: str = "verdict"
    top: int | None = None
    wide: bool = False
    has_all: bool = False
    """Does the output show what groups hold themselves, also next to nothing? Tables and pages leave that out."""
    nodes: bool = False
    """With the tables of nodes?"""
    processes: bool = False
    """With the processes of each container?"""
    hide: Callable[[Report, Report], Report] | None = None
    """Makes a report without names, of what was narrowed and of the whole; None = names are shown."""

    def subject(self, whole: Report) -> Report:
        """The selected part of the report. Raises InputError when nothing is called so."""
        subject = narrow(whole, self.which, self.namespace)
        return subject if self.hide is None else self.hide(subject, whole)

    def containers(self, whole: Report) -> frozenset[ContainerId]:
        """Those that it selects and that run. Raises InputError when nothing is called so."""
        found = narrow(whole, self.which, self.namespace).containers
        return frozenset(ContainerId(one.id) for one in found if one.id is not None)

    def rows(self, subject: Report) -> Report:
        """The rows that are shown of it."""
        chosen = subject if self.verdicts is None else of_verdicts(subject, self.verdicts)
        ordered = in_order_of(chosen, self.sort)
        if self.top is None:
            return ordered
        return first(ordered, self.top, lambda one: self.has_all or not is_small_remainder(one))

    def print(self, whole: Report, file: TextIO | None = None) -> Console:
        """Print the tables, on standard output if no file is given; returns the console. Raises as `subject`."""
        from numaudit.views.terminal import one_container, report_tables, terminal

        shown = self.rows(self.subject(whole))
        out = terminal.console(whole_lines=self.wide, file=file)
        of, is_named = len(whole.containers), self.which is not None
        report_tables.print_report(shown, out, wide=self.wide, nodes=self.nodes, of=of, is_named=is_named)
        if self.which is not None:
            one_container.print_processes(shown, out)
        if self.which is not None or self.wide:
            one_container.print_devices(shown, out, is_named=self.which is not None)
        if self.processes:
            one_container.print_process_tables(shown, out)
        if self.wide:
            report_tables.print_matrix(shown, out)
            report_tables.print_accesses(shown, out)
            report_tables.print_moved_pages(shown, out)
        return out
