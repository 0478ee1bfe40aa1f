"""The requested part of a report, and the order of its rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from numaudit.errors import InputError, escaped, nearest, printable
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.setup.reservations import RESERVED_UNCOVERED
from numaudit.report.columns import COLUMNS, Column
from numaudit.report.summary import summarize
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name
from numaudit.snapshot import ContainerId
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import plural

BY_AMOUNT = {column.sort: column.value for column in COLUMNS if column.sort is not None and column.value is not None}
"""Key -> what is compared; the largest comes first, and what is not known last."""
KEYS = ("verdict", *BY_AMOUNT, "name")
"""The first is the order that a report has."""
_BY_TITLE = {column.title: column for column in COLUMNS}


def key_of_column(column: Column[ContainerReport]) -> str:
    """The key that sorts by this column: a word of KEYS where there is one, else its title."""
    return {"CONTAINER": "name", "VERDICT": "verdict", "WHY": "verdict"}.get(column.title, column.sort or column.title)


def in_order_of(report: Report, key: str) -> Report:
    """Rows that are equal keep the order by verdict."""
    return replace(report, containers=ordered(report.containers, key))


def ordered(containers: Sequence[ContainerReport], key: str, reverse: bool = False) -> tuple[ContainerReport, ...]:
    """Those of one report, by a word of KEYS or the title of a column: amounts the largest first, texts by letter.

    `reverse`: the other way round, but what is not known still comes last.
    """
    if key == "verdict":
        return tuple(reversed(containers) if reverse else containers)
    if key == "name":
        return tuple(sorted(containers, key=display_name, reverse=reverse))
    column = _BY_TITLE.get(key)
    if column is not None and column.value is None:
        return tuple(sorted(containers, key=column.text, reverse=reverse))
    amount = BY_AMOUNT[key] if column is None or column.value is None else column.value
    sign = 1 if reverse else -1
    return tuple(sorted(containers, key=lambda one: _unknown_last(amount(one), sign)))


def _unknown_last(amount: float | None, sign: int) -> tuple[bool, float]:
    return amount is None, sign * (amount or 0)


_SHORTEST_ID = 4
"""Digits of a container id."""
_SOME = 3


def narrow(report: Report, which: str | None, namespace: str | None = None) -> Report:
    """The report of some containers and refused pods, and of the findings about them and the node.

    Raises InputError when there are none, with the names that are near.
    """
    containers, refused = report.containers, report.rejections
    if namespace is not None:
        containers = tuple(one for one in containers if one.namespace == namespace)
        refused = tuple(one for one in refused if one.namespace == namespace)
        if not containers and not refused:
            known = {one.namespace for one in report.containers} | {one.namespace for one in report.rejections}
            raise InputError(
                f"no container is in namespace {namespace!r}{nearest(namespace, filter(None, known), _all(report))}"
            )
    if which is not None:
        # As on the host, else as the report shows it.
        for name in (escaped(which), printable(which)):
            found = _matching(containers, refused, name)
            if any(found):
                break
        containers, refused = found
        if not containers and not refused:
            raise InputError(f"no container matches '{printable(which)}'{_near(report, printable(which))}")
    if which is None and namespace is None:
        return report
    return _summarized(replace(_of_containers(report, containers), rejections=refused))


def only(report: Report, cgroup: ContainerId) -> Report:
    """The report of the container that is this cgroup, and of the findings about it and the node."""
    return _summarized(_of_containers(report, tuple(one for one in report.containers if one.id == cgroup)))


def of_verdicts(report: Report, verdicts: Collection[str]) -> Report:
    """The report with the containers that have one of these verdicts, and the findings about them and the node."""
    return _of_containers(
        report, tuple(one for one in report.containers if one.verdict is not None and one.verdict.name in verdicts)
    )


def with_words(containers: Sequence[ContainerReport], text: str) -> tuple[ContainerReport, ...]:
    """Those that have every word of the text in their name or verdict, in capitals or not."""
    words = text.casefold().split()
    return tuple(one for one in containers if all(word in _searched(one) for word in words))


def _searched(one: ContainerReport) -> str:
    return f"{display_name(one)} {'' if one.verdict is None else one.verdict.name}".casefold()


def first(report: Report, most: int, counts: Callable[[ContainerReport], bool] | None = None) -> Report:
    """The report with its first containers that count, `most` of them, and the findings about them and the node.

    `counts` None = all do.
    """
    containers = tuple(filter(counts, report.containers))
    if len(containers) <= most:
        return report
    return _of_containers(report, containers[:most])


def shown_of(shown: int, of: int) -> str:
    """Return the text that says how many rows are shown: `3 of 5 rows shown`."""
    return f"{shown} of {plural(of, 'row')} shown"


def _summarized(report: Report) -> Report:
    """With a summary of what was selected."""
    summary = summarize(report.containers, report.nodes, report.findings, len(report.rejections))
    return replace(report, summary=summary)


def _of_containers(report: Report, containers: tuple[ContainerReport, ...]) -> Report:
    """Findings about other containers and pods, and about nodes where nothing was promised to these, are left out; so
    are rules about the node's setup, which name other pods. Findings about the whole node stay.
    """
    ids = {one.id for one in containers if one.id is not None}
    pods = {one.pod_uid for one in containers if one.pod_uid is not None}
    findings = tuple(
        one
        for one in report.findings
        if (one.container_id is None or one.container_id in ids)
        and (one.pod_uid is None or one.pod_uid in pods)
        and (one.name != RESERVED_UNCOVERED or _have_promises_on(containers, one.numa_nodes))
    )
    return replace(report, containers=containers, findings=findings, setup=())


def _have_promises_on(containers: tuple[ContainerReport, ...], nodes: NodeSet | None) -> bool:
    promised = (one.intended.memory_nodes for one in containers if one.intended is not None)
    return any(found and nodes and not found.isdisjoint(nodes) for found in promised)


def _matching(
    containers: tuple[ContainerReport, ...], refused: tuple[HintOutcome, ...], which: str
) -> tuple[tuple[ContainerReport, ...], tuple[HintOutcome, ...]]:
    """By whole names and subtrees, else by the beginning of an id, else by a glob, else by the beginning of a name."""
    for matches in (_is_named, _has_id, _is_like, _begins):
        found = tuple(one for one in containers if matches(which, _names(one), one.container_id or ""))
        pods = tuple(one for one in refused if matches(which, _names_of_pod(one), ""))
        if found or pods:
            return found, pods
    return (), ()


def _is_named(which: str, names: Sequence[str], _id: str) -> bool:
    """By a whole name, or as one of the groups in a cgroup (names[0]): with a slash first, from the root down."""
    inner = which.strip("/")
    is_below = f"{names[0]}/".startswith if which.startswith("/") else f"{names[0]}/".__contains__
    return (bool(which) and which in names) or (bool(inner) and is_below(f"/{inner}/"))


def _has_id(which: str, _names: Sequence[str], id_: str) -> bool:
    return len(which) >= _SHORTEST_ID and id_.startswith(which)


def _is_like(which: str, names: Sequence[str], _id: str) -> bool:
    return any(char in which for char in "*?[") and any(fnmatchcase(name, which) for name in names)


def _begins(which: str, names: Sequence[str], _id: str) -> bool:
    return bool(which.strip("/")) and any(name.startswith(which) for name in names)


def _names(container: ContainerReport) -> tuple[str, ...]:
    """All that it may be called by: its cgroup path first, its runtime, its pod's UID, and what people call it."""
    path = container.path or ""
    names = (path.lstrip("/"), container.runtime, container.pod_uid, *_called(container))
    return (path, *filter(None, names))


def _called(container: ContainerReport) -> list[str]:
    last = (container.path or "").rpartition("/")[2]
    if container.pod is not None:
        return [*_of_pod(container.namespace, container.pod, container.container), last]
    if container.container is None:
        return [last]
    return [f"{container.pod_uid or container.runtime}/{container.container}", container.container, last]


def _names_of_pod(refused: HintOutcome) -> tuple[str, ...]:
    """As of a container that has no cgroup."""
    return ("", *filter(None, (*_of_pod(refused.namespace, refused.pod or "", None), refused.pod_uid)))


def _of_pod(namespace: str | None, pod: str, container: str | None) -> list[str]:
    full = f"{namespace}/{pod}"
    return [pod, full, f"{pod}/{container}", f"{full}/{container}"] if container else [pod, full]


def _near(report: Report, which: str) -> str:
    """Names that have the word in them, else those that look like it, else where all of them are."""
    known = dict.fromkeys(_shown(report))
    within = [name for name in known if which.strip("/") and which in name]
    if within:
        more = f" and {len(within) - _SOME} more" if len(within) > _SOME else ""
        return f"; {', '.join(within[:_SOME])}{more} {'has' if len(within) == 1 else 'have'} it in the name"
    return nearest(which, known, _all(report))


def _shown(report: Report) -> Iterable[str]:
    for one in report.containers:
        yield from filter(None, _called(one))
    for refused in report.rejections:
        yield from _of_pod(refused.namespace, refused.pod or "", None)


def _all(report: Report) -> str:
    return f"; `numaudit report -o wide` lists all {len(report.containers)} of them"
