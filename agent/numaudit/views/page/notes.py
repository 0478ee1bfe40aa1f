"""Texts of the page: what is wrong and what to do, refused pods, state files, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from numaudit.containermanager.pod.names import full_name
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.verdicts import MISALIGNED, Verdict, severity
from numaudit.report.kinds import count_kinds, kinds_in_words
from numaudit.report.kubelet import CheckpointReport
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name, size
from numaudit.views.page.markup import Markup, PageSection, element, short, table
from numaudit.views.page.own_page import Addresses

_SHOWN = ("unknown", "split")
"""Verdicts that are explained by their reason; of those that are misaligned each container is."""
_NAMES = 10
_ITEMS = 3
"""Of a longer list the rest is folded away."""


def findings_part(report: Report, addresses: Addresses) -> PageSection:
    """Misaligned containers and findings, each group with its one remedy."""
    parts = [*_verdicts(report.containers, addresses), *_findings(report)]
    found = element("div", parts, class_="groups") if parts else element("p", _nothing(report))
    return PageSection("findings", "Findings, and what to do", (found,))


def _nothing(report: Report) -> str:
    """Options such as --verdict leave out containers, of which the findings then say nothing."""
    shown, whole = len(report.containers), report.summary.containers
    if shown < whole:
        return f"Nothing was found about the selected {shown} of {whole} containers and cgroups."
    return "No container is misaligned, and nothing else was found."


def _verdicts(containers: Iterable[ContainerReport], addresses: Addresses) -> Iterator[Markup]:
    groups: dict[tuple[str, str | None], list[tuple[ContainerReport, Verdict]]] = {}
    for one in sorted(containers, key=lambda one: severity(one.verdict)):
        if one.verdict is not None and (one.verdict.name in (*MISALIGNED, *_SHOWN) or one.verdict.causes):
            groups.setdefault((one.verdict.name, one.verdict.remedy), []).append((one, one.verdict))
    for (name, remedy), judged in groups.items():
        number = kinds_in_words(count_kinds(one for one, _ in judged))
        items = _by_reason(judged) if name in _SHOWN else _by_container(judged, addresses)
        yield _group(f"{name}: {number}", items, remedy, "bad" if name in MISALIGNED else None)


def _by_container(judged: Sequence[tuple[ContainerReport, Verdict]], addresses: Addresses) -> Iterator[Markup]:
    for one, verdict in judged:
        causes = [element("li", f"{cause.cause}: {cause.evidence}") for cause in verdict.causes]
        reason = f": {verdict.reason}" if verdict.reason else ""
        below = element("ul", causes) if causes else ""
        name = element("a", short(display_name(one)), href=addresses.nearest(one))
        yield element("li", element("strong", name), reason, below)


def _by_reason(judged: Sequence[tuple[ContainerReport, Verdict]]) -> Iterator[Markup]:
    names: dict[str, list[str]] = {}
    for one, verdict in judged:
        names.setdefault(verdict.reason, []).append(display_name(one))
    for reason, those in names.items():
        yield element("li", f"{reason}: {_some_of(those)}")


def _findings(report: Report) -> Iterator[Markup]:
    groups: dict[tuple[str, str], list[Markup]] = {}
    for one in report.findings:
        subject = full_name(one.namespace, one.pod, one.pod_uid, one.container)
        about = element("strong", short(subject)) if subject else ""
        item = element("li", about, ": " if subject else "", one.message)
        groups.setdefault((f"{one.severity}: {one.name}", one.remedy), []).append(item)
    for (title, remedy), items in groups.items():
        yield _group(title, items, remedy, "bad" if title.startswith("critical: ") else None)


def _group(title: str, items: Iterable[Markup], remedy: str | None, tone: str | None = None) -> Markup:
    todo = element("p", element("strong", "What to do: "), remedy, class_="remedy") if remedy else ""
    return element("div", element("h3", title, class_=tone), todo, _list(tuple(items)), class_="group")


def _list(items: Sequence[Markup]) -> Iterator[Markup]:
    yield element("ul", items[:_ITEMS])
    if rest := items[_ITEMS:]:
        yield element("details", element("summary", f"{len(rest)} more"), element("ul", rest))


def refused_part(report: Report) -> PageSection | None:
    """Pods that the kubelet refused; nothing where there are none."""
    if not report.rejections:
        return None
    rows = (
        (_pod(one), one.outcome, one.message or "", _asked(one.asked), "" if one.at is None else when(one.at))
        for one in report.rejections
    )
    titles = ("Pod", "Outcome", "The kubelet's words", "Asked for", "When")
    return PageSection("refused", "Refused pods", (table("Pods that the kubelet refused", titles, rows),))


def _pod(one: HintOutcome) -> str:
    return short(f"{one.namespace}/{one.pod}")


def _asked(asked: Mapping[str, int] | None) -> str:
    return ", ".join(f"{name} {size(amount)}" for name, amount in (asked or {}).items() if amount)


def state_part(checkpoints: Sequence[CheckpointReport]) -> PageSection | None:
    """The kubelet's checkpoints; nothing on a host without a kubelet."""
    if not checkpoints:
        return None
    words = {True: "yes", False: "no", None: "-"}
    rows = (
        (one.file, one.problem or "none", words[one.valid], one.starts_now, one.starts_after_reboot)
        for one in checkpoints
    )
    titles = ("File", "Problem", "Valid", "Starts now", "Starts after a reboot")
    found = [
        _group(f"{found.severity}: {found.name}", (element("li", f"{one.file}: {found.message}"),), found.remedy)
        for one in checkpoints
        for found in one.findings
    ]
    caption = "Would the kubelet start with them?"
    return PageSection("state", "The kubelet's state files", (table(caption, titles, rows), *found))


def unknown_part(report: Report) -> PageSection | None:
    """Unknown figures with their reasons."""
    reasons: dict[str, list[str]] = {}
    for one in report.containers:
        for unknown in one.unknown:
            reasons.setdefault(f"{unknown.what}: {unknown.reason}", []).append(display_name(one))
    items = [
        *(f"{one.what}: {one.reason}" for one in report.unknown),
        *(f"{reason} ({_some_of(names)})" for reason, names in reasons.items()),
        *(f"{one.source}: {one.state}: {one.reason or ''}" for one in report.sources if one.state != "ok"),
    ]
    if not items:
        return None
    listed = _list([element("li", item) for item in items])
    return PageSection("unknown", "What is not known, and why", tuple(listed))


def when(seconds: float) -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _some_of(names: Sequence[str]) -> str:
    shown = ", ".join(map(short, names[:_NAMES]))
    return f"{shown} and {len(names) - _NAMES} more" if len(names) > _NAMES else shown
