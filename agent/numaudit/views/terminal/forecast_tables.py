"""The table of `numaudit forecast`, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from numaudit.checkpoints.start.findings import MEANINGS
from numaudit.errors import printable
from numaudit.memorymanager.forecast import Fate, Forecast, PodForecast
from numaudit.topology.nodeset import IdSet
from numaudit.topology.quantity import plural
from numaudit.views.terminal.terminal import new_table, print_table

_STYLE = {"refused": "red", "elsewhere": "yellow", "unknown": "yellow", "kept": "green"}


def print_forecast(found: Forecast, out: Console) -> None:
    """The answer, why, and the pods that hold or held something or are refused, those that lose most first."""
    for line in _answer(found):
        _line(out, line)
    for obstacle in found.obstacles:
        _line(out, printable(f"  {obstacle.file}: {obstacle.name}: {obstacle.message}"))
    for name in dict.fromkeys(one.name for one in found.obstacles):
        _line(out, f"    -> {MEANINGS[name].remedy}")
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


def _answer(found: Forecast) -> Iterator[str]:
    what = "a reboot of the node" if found.reboot else "a restart of the kubelet"
    fate = _fate_of_pods(found)
    match found.starts:
        case "yes":
            yield f"{what.capitalize()} would {fate}."
        case "no":
            words = found.refusal or "its message is not known"
            yield f"The kubelet would not start after {what}: {printable(words)}"
            if found.pods_problem is not None:
                yield f"The fate of the pods is not known: {printable(found.pods_problem)}"
            else:
                yield f"Once its state files are removed, a start would {fate}."
        case "at risk":
            yield f"The kubelet may not start after {what}. If it starts, that would {fate}."
        case "once":
            yield f"{what.capitalize()} would {fate}. The kubelet starts once, but not again after that."
        case "unknown":
            yield f"It is not known whether the kubelet starts after {what}. If it starts, that would {fate}."


def _fate_of_pods(found: Forecast) -> str:
    """The end of a sentence."""
    counts = Counter(one.fate for one in found.pods)
    pods = plural(len(found.pods), "Guaranteed pod")
    if counts["kept"] == len(found.pods):
        return f"change nothing for its {pods}"
    explained = any(one.fate == "unknown" and one.reason is None and one.message for one in found.pods)
    verbs: dict[Fate, str] = {"refused": "refuse", "elsewhere": "move", "kept": "keep"}
    fates = [f"{verb} {counts[fate]}" for fate, verb in verbs.items() if counts[fate]]
    if not fates:
        return f"have an unknown effect on its {pods}{'' if explained else ', whose present nodes are not known'}"
    *first, last = fates
    said = f"{', '.join(first)} and {last}" if first else last
    what = "the fate" if explained else "the present nodes"
    unknown = f"; {what} of {counts['unknown']} {'is' if explained else 'are'} not known" if counts["unknown"] else ""
    return f"{said} of its {pods}{unknown}"


def _set(ids: IdSet | None) -> str:
    return "-" if ids is None else str(ids)


def _why(one: PodForecast) -> str:
    return printable(": ".join(text for text in (one.reason, one.message) if text is not None))


def _line(out: Console, text: str) -> None:
    out.print(Text(text), soft_wrap=True)
