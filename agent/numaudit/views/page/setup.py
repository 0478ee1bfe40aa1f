"""The section about how the node is set up, of a report's page and of the page of `numaudit setup`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from numaudit.evaluation.setup import AREAS, STATES, SetupResult, SetupState
from numaudit.views.page.markup import Markup, PageSection, element, folded_list, prose

TONES: Mapping[SetupState, str] = {"error": "bad", "warning": "unknown"}
"""Classes of the style sheet, of states that are in view."""
_FOLDED: Mapping[SetupState, str] = {
    "info": "Worth knowing",
    "accepted": "Accepted by the settings",
    "not-judged": "Rules that were not judged",
    "pass": "Rules that hold",
}


def setup_part(rules: Sequence[SetupResult]) -> PageSection | None:
    """What harms is in view, the rest is folded; None = there are no rules."""
    return PageSection("setup", "How this node is set up", tuple(_content(rules))) if rules else None


def _content(rules: Sequence[SetupResult]) -> Iterator[Markup]:
    yield from _by_area([one for one in rules if one.state in TONES], _groups)
    for state, title in _FOLDED.items():
        these = [one for one in rules if one.state == state]
        if these:
            inside = _by_area(these, _lines if state in ("not-judged", "pass") else _groups)
            yield element("details", element("summary", f"{title}: {len(these)}"), inside)


def _by_area(rules: Sequence[SetupResult], shown: Callable[[Iterable[SetupResult]], Markup]) -> Iterator[Markup]:
    for area in AREAS:
        these = [one for one in rules if one.area == area]
        if these:
            yield element("h3", area)
            yield shown(sorted(these, key=lambda one: STATES.index(one.state)))


def _groups(rules: Iterable[SetupResult]) -> Markup:
    return element("div", (element("div", _whole(one), class_="group") for one in rules), class_="groups")


def _whole(one: SetupResult) -> Iterator[Markup]:
    """A rule that does not hold."""
    yield element("h4", f"{one.state}: ", _source(one), class_=TONES.get(one.state))
    yield from folded_list([element("li", message) for message in one.messages])
    if one.accepted is not None:
        yield element("p", element("strong", "Accepted: "), one.accepted)
    yield element("p", one.why)
    if one.is_fault and one.remedy is not None:
        yield element("p", element("strong", "What to do: "), prose(one.remedy), class_="remedy")


def _lines(rules: Iterable[SetupResult]) -> Markup:
    """Rules that say nothing of this node but why they do not."""
    return element("ul", (element("li", _source(one), *(f": {text}" for text in one.messages)) for one in rules))


def _source(one: SetupResult) -> Markup:
    """Its name, which leads to where the rule can be read."""
    return element("a", one.id, href=one.source)
