"""Which containers have series."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from made_up.reports import container, report
from numaudit.config.settings import KEYS, Settings
from numaudit.exporters.selection import Selection, parse, show

PROD, TEST, UNIT = container(1), container(2, namespace="test"), container(3, pod=None)
SANDBOX = replace(container(4), kind="sandbox", name=None)
SLICE = replace(container(5, pod=None), kind="slice", whole=False)
PARENT = replace(container(6, pod=None), kind="group", whole=False)
LEAF = replace(container(7, pod=None), kind="group")
ALL = (PROD, TEST, UNIT, SANDBOX, SLICE, PARENT, LEAF)


def _ids(include: str = "", exclude: str = "") -> set[int | None]:
    kinds: Any = KEYS["metrics.include"].kind
    chosen = Selection(kinds.parse(include), kinds.parse(exclude)).of(report(*ALL).containers)
    return {one.id for one in chosen}


def test_sandboxes_and_parent_groups_have_no_series_by_default() -> None:
    limits = Settings().metrics
    chosen = Selection(limits.include, limits.exclude).of(report(*ALL).containers)
    assert {one.id for one in chosen} == {1, 2, 3, 7}


def test_excluded_containers_are_left_out_unless_they_are_included() -> None:
    assert _ids() == {1, 2, 3, 4, 5, 6, 7}
    assert _ids(exclude="namespace=prod") == {2, 3, 5, 6, 7}
    assert _ids(exclude="*", include="namespace=te*") == {2}
    assert _ids(exclude="*", include="kind=service, kind=sandbox namespace=prod") == {3, 4}
    assert _ids(exclude="cgroup=/system.slice/*") == {1, 2, 4}


def test_a_container_whose_facts_change_is_decided_again() -> None:
    selection = Selection(exclude=(parse("kind=sandbox"),))
    (one,) = report(PROD).containers
    assert selection.of([one]) == [one]
    assert selection.of([structs.replace(one, kind="sandbox")]) == []


@pytest.mark.parametrize("text", ["", "prod", "name=x", "namespace=", "kind=nonsense", "=x"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize("text", ["*", "namespace=prod", "kind=service cgroup=/system.slice/*"])
def test_a_selector_is_shown_as_it_is_written(text: str) -> None:
    assert show(parse(text)) == text


def test_an_empty_list_is_shown_and_read_as_none() -> None:
    for path in ("metrics.exclude", "metrics.include", "probes"):
        kind = KEYS[path].kind
        assert kind.show(()) == "none"
        assert kind.parse("none") == kind.parse([]) == kind.parse("") == ()
