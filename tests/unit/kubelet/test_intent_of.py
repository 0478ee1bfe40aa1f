"""The intent is a pure function of what was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubelets.steps import STEPS, Step
from numaudit.kubelet.intent.intent_of import Steps, intent_of
from numaudit.kubelet.sources.poller import KubeletPoller


@pytest.mark.parametrize("step", STEPS)
def test_what_is_remembered_changes_no_intent(step: str, tmp_path: Path) -> None:
    moment, other = Step(step), Step("standalone-restricted/2-more")
    readings = KubeletPoller.of(moment.tree(tmp_path / "one")).poll(moment.containers())
    others = KubeletPoller.of(other.tree(tmp_path / "other")).poll(other.containers())
    steps = Steps()
    alone = intent_of(readings, moment.containers())
    assert intent_of(readings, moment.containers(), steps) == alone
    intent_of(others, other.containers(), steps)
    assert intent_of(readings, moment.containers(), steps) == alone


def test_a_step_is_done_again_only_when_what_it_needs_changed(tmp_path: Path) -> None:
    moment = Step("standalone-restricted/2-more")
    poller, steps = KubeletPoller.of(moment.tree(tmp_path / "tree")), Steps()
    first = intent_of(poller.poll(moment.containers()), moment.containers(), steps).intent
    second = intent_of(poller.poll(moment.containers()), moment.containers(), steps).intent
    assert second.containers is first.containers
    assert second.headroom is first.headroom
    fewer = intent_of(poller.poll(moment.containers()[1:]), moment.containers()[1:], steps).intent
    assert fewer.containers is not first.containers
    assert fewer.headroom is first.headroom
