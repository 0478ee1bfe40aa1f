"""Notes of a report: what is wrong and what to do, above its tables, and the reasons of other verdicts below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from rich.console import Console

from numaudit.containermanager.pod.names import full_name
from numaudit.errors import printable
from numaudit.evaluation.findings.rule import Severity
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.verdicts import MISALIGNED, Verdict, severity
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name, size
from numaudit.topology.quantity import at_most, plural
from numaudit.views.terminal.terminal import print_note

_SEVERITIES = get_args(Severity)
_MOST = 8
"""Containers of one remedy that are named above the table, which has them all."""


def print_what_to_do(report: Report, shown: Sequence[ContainerReport], out: Console, *, whole: bool) -> bool:
    """Findings, misaligned containers and refused pods, the worst first, each remedy once after those that it is for.

    `whole`: name every container. False = there is nothing to do.
    """
    misaligned = [one for one in shown if one.verdict is not None and one.verdict.name in MISALIGNED]
    print_findings(report, out)
    _print_verdicts(misaligned, out, None if whole else _MOST)
    _print_refused(report, out)
    return bool(report.findings or misaligned or report.rejections)


def print_reasons(shown: Sequence[ContainerReport], out: Console) -> None:
    """The reasons of the other verdicts."""
    _print_verdicts([one for one in shown if one.verdict is not None and one.verdict.name not in MISALIGNED], out)


def _print_refused(report: Report, out: Console) -> None:
    """A workload may have hundreds of pods that were refused for the same: they are one line."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for refused in report.rejections:
        same = refused.outcome, printable(refused.message or ""), _asked(refused)
        alike.setdefault(same, []).append(printable(f"{refused.namespace}/{refused.pod}"))
    for (outcome, message, asked), names in alike.items():
        print_note(f"refused: {some_of(names)}: {outcome}: {message}", out, "yellow")
        against = " ".join(filter(None, (asked, _admissible(report))))
        if against:
            print_note(f"    {against}", out, "dim")


def _asked(refused: HintOutcome) -> str:
    amounts = ", ".join(
        f"{size(amount)} of {printable(name)}" for name, amount in (refused.asked or {}).items() if amount
    )
    return f"Requested: {amounts}." if amounts else ""


def _admissible(report: Report) -> str:
    manager = report.memory_manager
    if manager is None or not manager.admissible:
        return ""
    largest = max(manager.admissible, key=lambda one: one.bytes)
    cpus = f" ({manager.cpus_in_words})" if manager.cpus_in_words else ""
    return (
        f"At most {at_most(largest.bytes)} of memory would be admitted now, on {plural(largest.nodes, 'node')}{cpus}."
    )


def some_of(names: Sequence[str]) -> str:
    """The first three, and how many more."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _print_verdicts(shown: Sequence[ContainerReport], out: Console, most: int | None = None) -> None:
    by_remedy: dict[tuple[str, str | None], list[tuple[ContainerReport, Verdict]]] = {}
    for one in sorted(shown, key=lambda one: severity(one.verdict)):
        if one.verdict is not None:
            by_remedy.setdefault((one.verdict.name, one.verdict.remedy), []).append((one, one.verdict))
    for (name, remedy), judged in by_remedy.items():
        for text, style in _verdict_lines(name, judged[:most]):
            print_note(text, out, style)
        if most is not None and len(judged) > most:
            print_note(f"and {len(judged) - most} more that are {name}; -o wide says of each why", out)
        if remedy is not None and name != "unmanaged":
            print_note(f"    -> {remedy}", out, "dim")
        elif remedy is not None and any(one.pod_uid for one, _ in judged):
            print_note(f"{name}: {remedy}", out, "dim")


def _verdict_lines(name: str, judged: Sequence[tuple[ContainerReport, Verdict]]) -> Iterator[tuple[str, str]]:
    """Text and style: one line for each container that is misaligned, one for each reason of the others."""
    by_reason: dict[str, list[str]] = {}
    for one, verdict in judged:
        if name in MISALIGNED:
            yield f"{display_name(one)}: {name}: {printable(verdict.reason)}", ""
        elif verdict.causes:
            yield f"{display_name(one)}: {_what_is_remote(one, verdict)}", ""
        for cause in verdict.causes:
            yield f"    {cause.cause}: {printable(cause.evidence)}", "dim"
        if name in ("unknown", "split") or verdict.reason == "access not measured":
            by_reason.setdefault(verdict.reason, []).append(display_name(one))
    for reason, names in by_reason.items():
        yield f"{name}: {printable(reason)} ({some_of(names)})", "yellow" if name == "unknown" else ""


def _what_is_remote(one: ContainerReport, verdict: Verdict) -> str:
    if all(cause.cause == "shared-memory" for cause in verdict.causes):
        return f"{verdict.name}, and it uses memory of others on other nodes"
    return f"{size(one.remote_bytes)} remote"


def print_findings(report: Report, out: Console) -> None:
    """Each remedy once, after the findings that it is for."""
    by_remedy: dict[str, list[str]] = {}
    for finding in sorted(report.findings, key=lambda one: _SEVERITIES.index(one.severity)):
        subject = full_name(finding.namespace, finding.pod, finding.pod_uid, finding.container)
        subject = f"{subject}: " if subject else ""
        by_remedy.setdefault(finding.remedy, []).append(
            f"{finding.severity}: {finding.name}: {printable(subject + finding.message)}"
        )
    for remedy, lines in by_remedy.items():
        for line in lines:
            print_note(line, out, "yellow")
        print_note(f"    -> {remedy}", out, "dim")
