"""One sentence that decides: has every container what it was promised? Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from numaudit.containermanager.pod.spec import full_name
from numaudit.errors import printable
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.values import ContainerReport, NodeReport, Summary
from numaudit.report.words import count_kinds, display_name
from numaudit.topology.quantity import in_units, some_of

_NOT_MEASURED = "access not measured"
"""The reason of an aligned container whose accesses no source measured."""


def summarize(
    containers: Sequence[ContainerReport], nodes: Sequence[NodeReport], findings: Sequence[Finding], refused_pods: int
) -> Summary:
    """The containers come in a report's order, the worst first."""
    judged = [one for one in containers if one.verdict is not None and one.verdict.name != "unmanaged"]
    counts = Counter([one.verdict.name for one in judged if one.verdict is not None])
    summary = Summary(
        text="",
        containers=len(containers),
        kinds=count_kinds(containers),
        promised=sum(_is_promised(one) for one in judged),
        misaligned=sum(counts[name] for name in MISALIGNED),
        split=counts["split"],
        aligned=counts["aligned"],
        unknown=counts["unknown"],
        refused_pods=refused_pods,
    )
    clauses = list(_critical(findings))
    if len(nodes) == 1 and not summary.misaligned:
        clauses += ["one NUMA node, so no memory is remote"]
    else:
        clauses += _of_promises(summary, judged) if judged else [_without_promises(containers)]
    clauses += [f"{_some(refused_pods, 'pod was', 'pods were')} refused"] if refused_pods else []
    names = list(dict.fromkeys(one.name for one in findings if one.severity != "critical"))
    clauses += [f"also found: {', '.join(names)}"] if names else []
    text = "; ".join(clauses)
    return msgspec.structs.replace(summary, text=text[0].upper() + text[1:])


def _critical(findings: Sequence[Finding]) -> Iterator[str]:
    """critical: oom-risk (prod/a/app and 2 more)"""
    subjects: dict[str, list[str]] = {}
    for one in findings:
        if one.severity == "critical":
            subject = printable(full_name(one.namespace, one.pod, one.pod_uid, one.container))
            subjects.setdefault(one.name, []).extend(filter(None, [subject]))
    for name, named in subjects.items():
        yield f"critical: {name}" + (f" ({some_of(named, 1)})" if named else "")


def _is_promised(one: ContainerReport) -> bool:
    """A verdict but `unknown` is given only where the promise is known."""
    is_known = one.intended is not None and bool(one.intended.memory_nodes)
    return is_known or (one.verdict is not None and one.verdict.name != "unknown")


def _of_promises(summary: Summary, judged: Sequence[ContainerReport]) -> Iterator[str]:
    promised = _some(summary.promised, "promised container", "promised containers")
    if summary.misaligned:
        yield f"{summary.misaligned} of {promised} {_is(summary.misaligned)} misaligned"
        yield f"worst: {_misplaced(judged[0])}"
    elif summary.promised and summary.aligned == summary.promised:
        yield "the promised container is aligned" if summary.promised == 1 else f"all {promised} are aligned"
    elif summary.promised:
        known = "" if summary.aligned + summary.split == summary.promised else "known to be "
        yield f"none of {promised} is {known}misaligned"
    if summary.split:
        yield f"{summary.split} {_is(summary.split)} split over several nodes, as promised"
    if not summary.misaligned and (remote := _most_remote(judged)):
        yield remote
    if summary.unknown:
        of = _some(summary.unknown, "container", "containers")
        yield f"the verdict on {of} is unknown{_why_unknown(summary, judged)}"
    elif not summary.misaligned:
        unmeasured = sum(one.verdict is not None and one.verdict.reason == _NOT_MEASURED for one in judged)
        if unmeasured:
            yield _NOT_MEASURED if unmeasured == summary.aligned else f"{_NOT_MEASURED} of {unmeasured}"


def _most_remote(judged: Sequence[ContainerReport]) -> str:
    """Of those whose verdict is unknown: what is not known of the promise hides no bytes that are known."""
    unknown = [one for one in judged if one.remote_bytes and one.verdict is not None and one.verdict.name == "unknown"]
    if not unknown:
        return ""
    most = max(unknown, key=lambda one: one.remote_bytes or 0)
    of = f"{in_units(most.remote_bytes or 0)} of {in_units(most.judged_bytes or 0)}"
    return f"{of} of {display_name(most)} are remote to all its CPUs"


def _misplaced(one: ContainerReport) -> str:
    """Name and verdict of a misaligned container, and how many bytes it is about."""
    assert one.verdict is not None
    named = f"{display_name(one)}, {one.verdict.name}"
    if one.misplaced_bytes:
        return f"{named}, {in_units(one.misplaced_bytes)} on the wrong nodes"
    if one.verdict.name == "cpu-remote" and one.remote_bytes:
        return f"{named}, {in_units(one.remote_bytes)} remote to all its CPUs"
    return f"{named}: {printable(one.verdict.reason)}"


def _why_unknown(summary: Summary, judged: Sequence[ContainerReport]) -> str:
    """Of them all, where there is one reason, and nothing worse to be said."""
    reasons = {one.verdict.reason for one in judged if one.verdict is not None and one.verdict.name == "unknown"}
    return f": {printable(reasons.pop())}" if len(reasons) == 1 and not summary.misaligned else ""


def _without_promises(containers: Sequence[ContainerReport]) -> str:
    """Describe where the memory is, seen from the CPUs that each container may use."""
    if not containers:
        return "no container or cgroup was found"
    said = "no container was promised nodes"
    known = [one for one in containers if one.remote_bytes is not None]
    if not known:
        return f"{said}; how much of their memory is remote is not known"
    remote, judged = sum(one.remote_bytes or 0 for one in known), sum(one.judged_bytes or 0 for one in known)
    if not remote:
        return f"{said}; none of their {in_units(judged)} is remote to the CPUs that they may use"
    most = max(known, key=lambda one: one.remote_bytes or 0)
    return (
        f"{said}; {in_units(remote)} of their {in_units(judged)} are remote to the CPUs that they may use; "
        f"most: {display_name(most)}, {in_units(most.remote_bytes or 0)}"
    )


def _some(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
