"""Selectors: whatever is asked for, the text stays one selector."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import InputError
from numaudit.fleet.queries import details
from numaudit.fleet.scope import Scope, matched


@pytest.mark.parametrize(
    "selector", ['cluster="x"', 'a="x",b=~"y.*"', 'a!=\'x\', b!~"\\"}" ,', 'namespace="{}"', "  ", ""]
)
def test_matchers_of_promql_are_taken(selector: str) -> None:
    assert Scope(selector=selector).any('a="b"').startswith('{a="b"')


@pytest.mark.parametrize("selector", ["x", 'a="x"} or up{b="y"', 'a="x" or b="y"', "a=x", '{a="x"}', 'a="x\n"'])
def test_what_is_no_matcher_is_refused(selector: str) -> None:
    with pytest.raises(InputError, match=r"--selector: .* is not a list of label matchers"):
        Scope(selector=selector)


@pytest.mark.parametrize("label", ["", "node name", "1st", 'a="b"', "nöde", "numa_node", "pod"])
def test_what_is_no_label_is_refused(label: str) -> None:
    with pytest.raises(InputError, match="--node-label"):
        Scope(node_label=label)


def test_a_namespace_narrows_containers_only() -> None:
    scope = Scope(namespace='pr"od', selector='cluster="x"')
    assert scope.of_containers("container_verdict") == 'numaudit_container_verdict{namespace="pr\\"od", cluster="x"}'
    assert scope.of("build_info") == 'numaudit_build_info{cluster="x"}'


@given(
    st.lists(st.text(alphabet='ab.*+?()|[]{}^$\\-/"\n #&~', max_size=6), min_size=1, max_size=4), st.text(max_size=6)
)
def test_any_names_are_matched_as_they_are(names: list[str], other: str) -> None:
    matcher = matched("pod", names)
    quoted = matcher.removeprefix("pod=~")
    pattern = re.compile(eval(quoted))  # a Go string of these letters is a Python string, too
    assert all(pattern.fullmatch(name) for name in names)
    assert bool(pattern.fullmatch(other)) == (other in names)


def test_many_names_are_asked_for_in_several_queries_that_any_server_takes() -> None:
    names = [("", "", f"/kubepods.slice/kubepods-pod{number:036}.slice/{'x' * 150}") for number in range(200)]
    texts = details(Scope(), names)
    assert len(texts) == 8
    assert all(len(text) < 16384 for text in texts)
    assert all(any(f"{number:036}" in text for text in texts) for number in range(200))
    assert details(Scope(), []) == []
