"""Every example of a scenario comes out as its golden output, which names the rule and the way out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from numaudit.cli.main import call
from numaudit.evaluation.hint_outcomes import outcome_of_reason

TOP = Path(__file__).parents[3]
EXAMPLES = sorted((TOP / "docs/examples").glob("*.yaml"))
IN_A_GROUP = "odes 0-1 are in a group with other nodes"
ALONE = "containers use node 0 alone or in another group"
NOT_PREFERRED = "ot all prefer the same nodes"

TOLD: dict[str, tuple[str, str]] = {
    "walk-through": ("admit default/a: admitted, aligned-multi", "hint 0-1 (preferred)"),
    "single-or-cross": (ALONE, "Deleting pod default/one (frees 5Gi of memory on node 0) would let it in"),
    "kai-2013-group": (IN_A_GROUP, "pod default/small (frees 1Gi of memory on nodes 0-1 "),
    "kai-2013-singleton": (ALONE, "pod default/small (frees 1Gi of memory on node 0"),
    "kubernetes-84597": (NOT_PREFERRED, "Requesting 2 of cpu instead of 3"),
    "kubernetes-110216": ("failed to find NUMA nodes to extend the current topology hint", "13351Mi of memory"),
    "kubernetes-112234": ("its hints are empty", "Kubernetes 1.28"),
    "kubernetes-120733": (IN_A_GROUP, "pod default/wide (frees 120Gi of memory on nodes 0-1 "),
    "kubernetes-122295": (NOT_PREFERRED, "Requesting 1 of nvidia.com/gpu instead of 2"),
    "kubernetes-123816": (ALONE, "Setting topologyManagerScope to pod"),
    "kubernetes-123971": ("default/a: evicted", "Requesting 3Gi of memory instead of 8Gi in container prepare"),
    "kubernetes-128669": (NOT_PREFERRED, "Requesting 5 of cpu instead of 1"),
    "kubernetes-128708": (ALONE, "pod default/small (frees 1Gi of memory on node 0"),
    "kubernetes-129078": ("SMT Alignment Error: not enough free physical CPUs", "Removing full-pcpus-only"),
    "kubernetes-138495": ("preferred hint violates NUMA node allocation", "Setting topologyManagerScope to pod"),
}
"""Example -> the rule and the way out, as its output has them."""


def test_every_example_is_told_and_listed_in_the_documentation() -> None:
    names = {path.stem for path in EXAMPLES}
    assert names == TOLD.keys()
    page = (TOP / "docs/simulate.md").read_text(encoding="utf-8")
    assert names <= set(re.findall(r"examples/([\w-]+)\.yaml", page))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_output_of_an_example_is_known_and_names_the_rule_and_the_way_out(
    capsys: pytest.CaptureFixture[str], matches_golden: Callable[[str, str], None], path: Path
) -> None:
    assert call(["simulate", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for part in TOLD[path.stem]:
        assert part in out
    matches_golden(f"tests/golden/examples/{path.stem}.txt", out)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_refusal_has_the_name_that_the_refused_pods_status_gives_it(
    capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    assert call(["simulate", str(path), "-o", "json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    refused = [one for one in (*steps, *(pod for step in steps for pod in step["pods"])) if one.get("outcome")]
    for one in refused:
        if one["reason"] is not None:
            assert one["outcome"] == outcome_of_reason(one["reason"], one["message"])
