"""What `numaudit explain POD` derives is what the kubelet logged, on every capture that has a log.

The log is read by the tests' own parser. Where a pod has gone since, the derivation may differ; then the page says so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixture_trees import FIXTURES
from kubelets.node_of_step import running_node_of
from kubelets.recorded import LoggedAdmission, LoggedMerge, events_in
from kubelets.steps import LOGS, RUNS
from numaudit.cli.main import call

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]

TREES = ("hugepages-short", "kubernetes-four-nodes", "misaligned-node")
SINGLE = "standalone-single-numa-node"
COUNTS = {
    "hugepages-short": (12, 0, 0),
    "kubernetes-four-nodes": (12, 0, 0),
    "misaligned-node": (12, 0, 0),
    "standalone-log-verbosity-0/1": (3, 0, 0),
    "standalone-pod-level-resources/1": (5, 0, 0),
    "standalone-restart-errors/1": (1, 0, 0),
    "standalone-restricted/1-cross": (1, 0, 1),
    "standalone-restricted/2-more": (4, 0, 0),
    f"{SINGLE}/1-running": (10, 0, 4),
    f"{SINGLE}/2-rejected": (14, 0, 0),
    f"{SINGLE}/3-removed-gu-two": (5, 7, 0),
    f"{SINGLE}/4-kubelet-restarted": (7, 5, 0),
}
"""Capture -> containers and refused pods of which log and derivation agree, differ, and cannot be compared."""


@dataclass(frozen=True)
class Logged:
    """The admission that decided about one container, or the last one of a refused pod."""

    merge: LoggedMerge
    denied: tuple[str, str] | None


def test_every_capture_with_a_log_is_compared() -> None:
    with_log = {tree.parents[1].name for tree in FIXTURES.glob("*/numaudit/kubelet.log")}
    steps = {str(file.parent.relative_to(RUNS)) for file in RUNS.glob("*/*/pods.json")}
    with_log.remove("page-sizes")  # its pods and its machine are not those of its log
    assert set(COUNTS) == with_log | steps
    assert sum(agree for agree, _, _ in COUNTS.values()) > 70


@pytest.mark.parametrize("capture", COUNTS)
def test_an_explanation_is_what_the_kubelet_logged_or_says_that_it_is_not(
    capsys: Capture, tmp_path: Path, capture: str
) -> None:
    root, log = _tree(capture, tmp_path)
    logged = _decisions(log)
    agreed = differing = uncompared = 0
    for item in _explained(capsys, root):
        pod, container = _who(item)
        truth = logged.get((pod, container)) or logged[pod, None]  # in pod scope there is one merge for all
        account = item["admission"]
        assert _merge(account["logged"]["providers"], account["logged"]["hint"]) == (
            truth.merge.answers,
            truth.merge.best,
        )
        derived = account["derived"]
        if derived is None:
            assert account["notDerived"].startswith("the pod's spec is not known")
            uncompared += 1
            continue
        ours = (
            *_merge(derived["merge"]["providers"], derived["merge"]["merge"]["hint"]),
            None if derived["admitted"] else (derived["reason"], derived["message"]),
        )
        is_same = ours == (truth.merge.answers, truth.merge.best, truth.denied)
        assert is_same is (account["differences"] == []), (_who(item), account["differences"])
        assert is_same or derived["gone"], _who(item)
        agreed, differing = agreed + is_same, differing + (not is_same)
    assert (agreed, differing, uncompared) == COUNTS[capture]


def test_a_page_that_differs_names_the_pods_that_may_be_why(capsys: Capture, tmp_path: Path) -> None:
    root, _ = _tree(f"{SINGLE}/3-removed-gu-two", tmp_path)
    assert call(["explain", "gu-huge-numanode", "--root", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  The log and this recomputation differ:" in lines
    assert (
        "    Pods that were admitted or refused before it may have had memory then: default/gu-two-numanode." in lines
    )


def _tree(capture: str, tmp_path: Path) -> tuple[Path, str]:
    """The tree for --root, and the text of its kubelet's log."""
    if capture in TREES:
        root = FIXTURES / capture
        return root, (root / "numaudit/kubelet.log").read_text()
    running_node_of(capture, tmp_path)
    folder = (RUNS / capture).parent
    return tmp_path / "tree", "".join((folder / log).read_text() for log in LOGS[capture])


def _explained(capsys: Capture, root: Path) -> list[Json]:
    assert call(["explain", "default/*", "--root", str(root), "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    items: list[Json] = json.loads(out)["items"]
    return items


def _decisions(log: str) -> dict[tuple[str, str | None], Logged]:
    """(namespace/pod, container) -> what decided: a restarted kubelet only repeats what it finds of an admitted one."""
    found: dict[tuple[str, str | None], Logged] = {}
    for event in events_in(log):
        if not isinstance(event, LoggedAdmission):
            continue
        for merge in event.merges:
            if event.denied is None:
                found.setdefault((event.pod, merge.container), Logged(merge, None))
        if event.denied is not None:
            found[event.pod, None] = Logged(event.merges[-1], event.denied)
    return found


def _who(item: Json) -> tuple[str, str | None]:
    one = item["container"] or item["refused"]
    container = item["container"] and item["container"]["container"]
    return f"{one['namespace']}/{one['pod']}", container


def _merge(providers: list[Json], hint: Json) -> tuple[list[object], object]:
    """As the kubelet logs it."""
    return [_answer(one["hints"]) for one in providers], _hint(hint)


def _answer(hints: dict[str, list[Json] | None] | None) -> object:
    if hints is None:
        return None
    return {name: None if some is None else [_hint(one) for one in some] for name, some in hints.items()}


def _hint(hint: Json) -> Json:
    nodes = hint["nodes"]
    return {
        "NUMANodeAffinity": None if nodes is None else sum(1 << node for node in nodes),
        "Preferred": hint["preferred"],
    }
