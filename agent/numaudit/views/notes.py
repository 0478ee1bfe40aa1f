"""Notes of a report: what is wrong, each kind with its one remedy, and what is not known. Views print them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from msgspec import Struct

from numaudit.checkpoints.start.findings import StateFinding
from numaudit.containermanager.pod.spec import full_name
from numaudit.evaluation.findings import Finding, Severity
from numaudit.evaluation.verdicts import MISALIGNED, Verdict, harm
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import ESTIMATE, display_name, share, size
from numaudit.snapshot.counted import Rates

_SEVERITIES = get_args(Severity)


class NoteItem(Struct, frozen=True):
    """One subject of a note."""

    text: str
    subject: str = ""
    """Name of what it is about; empty = the text names it."""
    container: ContainerReport | None = None
    """The container that it is about alone; None = a finding, or several containers."""
    causes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """The note's remedy with the values of this container."""
    names: tuple[str, ...] = ()
    """Of several containers for which the same holds."""


class Note(Struct, frozen=True):
    """What is of one kind and has one remedy."""

    title: str
    """Name of a verdict, or severity and name of findings: `warning: stale`."""
    remedy: str | None
    items: tuple[NoteItem, ...]
    containers: tuple[ContainerReport, ...] = ()
    """Of a verdict: all that have it."""


Judged = tuple[ContainerReport, Verdict]


def verdict_notes(containers: Iterable[ContainerReport]) -> list[Note]:
    """Containers that are misaligned, of unknown or split alignment, or have a cause beside it; the worst first."""
    groups: dict[tuple[str, str | None], list[Judged]] = {}
    for one in sorted(containers, key=lambda one: harm(one.verdict, one.bytes_elsewhere)):
        if one.verdict is not None and (one.verdict.name in (*MISALIGNED, "unknown", "split") or one.verdict.causes):
            groups.setdefault((one.verdict.name, one.verdict.remedy), []).append((one, one.verdict))
    return [
        Note(name, remedy, tuple(_items(judged)), tuple(one for one, _ in judged))
        for (name, remedy), judged in groups.items()
    ]


def _items(judged: Sequence[Judged]) -> Iterator[NoteItem]:
    """One for each container that is misaligned or has causes, one for each reason of others."""
    by_reason: dict[str, list[str]] = {}
    for one, verdict in judged:
        causes = tuple(f"{cause.cause}: {cause.evidence}" for cause in verdict.causes)
        if verdict.name in MISALIGNED:
            yield NoteItem(verdict.reason, display_name(one), one, causes, verdict.commands)
        elif causes:
            yield NoteItem(_what_is_remote(one, verdict), display_name(one), one, causes)
        if verdict.name in ("unknown", "split"):
            by_reason.setdefault(verdict.reason, []).append(display_name(one))
    for reason, names in by_reason.items():
        yield NoteItem(reason, names=tuple(names))


def _what_is_remote(one: ContainerReport, verdict: Verdict) -> str:
    if all(cause.cause == "shared-memory" for cause in verdict.causes):
        return "it uses memory of others on other nodes"
    return f"{size(one.remote_bytes)} remote"


def finding_notes(findings: Iterable[Finding]) -> list[Note]:
    """The gravest first."""
    pairs = (
        (one, NoteItem(one.message, full_name(one.namespace, one.pod, one.pod_uid, one.container))) for one in findings
    )
    return _by_remedy(sorted(pairs, key=lambda pair: _SEVERITIES.index(pair[0].severity)))


def state_notes(findings: Iterable[StateFinding]) -> list[Note]:
    """Of a kubelet's state file, in the order of the checks."""
    return _by_remedy((one, NoteItem(f"{one.message} ({one.where})" if one.where else one.message)) for one in findings)


def _by_remedy(pairs: Iterable[tuple[Finding | StateFinding, NoteItem]]) -> list[Note]:
    groups: dict[tuple[str, str], list[NoteItem]] = {}
    for one, item in pairs:
        groups.setdefault((f"{one.severity}: {one.name}", one.remedy), []).append(item)
    return [Note(title, remedy, tuple(items)) for (title, remedy), items in groups.items()]


def not_known(report: Report, shown: Iterable[ContainerReport] = ()) -> Iterator[NoteItem]:
    """One for each figure of the host, and for each reason of the containers that are shown."""
    for unknown in report.unknown:
        yield NoteItem(f"{unknown.what}: {unknown.reason}")
    found: dict[str, list[str]] = {}
    for one in shown:
        for unknown in one.unknown:
            found.setdefault(f"{unknown.what}: {unknown.reason}", []).append(display_name(one))
    for reason, names in found.items():
        yield NoteItem(reason, names=tuple(names))


def sources_in_trouble(report: Report) -> Iterator[tuple[str, str]]:
    """Sources that lack the same, and their state with its reason; those without trouble are left out."""
    found: dict[str, list[str]] = {}
    for source in report.sources:
        if source.state != "ok":
            found.setdefault(f"{source.state}: {source.reason or ''}", []).append(source.source)
    for why, sources in found.items():
        yield ", ".join(sources), why


def rates_in_words(report: Report) -> Iterator[str]:
    """What grew between the two readings of a capture, and what its CPU times are; nothing of one with a single one."""
    rates = report.rates
    if rates is None:
        return
    yield f"In the {rates.seconds:.1f} s between the two readings of this capture: {'; '.join(_growth(rates))}."
    sources = {one.cpu_time_source for one in report.containers}
    if "last-cpu" in sources:
        yield (
            f"CPU TIME is of these {rates.seconds:.1f} s; {ESTIMATE} = an estimate: all time of a thread that may run "
            "on several nodes counts for the node of its last CPU. No verdict is made of it."
        )
    elif "affinity" in sources:
        yield f"CPU TIME is of these {rates.seconds:.1f} s, by the CPUs that each thread may use."


def _growth(rates: Rates) -> Iterator[str]:
    counters = rates.numa_balancing or {}
    faults, moved = counters.get("numa_hint_faults"), counters.get("numa_pages_migrated")
    if faults is not None and moved is not None:
        local = share(round(counters.get("numa_hint_faults_local", 0.0)), round(faults))
        seen = f"{faults:.0f} NUMA hint faults/s ({local} local)" if round(faults) else "no NUMA hint faults"
        yield f"{seen}, {moved:.0f} pages/s moved by NUMA balancing" if round(moved) else seen
    missed = {
        node: grown["numa_miss"] for node, grown in rates.numastat_bytes_per_second.items() if "numa_miss" in grown
    }
    shown = [f"node {node} {size(round(grown))}/s" for node, grown in sorted(missed.items()) if round(grown)]
    if missed:
        yield f"memory given in place of another node's (numa_miss): {', '.join(shown) or 'none'}"
