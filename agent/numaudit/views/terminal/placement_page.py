"""One container on one page: verdict and remedy, then the evidence from its promise to what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rich.console import Console

from numaudit.api.explanation_document import ExplainedMerge
from numaudit.api.placement_document import AdmissionAccount, Placement, PlacementList
from numaudit.containermanager.pod.names import full_name
from numaudit.errors import printable
from numaudit.evaluation.access import Access, SampledPages
from numaudit.memorymanager.outcome import ProviderAnswer
from numaudit.report.names import display_name
from numaudit.report.values import ContainerReport, NodeReport
from numaudit.report.words import UNKNOWN, share, size
from numaudit.scenario import words
from numaudit.topology.nodeset import NodeSet
from numaudit.views.terminal.terminal import print_note

_MOST_SETS = 8
_MOST_GONE = 8


def print_placements(found: PlacementList, out: Console) -> None:
    """A page for each."""
    for number, one in enumerate(found.items):
        if number:
            out.print()
        print_note(_title(one), out, "bold")
        _print_parts(_refused(one) if one.container is None else _parts(one.container, one, found.nodes), out)


def print_container(
    one: ContainerReport, placement: Placement | None, nodes: tuple[NodeReport, ...], out: Console
) -> None:
    """The page on one container, without its title. `placement` None = the kubelet has no part in it."""
    _print_parts(_parts(one, placement, nodes), out)


def _print_parts(parts: Iterator[tuple[str, list[str]]], out: Console) -> None:
    for heading, lines in parts:
        print_note(heading, out, "bold")
        for line in lines:
            print_note(f"  {printable(line)}", out)


def _title(one: Placement) -> str:
    if one.container is not None:
        return display_name(one.container)
    refused = one.refused
    return "" if refused is None else printable(full_name(refused.namespace, refused.pod, refused.pod_uid, None))


def _refused(one: Placement) -> Iterator[tuple[str, list[str]]]:
    refused = one.refused
    if refused is not None:
        asked = ", ".join(f"{name} {size(amount)}" for name, amount in (refused.asked or {}).items() if amount)
        lines = [f"{refused.outcome}: {refused.message or refused.reason or 'no reason is known'}", *_at(refused.at)]
        yield "refused", [*([f"asked for {asked}"] if asked else []), *lines]
    yield "what to do", ["Run `numaudit fit -f pod.yaml --make-room`. It says what would let the pod in now."]
    yield "why", list(_why(one.admission))


def _parts(
    container: ContainerReport, placement: Placement | None, nodes: tuple[NodeReport, ...]
) -> Iterator[tuple[str, list[str]]]:
    promised_at, started_at = (None, None) if placement is None else (placement.promised_at, placement.started_at)
    yield "verdict", list(_verdict(container, started_at))
    remedy = None if container.verdict is None else container.verdict.remedy
    yield "what to do", [remedy or "Nothing has to be done."]
    at = [] if promised_at is None else [f"its pod has been here since {_time(promised_at)}"]
    yield "promised", [*_promised(container), *at]
    if placement is not None:
        yield "why", list(_why(placement.admission))
    yield "allowed by its cpuset", list(_allowed(container))
    yield "resident", list(_bytes(container, nodes))
    yield "accessed", list(_accesses(container))
    yield "cost", list(_cost(container))


def _promised(one: ContainerReport) -> Iterator[str]:
    intended = one.intended
    yield f"QoS {one.qos or UNKNOWN}"
    if intended is None:
        yield "unknown"
        return
    if intended.memory_nodes is None:
        yield "memory: unknown"
    elif not intended.memory_nodes:
        yield "no memory; it may use any node"
    else:
        amounts = ", ".join(f"{name} {size(amount)}" for name, amount in (intended.bytes or {}).items())
        yield f"{amounts or 'memory'} on {intended.memory_nodes.in_words}"
    if intended.cpus is None:
        yield "CPUs: unknown"
    elif not intended.cpus:
        yield "no CPUs of its own; it runs on the shared pool"
    else:
        yield f"{intended.cpus.in_words} on {(intended.cpu_nodes or NodeSet()).in_words}"
    if intended.device_nodes:
        yield f"devices on {intended.device_nodes.in_words}"


def _why(account: AdmissionAccount) -> Iterator[str]:
    logged, derived = account.logged, account.derived
    if logged is None:
        yield "The kubelet's log does not show its admission."
    else:
        merged = UNKNOWN if logged.hint is None else words.hint(logged.hint)
        yield f"Hints in the kubelet's log: {_answers(logged.providers)}. Merged hint: {merged}."
        yield from (f"  {line}" for line in _at(logged.at))
        if logged.regenerated:
            yield "  A restarted kubelet wrote this, so the hints repeat its checkpoint."
    if derived is None:
        yield f"The admission cannot be derived again: {account.not_derived}."
    else:
        yield f"Derived again, {_pods_before(derived.before)}: {derived.sentence}"
        if derived.merge is not None:
            yield from _rules(derived.merge)
        if not derived.admitted:
            yield f"  refused: {derived.reason}: {derived.message}"
    if account.differences is not None:
        yield "The log and the derivation agree." if not account.differences else "The log and the derivation differ:"
        yield from (f"  {one}" for one in account.differences)
        if account.differences:
            gone = [] if derived is None else derived.gone
            more = f" and {len(gone) - _MOST_GONE} more" if len(gone) > _MOST_GONE else ""
            yield (
                f"  Pods that were admitted or refused before it may have had memory then: "
                f"{', '.join(gone[:_MOST_GONE])}{more}."
                if gone
                else "  Pods that are gone, and that the log does not show, may have had memory then."
            )


def _pods_before(count: int) -> str:
    if count == 0:
        return "without other pods"
    return "with the pod here that came before it" if count == 1 else f"with the {count} pods here that came before it"


def _rules(merge: ExplainedMerge) -> Iterator[str]:
    """The sets of nodes by the Memory Manager's verdict."""
    by_verdict: dict[str, list[str]] = {}
    for one in merge.candidates:
        verdict = ("preferred" if one.preferred else "possible") if one.verdict == "kept" else one.verdict
        by_verdict.setdefault(verdict, []).append(str(NodeSet.from_ids(one.nodes)))
    for verdict, sets in by_verdict.items():
        more = f" and {len(sets) - _MOST_SETS} more" if len(sets) > _MOST_SETS else ""
        yield f"  memory {verdict}: {'; '.join(sets[:_MOST_SETS])}{more}"
    yield f"  Other hints: {_answers(one for one in merge.providers if one.provider != 'memory')}"
    answer = "admits" if merge.merge.admitted else "refuses"
    yield f"  Merged hint: {words.hint(merge.merge.hint)}. The policy {merge.merge.policy} {answer} it."


def _answers(providers: Iterable[ProviderAnswer]) -> str:
    """cpu: nodes 0 or 1 (3 more are not preferred); devices: no preference"""
    parts = []
    for answer in providers:
        if not answer.hints:
            parts.append(f"{answer.provider}: no preference")
        for resource, hints in (answer.hints or {}).items():
            parts.append(f"{resource}: {words.hints(hints)}")
    return "; ".join(parts) or "no hints"


def _allowed(one: ContainerReport) -> Iterator[str]:
    memory, cpus = one.allowed_memory_nodes, one.allowed_cpus
    yield "cpuset.mems " + (UNKNOWN if memory is None else str(memory) or "none")
    on = "" if one.allowed_cpu_nodes is None else f", on {one.allowed_cpu_nodes.in_words}"
    yield f"cpuset.cpus {UNKNOWN if cpus is None else str(cpus) or 'none'}{on}"
    if one.path is None:
        yield "It does not run now."


def _bytes(one: ContainerReport, nodes: tuple[NodeReport, ...]) -> Iterator[str]:
    if one.resident is None:
        yield "unknown"
        return
    rows = {row.numa_node: row for row in one.resident}
    held = [f"N{node.numa_node} {size(rows[node.numa_node].judged)}" for node in nodes if node.numa_node in rows]
    yield f"anon + shmem + hugetlb {size(one.judged_bytes)}: {', '.join(held)}"
    yield f"page cache {size(one.page_cache_bytes)}, which does not count in verdicts"
    if one.aligned_bytes is not None:
        yield f"on the promised nodes: {size(one.aligned_bytes)} ({share(one.aligned_bytes, one.judged_bytes)})"
    remote = f"{size(one.remote_bytes)} ({share(one.remote_bytes, one.judged_bytes)})"
    yield f"remote, on nodes whose CPUs it may not use: {remote}"


def _accesses(one: ContainerReport) -> Iterator[str]:
    for access in one.accesses:
        yield f"{access.source}: {_said_by(access)}"
    if not one.accesses:
        yield "Not measured; --duration 10s measures accesses on a running host."


def _said_by(access: Access) -> str:
    """A share is of what the source saw; an expectation is named one."""
    if access.pages is not None:
        return _pages(access.pages)
    if access.remote_ratio is None:
        return f"unknown: {access.reason or 'no samples'}"
    of = {"accesses": "of the counted accesses were remote", "first-uses": "of the first uses of a page were remote"}
    said = of.get(access.of, "of its accesses would be remote if it used every byte equally from where it ran")
    return f"{access.remote_ratio:.0%} {said}"


def _pages(pages: SampledPages) -> str:
    seen = pages.remote_bytes + pages.local_bytes
    said = f"{size(pages.remote_bytes)} of the {size(seen)} that it was seen using were used remotely"
    if pages.home_bytes:
        said += f"; {size(pages.home_bytes)} more moved to the CPU's node"
    if pages.coverage is not None:
        said += f"; that covers {pages.coverage:.0%} of its {size(pages.memory_bytes)}"
    return said if pages.whole else f"{said}, in a scan pass that still goes on"


def _verdict(one: ContainerReport, started_at: float | None) -> Iterator[str]:
    verdict = one.verdict
    if verdict is None:
        yield "none, because nothing is promised to it"
        return
    yield f"{verdict.name}: {verdict.reason}"
    for cause in verdict.causes:
        yield f"{cause.cause}: {cause.evidence}"
    if verdict.since is None:
        yield (
            "It is unknown since when, because it was so at the first tick. An agent that saw it begin has "
            "verdict.since in its /report.json."
        )
        if started_at is not None:
            yield f"The container has been running since {_time(started_at)}."
    else:
        yield f"It has been so since {_time(verdict.since)} or a little longer."
    if one.findings:
        yield f"findings: {', '.join(one.findings)}"


def _cost(one: ContainerReport) -> Iterator[str]:
    stall = one.remote_stall
    if stall is None:
        yield "Unknown, because its remote accesses were not counted, or the latency of its nodes is unknown."
        return
    yield f"It waited for remote memory for at most {stall.seconds_low:.2f} to {stall.seconds_high:.2f} CPU seconds."
    if stall.share_low is not None and stall.share_high is not None:
        yield f"That is {stall.share_low:.1%} to {stall.share_high:.1%} of its CPU time ({stall.latency} latency)."


def _at(at: float | None) -> list[str]:
    return [] if at is None else [f"at {_time(at)}"]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
