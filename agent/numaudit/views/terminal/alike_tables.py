"""Which nodes of a cluster are set up alike, for people. Every name is a server's word, so it is made printable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from numaudit.api.cluster_document import NodeComparison, NodeGroup, UnlikeSetting, UnlikeValue
from numaudit.errors import printable
from numaudit.evaluation.setup.facts import MEMORY, RESERVED
from numaudit.topology.quantity import in_units, plural, some_of
from numaudit.views.terminal.terminal import TableRow, print_note, print_rows

_MOST_ROWS = 50
"""Of a group; JSON has all."""
_MOST_NAMES = 5
_LONGEST = 2000
"""Characters of a value, such as a kernel's command line: long ones differ near their end."""


def print_comparison(found: NodeComparison, out: Console) -> None:
    """A sentence and a table for each group, then nodes that were not compared."""
    for group in found.groups:
        _print_group(group, found.label, out)
    for one in found.not_compared:
        print_note(printable(f"{one.node}: not compared: {_short(one.problem or 'no answer')}"), out, "yellow")
    for notice in found.notices:
        print_note(printable(notice), out)


def _print_group(group: NodeGroup, label: str, out: Console) -> None:
    rows = [row for one in group.unlike for row in _rows(one)]
    differing = {name for one in group.unlike for value in one.unlike for name in value.names}
    total = len(group.names)
    what = f"all {total} nodes are alike" if total > 1 else f"only {group.names[0]}, so nothing is compared"
    if differing:
        what = f"{len(differing)} of {plural(total, 'node')} {'is' if len(differing) == 1 else 'are'} unlike"
    value = "without the label" if group.label_value is None else group.label_value
    out.print(Text(printable(f"{label} {value}: {what}"), "bold"), soft_wrap=True)
    if rows:
        print_rows(("NODE", "SETTING", "~HAS", "~OTHERS HAVE"), rows[:_MOST_ROWS], out)
        if len(rows) > _MOST_ROWS:
            print_note(f"and {len(rows) - _MOST_ROWS} more; -o json lists them", out)
    if group.versions:
        print_note(printable(f"Mixed versions, upgrading? {'; '.join(map(_version, group.versions))}"), out)
    for name, settings in group.unknown.items():
        print_note(printable(f"{name}: not known, so not compared: {some_of(settings, _MOST_NAMES)}"), out)
    out.print()


def _rows(one: UnlikeSetting) -> Iterator[TableRow]:
    setting = one.name if one.numa_node is None else f"{one.name} of node {one.numa_node}"
    values = [value.value for value in one.unlike] + ([] if one.majority is None else [one.majority])
    words = dict(zip(values, _in_words(one.name, values), strict=True))
    for value in one.unlike:
        others = [words[other.value] for other in one.unlike if other is not value]
        reference = words[one.majority] if one.majority is not None else f"{some_of(others)} (no majority)"
        yield (*map(printable, (_names(value), setting, words[value.value], reference)),)


def _names(value: UnlikeValue) -> str:
    return some_of(value.names, _MOST_NAMES)


def _in_words(name: str, values: Sequence[str | int]) -> list[str]:
    """Sizes in units, or in bytes where these would look the same."""
    if name not in (MEMORY, RESERVED):
        return [_short(str(value)) for value in values]
    words = [in_units(value) if isinstance(value, int) else _short(value) for value in values]
    return words if len(set(words)) == len(values) else [str(value) for value in values]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _version(one: UnlikeSetting) -> str:
    """kernel 6.12 on worker-7, others 6.1."""
    parts = [f"{_short(str(value.value))} on {_names(value)}" for value in one.unlike]
    return f"{one.name} {', '.join([*parts, *([] if one.majority is None else [f'others {one.majority}'])])}"
