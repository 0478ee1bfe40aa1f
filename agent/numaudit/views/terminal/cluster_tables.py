"""A cluster as tables, for people. Every name is the server's word, so it is made printable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from numaudit.api.cluster_document import (
    ClusterContainer,
    ClusterNode,
    ClusterReport,
    NodeAnswer,
    NodeAnswerList,
    misaligned,
)
from numaudit.errors import printable
from numaudit.evaluation.findings import gravity
from numaudit.evaluation.setup import STATES
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.words import UNKNOWN, size
from numaudit.topology.quantity import plural, some_of
from numaudit.views.terminal.terminal import TableRow, print_note, print_rows

MOST_TOP = 200
"""Rows of a table at most."""
_STATE_STYLE = {
    "unsafe": "bold red",
    "reporting": "",
    "stale": "yellow",
    "down": "red",
    "none": "yellow",
}


def print_report(found: ClusterReport, top: int, out: Console) -> None:
    """One sentence, then the `top` worst nodes and containers, what was refused, and what room is left."""
    _print_notes((found.summary,), out)
    nodes = [one for one in found.nodes if _is_worth_a_line(one)]
    if nodes:
        out.print()
        print_rows(("NODE", "STATE", ">MISALIGNED", ">MISPLACED", "~PROBLEMS"), map(_node, nodes[:top]), out)
        _more(len(nodes) - top, top, "node has problems", "nodes have problems", out)
    if found.worst:
        out.print()
        titles = ("~CONTAINER", "NODE", "VERDICT", ">MISPLACED", "PROMISED", ">REMOTE", "~FINDINGS")
        print_rows(titles, map(_container, found.worst), out)
        left = misaligned(found.verdicts) - len(found.worst)
        _more(left, len(found.worst), "container is misaligned", "containers are misaligned", out)
    if found.refusals:
        out.print()
        rows = [(printable(one.reason), printable(one.outcome), str(one.pods)) for one in found.refusals]
        rows += [(printable(f"{one.namespace}/{one.workload}"), "", str(one.pods)) for one in found.refused_workloads]
        print_rows(("REFUSED IN THE LAST HOUR", "OUTCOME", ">PODS"), rows, out)
    if found.allocatable_bytes:
        out.print()
        rooms = ((str(one.node_count), size(one.bytes), printable(one.node)) for one in found.largest_rooms)
        print_rows((">NUMA NODES", ">LARGEST REQUEST", "ON"), rooms, out)
        print_note(_room(found), out)
    _print_notes(found.notices, out)


def _room(found: ClusterReport) -> str:
    return (
        f"{size(found.free_bytes)} of {size(found.allocatable_bytes)} allocatable memory are free; "
        f"{size(found.stranded_bytes)} of that cannot serve a container on one NUMA node"
    )


def _container(one: ClusterContainer) -> TableRow:
    name = "/".join(filter(None, (one.namespace, one.pod, one.container)))
    remote = "-" if one.remote_ratio is None else f"{one.remote_ratio:.0%} {one.remote_source}"
    return (
        printable(name),
        printable(one.node),
        Text(printable(one.verdict), "red"),
        size(one.misplaced_bytes),
        UNKNOWN if one.intended_memory_nodes is None else str(one.intended_memory_nodes),
        printable(remote),
        printable(",".join(one.findings)) or "-",
    )


def _node(one: ClusterNode) -> TableRow:
    state = "unsafe" if one.restart_unsafe else one.state
    is_seen = one.containers > 0
    return (
        printable(one.node),
        Text(state, _STATE_STYLE[state]),
        f"{one.misaligned} of {one.containers}" if is_seen else UNKNOWN,
        size(one.misplaced_bytes) if is_seen else UNKNOWN,
        printable("; ".join(_problems(one))) or "-",
    )


def _problems(node: ClusterNode) -> Iterator[str]:
    """The gravest first; the states of the agent and of its containers have columns of their own."""
    yield from node.problems
    yield from (f"{name} ({count})" for name, count in _gravest(node.findings))
    if count := node.verdicts.get("unknown"):
        yield f"verdict unknown ({count})"
    if node.refused_pods:
        yield f"pods refused ({node.refused_pods})"


def _gravest(findings: Mapping[str, int]) -> list[tuple[str, int]]:
    """Those of containers, without what is only for information."""
    return sorted((one for one in findings.items() if gravity(one[0]) < 2), key=lambda one: (gravity(one[0]), one[0]))


def _more(count: int, shown: int, one: str, several: str, out: Console) -> None:
    """Number of rows that a cut leaves out."""
    if count > 0:
        what = one if count == 1 else several
        print_note(f"{count} more {what}; --top {min(MOST_TOP, shown + count)} shows more", out)


def _is_worth_a_line(node: ClusterNode) -> bool:
    """Something is wrong there."""
    has_misaligned = any(node.verdicts.get(name) for name in MISALIGNED)
    others = node.refused_pods or node.problems or node.verdicts.get("unknown") or _gravest(node.findings)
    return node.state != "reporting" or has_misaligned or bool(others)


def _print_notes(texts: Iterable[str], out: Console) -> None:
    for text in texts:
        print_note(printable(text), out)


Cells = tuple[str, str, str]
"""Answer, its style, and details."""
_MOST_WIDTHS = 3
_NAMES = 4
_MOST_WORDS = 2000
"""Characters of what one agent says."""


def print_headroom(found: ClusterReport, out: Console) -> None:
    """A row for each node, the roomiest first, and the nodes that did not answer."""
    widths = sorted({width for one in found.nodes for width in one.admissible_bytes})[:_MOST_WIDTHS]
    on = (f">ON {width} NUMA NODE{'' if width == 1 else 'S'}" for width in widths)
    first = widths[0] if widths else 1
    rows: list[TableRow] = [
        (
            printable(one.node),
            Text(one.state, "" if one.state == "reporting" else "red"),
            *(size(one.admissible_bytes.get(width)) for width in widths),
            *map(size, (one.free_bytes, one.allocatable_bytes, one.stranded_bytes)),
            printable("; ".join(one.problems)) or "-",
        )
        for one in sorted(found.nodes, key=lambda node: (-node.admissible_bytes.get(first, -1), node.node))
    ]
    print_rows(("NODE", "STATE", *on, ">FREE", ">ALLOCATABLE", ">STRANDED", "~PROBLEMS"), rows, out)
    print_note(_room(found), out)
    _print_notes(found.notices, out)


def print_answers(found: NodeAnswerList, out: Console) -> None:
    """A row for each node: its answer in a word, and why. Of `fit` the sum, and where most fit first; of `setup` the
    worst node first.
    """
    if found.summary is not None:
        _print_notes((found.summary, ""), out)
    rows = []
    order = _faults if found.verb == "setup" else _fit_count
    for one in sorted(found.answers, key=order, reverse=True):
        answer, style, why = _cells(found.verb, one)
        rows.append((printable(one.node), Text(printable(answer), style), printable(_cut(why)) or "-"))
    print_rows(("NODE", "ANSWER", "~WHY"), rows, out)
    _print_notes(found.notices, out)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}..."


def _cells(verb: str, one: NodeAnswer) -> Cells:
    if one.document is None:
        return "no answer", "red", one.problem or ""
    return _OF_VERB[verb](one.document)


_FAULTS = STATES[:3]
_FAULT_STYLE = {"error": "red", "warning": "yellow", "info": "cyan"}


def _setup(document: Mapping[str, Any]) -> Cells:
    rules = _list(document, "rules")
    found = [(state, one) for state in _FAULTS for one in rules if one.get("state") == state]
    if not found:
        held = sum(one.get("state") == "pass" for one in rules)
        return f"{held} of {plural(len(rules), 'rule')} hold", "green", ""
    counts = Counter(state for state, _ in found)
    answer = ", ".join(plural(counts[state], state) if state != "info" else f"{counts[state]} info" for state in counts)
    return answer, _FAULT_STYLE[found[0][0]], some_of([str(one.get("id")) for _, one in found], _NAMES)


def _faults(one: NodeAnswer) -> tuple[int, ...]:
    """A node that does not answer is worse than one without an error."""
    counts = Counter(rule.get("state") for rule in _list(one.document or {}, "rules"))
    errors, *others = (counts[state] for state in _FAULTS)
    return errors, int(one.document is None), *others


def _doctor(document: Mapping[str, Any]) -> Cells:
    checks = _list(document, "checks")
    lacking = [str(one.get("name")) for one in checks if one.get("state") not in ("ok", "n/a")]
    questions = _list(document, "questions")
    open_ = [str(one.get("link")) for one in questions if not one.get("answered")]
    style = "red" if open_ else "yellow" if lacking else "green"
    answer = f"{len(checks) - len(lacking)} of {plural(len(checks), 'check')} ok"
    unanswered = [f"cannot answer: {', '.join(open_)}"] if open_ else []
    return answer, style, "; ".join([*unanswered, *([some_of(lacking, _NAMES)] if lacking else [])])


def _verification(document: Mapping[str, Any]) -> Cells:
    files = _list(document, "items")
    bad = [one for one in files if one.get("valid") is False or one.get("startsNow") not in ("yes", "unknown", None)]
    if not bad:
        return "valid", "green", some_of([_base(one) for one in files], _NAMES)
    said = [f"{_base(one)}: {_first_finding(one)}" for one in bad]
    return "not valid", "red", "; ".join(said)


def _forecast(document: Mapping[str, Any]) -> Cells:
    pods = _list(document, "pods")
    fates = Counter(str(one.get("fate")) for one in pods if one.get("fate") != "kept")
    starts = str(document.get("starts"))
    changed = [
        f"{one.get('namespace')}/{one.get('pod')} {one.get('fate')}" for one in pods if one.get("fate") != "kept"
    ]
    said = [str(document["refusal"])] if document.get("refusal") else []
    answer = f"starts: {starts}; " + (
        ", ".join(f"{count} {fate}" for fate, count in fates.items())
        if fates
        else f"all {plural(len(pods), 'pod')} kept"
    )
    is_bad = starts in ("no", "once") or fates["refused"] or fates["elsewhere"]
    style = "red" if is_bad else "green" if starts == "yes" and not fates else "yellow"
    return answer, style, "; ".join([*said, *([some_of(changed, _NAMES)] if changed else [])])


def _base(one: Mapping[str, Any]) -> str:
    return str(one.get("file")).rpartition("/")[2]


def _first_finding(one: Mapping[str, Any]) -> str:
    found = [finding for finding in _list(one, "findings") if finding.get("severity") != "info"]
    return str(found[0].get("message")) if found else f"starts now: {one.get('startsNow')}"


def _fit(document: Mapping[str, Any]) -> Cells:
    pods = _list(document, "items") if document.get("kind") == "ExplanationList" else [document]
    admitted = [one for one in pods if one.get("admitted")]
    sentences = " ".join(str(one.get("sentence")) for one in pods)
    alone = "admitted" if admitted else "refused"
    answer = f"{len(admitted)} of {len(pods)} admitted" if len(pods) > 1 else _replicas(pods[0]) or alone
    return answer, "green" if len(admitted) == len(pods) else "red", sentences


def _replicas(pod: Mapping[str, Any]) -> str | None:
    match pod.get("replicas"):
        case {"asked": int(asked), "fit": int(fit)} if asked > 1:
            return f"{fit} of {asked} admitted"
    return None


def _fit_count(one: NodeAnswer) -> int:
    match one.document:
        case {"replicas": {"fit": int(fit)}}:
            return fit
    return 0


def _list(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """An agent of another release may leave it out."""
    found = document.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


_OF_VERB: Mapping[str, Callable[[Mapping[str, Any]], Cells]] = {
    "setup": _setup,
    "doctor": _doctor,
    "state verify": _verification,
    "fit": _fit,
    "forecast": _forecast,
}
