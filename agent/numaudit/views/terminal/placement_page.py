"""One container on one page: verdict and remedy, then the evidence from its promise to what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console

from numaudit.api.explanation_document import ExplainedMerge
from numaudit.api.placement_document import AdmissionAccount, Placement, PlacementList
from numaudit.containermanager.pod.spec import full_name
from numaudit.errors import printable
from numaudit.memorymanager.outcome import ProviderAnswer
from numaudit.report.values import ContainerReport, NodeReport
from numaudit.report.words import UNKNOWN, display_name, in_utc, requested
from numaudit.scenario import words
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import some_of
from numaudit.views.account import parts
from numaudit.views.terminal.one_container import print_process_table
from numaudit.views.terminal.terminal import print_command, print_note

_MOST_SETS = 8
_MOST_GONE = 8


def print_placements(found: PlacementList, out: Console, *, wide: bool = False) -> None:
    """A page for each. `wide`: with the hints of an admission, what its accesses cost, and its processes."""
    for number, one in enumerate(found.items):
        if number:
            out.print()
        print_note(_title(one), out, "bold")
        parts = _refused(one, wide) if one.container is None else _parts(one.container, one, found.nodes, wide)
        has_cost = wide or (one.container is not None and one.container.remote_stall is not None)
        _print_parts((part for part in parts if has_cost or part[0] != "cost"), out, one.container)
        if wide and one.container is not None and one.container.processes is not None and one.container.processes.alive:
            print_note("processes", out, "bold")
            print_process_table(one.container, out, indented=True)
    if not wide and out.is_terminal:
        more = ", the processes, and what remote accesses cost" if any(one.container for one in found.items) else ""
        print_note(f"-o wide also shows the hints{more}.", out, "dim")


def print_container(
    one: ContainerReport, placement: Placement | None, nodes: tuple[NodeReport, ...], out: Console
) -> None:
    """The page on one container, without its title. `placement` None = the kubelet has no part in it."""
    _print_parts(_parts(one, placement, nodes), out)


def _print_parts(parts: Iterator[tuple[str, list[str]]], out: Console, one: ContainerReport | None = None) -> None:
    """`one`: its commands are one line each, to be copied; None = lines end where the screen does."""
    commands = () if one is None or one.verdict is None else one.verdict.commands
    for heading, lines in parts:
        print_note(heading, out, "bold")
        for line in lines:
            print_line = print_command if line in commands else print_note
            print_line(f"  {printable(line)}", out)


def _title(one: Placement) -> str:
    if one.container is not None:
        return display_name(one.container)
    refused = one.refused
    return "" if refused is None else printable(full_name(refused.namespace, refused.pod, refused.pod_uid, None))


def _refused(one: Placement, wide: bool) -> Iterator[tuple[str, list[str]]]:
    refused = one.refused
    if refused is not None:
        asked = requested(refused)
        lines = [f"{refused.outcome}: {refused.message or refused.reason or 'no reason is known'}", *_at(refused.at)]
        yield "refused", [*([f"asked for {asked}"] if asked else []), *lines]
    yield "what to do", ["Run `numaudit fit pod.yaml --make-room`. It shows what would let the pod in now."]
    yield "why", list(_why(one.admission, wide))


def _parts(
    container: ContainerReport, placement: Placement | None, nodes: tuple[NodeReport, ...], wide: bool = False
) -> Iterator[tuple[str, list[str]]]:
    if placement is None:
        return parts(container, nodes)
    why = list(_why(placement.admission, wide))
    if placement.resize is not None:
        why.append(f"In-place resize of the pod: {placement.resize}.")
    return parts(container, nodes, why, placement.promised_at, placement.started_at)


def _why(account: AdmissionAccount, wide: bool) -> Iterator[str]:
    logged, derived = account.logged, account.derived
    if logged is None:
        gaps = "" if account.log_gaps is None else f": {account.log_gaps}"
        yield f"The kubelet's log does not show its admission{gaps}."
    else:
        merged = UNKNOWN if logged.hint is None else words.hint(logged.hint)
        hints = (
            f"Hints in the kubelet's log: {_answers(logged.providers)}. Merged hint" if wide else "The kubelet's hint"
        )
        yield f"{hints}: {merged}."
        yield from (f"  {line}" for line in _at(logged.at))
        if logged.regenerated:
            yield "  A restarted kubelet wrote this, so the hints repeat its checkpoint."
        if account.log_gaps is not None:
            yield f"  The log is not whole: {account.log_gaps}."
    if derived is None:
        yield f"The admission cannot be recomputed: {account.not_derived}."
    else:
        yield f"Recomputed {_pods_before(derived.before)}: {derived.sentence}"
        if derived.merge is not None:
            yield from _rules(derived.merge, wide)
        if not derived.admitted:
            yield f"  refused: {derived.reason}: {derived.message}"
    if account.differences is not None:
        yield (
            "The log and this recomputation agree."
            if not account.differences
            else "The log and this recomputation differ:"
        )
        yield from (f"  {one}" for one in account.differences)
        if account.differences:
            gone = [] if derived is None else derived.gone
            yield (
                f"  Pods that were admitted or refused before it may have had memory then: {some_of(gone, _MOST_GONE)}."
                if gone
                else "  Pods that are gone, and that the log does not show, may have had memory then."
            )


def _pods_before(count: int) -> str:
    if count == 0:
        return "without other pods"
    return (
        "with the 1 pod on this host that came before it"
        if count == 1
        else f"with the {count} pods on this host that came before it"
    )


def _rules(merge: ExplainedMerge, wide: bool) -> Iterator[str]:
    """The merged hint; `wide`: after the sets of nodes by the Memory Manager's verdict, and the other hints."""
    by_verdict: dict[str, list[str]] = {}
    for one in merge.candidates:
        verdict = ("preferred" if one.preferred else "possible") if one.verdict == "kept" else one.verdict
        by_verdict.setdefault(verdict, []).append(str(NodeSet.from_ids(one.nodes)))
    if wide:
        yield from (f"  memory {verdict}: {some_of(sets, _MOST_SETS, '; ')}" for verdict, sets in by_verdict.items())
        yield f"  Other hints: {_answers(one for one in merge.providers if one.provider != 'memory')}"
    answer = "accepts" if merge.merge.admitted else "refuses"
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


def _at(at: float | None) -> list[str]:
    return [] if at is None else [f"at {in_utc(at)}"]
