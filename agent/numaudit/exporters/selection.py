"""The containers to export: those that `metrics.exclude` does not name and those that `metrics.include` names, of which
`max_series` may leave out some.

A selector is one or more conditions with blanks between them, all of which must hold: `namespace=prod`, `kind=service`,
`cgroup=/system.slice/*`. Patterns are those of a shell; `*` alone is every container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec import Struct, field

from numaudit.report.values import ContainerReport

_ROOM_FOR_NEW = 0.98
"""Share of the limit up to which containers are let in that were left out: else those at the edge come and go."""

Name = tuple[str, str, str]


class Omitted(NamedTuple):
    """Series missing in one tick."""

    series: int = 0
    containers: int = 0


class SeriesLimit(Struct):
    """Leaves out whole containers above `most` series. Who was chosen stays, as long as there is room."""

    most: int
    _chosen: set[Name] = field(default_factory=set)

    def choose_all(self, order: Sequence[Name]) -> Omitted:
        """There is room for all of these."""
        self._chosen = set(order)
        return Omitted()

    def choose(self, order: Sequence[Name], counts: Mapping[Name, int]) -> tuple[set[Name], Omitted]:
        """The containers to export, of those in this order of importance with so many series each."""
        if sum(counts.values()) <= self.most:
            return set(order), self.choose_all(order)
        stay = self._fill((name for name in order if name in self._chosen), counts, self.most)
        room = int(self.most * _ROOM_FOR_NEW) - sum(counts.get(name, 0) for name in stay)
        come = self._fill((name for name in order if name not in self._chosen), counts, room)
        self._chosen = stay | come
        left_out = [name for name in order if name not in self._chosen]
        return self._chosen, Omitted(sum(counts.get(name, 0) for name in left_out), len(left_out))

    def _fill(self, order: Iterable[Name], counts: Mapping[Name, int], room: int) -> set[Name]:
        """The first ones that fit."""
        chosen = set()
        for name in order:
            room -= counts.get(name, 0)
            if room < 0:
                break
            chosen.add(name)
        return chosen


KINDS = ("container", "sandbox", "pod", "service", "scope", "slice", "job", "step", "group", "parent")
"""Those of the report; `parent` is a group of which only what its children do not hold is shown."""


def kind_of(one: ContainerReport) -> str:
    """The kind that selectors go by."""
    return "parent" if one.kind == "group" and not one.whole else one.kind


_SUBJECTS: dict[str, Callable[[ContainerReport], str]] = {
    "namespace": lambda one: one.namespace or "",
    "pod": lambda one: one.pod or "",
    "kind": kind_of,
    "cgroup": lambda one: one.path or "",
}


class Condition(NamedTuple):
    """One part of a selector."""

    subject: str
    pattern: str


Selector = tuple[Condition, ...]
"""All of these must hold; none = every container."""


def parse(text: str) -> Selector:
    """Raises ValueError when it is no selector."""
    if text.strip() == "*":
        return ()
    conditions = []
    for part in text.split():
        subject, equals, pattern = part.partition("=")
        if not equals or not pattern or subject not in _SUBJECTS:
            raise ValueError
        if subject == "kind" and not any(fnmatchcase(kind, pattern) for kind in KINDS):
            raise ValueError
        conditions.append(Condition(subject, pattern))
    if not conditions:
        raise ValueError
    return tuple(conditions)


def show(selector: Selector) -> str:
    """As `parse` reads it."""
    return " ".join(f"{one.subject}={one.pattern}" for one in selector) or "*"


class Selection(Struct):
    """The containers to export. Each set of facts about one is decided once."""

    include: tuple[Selector, ...] = ()
    exclude: tuple[Selector, ...] = ()
    _decided: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def of(self, containers: Sequence[ContainerReport]) -> list[ContainerReport]:
        """Those that are to be exported, in their order."""
        if not self.exclude:
            return list(containers)
        if len(self._decided) > 2 * len(containers):
            self._decided.clear()
        return [one for one in containers if self._decide(one)]

    def _decide(self, one: ContainerReport) -> bool:
        facts = (one.path or "", one.namespace or "", one.pod or "", kind_of(one))
        takes = self._decided.get(facts)
        if takes is None:
            takes = self._decided[facts] = self._takes(one)
        return takes

    def _takes(self, one: ContainerReport) -> bool:
        return not _is_any(one, self.exclude) or _is_any(one, self.include)


def _is_any(one: ContainerReport, selectors: Iterable[Selector]) -> bool:
    return any(
        all(fnmatchcase(_SUBJECTS[subject](one), pattern) for subject, pattern in selector) for selector in selectors
    )
