"""The table of `numaudit state forecast`, for people."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from numaudit.errors import printable
from numaudit.memorymanager.forecast import Forecast, PodForecast
from numaudit.topology.nodeset import IdSet
from numaudit.views.terminal import new_table, print_table

_STYLE = {"refused": "red", "elsewhere": "yellow", "kept": "green"}


def print_forecast(found: Forecast, out: Console) -> None:
    """One sentence, then the pods that hold or held something or are refused, those that lose most first."""
    _line(out, _summary(found))
    if found.refusal is not None:
        _line(out, f"the kubelet does not start: {printable(found.refusal)}")
        _line(out, "so the pods are as if its state files were removed first, which lets it start:")
    shown = [one for one in found.pods if one.fate == "refused" or one.nodes_then or one.cpus_then]
    if not shown:
        return
    table = new_table("POD", "FATE", "MEMORY NOW", "THEN", "CPUS NOW", "THEN", "~WHY")
    for one in sorted(shown, key=lambda one: list(_STYLE).index(one.fate)):
        table.add_row(
            printable(f"{one.namespace}/{one.pod}"),
            Text(one.fate, _STYLE[one.fate]),
            _set(one.nodes_now),
            _set(one.nodes_then),
            _set(one.cpus_now),
            _set(one.cpus_then),
            _why(one),
        )
    print_table(table, out)


def _summary(found: Forecast) -> str:
    counts = Counter(one.fate for one in found.pods)
    what = "a reboot of the node" if found.reboot else "a restart of the kubelet"
    if found.is_safe:
        return f"{what} changes nothing for its {len(found.pods)} Guaranteed pods"
    return f"{what}: {counts['refused']} pods refused, {counts['elsewhere']} placed elsewhere, {counts['kept']} kept"


def _set(ids: IdSet | None) -> str:
    return "-" if ids is None else str(ids)


def _why(one: PodForecast) -> str:
    return "" if one.reason is None else printable(f"{one.reason}: {one.message}")


def _line(out: Console, text: str) -> None:
    out.print(Text(text), soft_wrap=True)
