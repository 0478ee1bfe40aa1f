"""Deadlines of the kubelet's answers, those of a verb included; and work that is done again only when its inputs
changed.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from kubelets.http import replies, serving
from kubelets.steps import Step
from numaudit.kernel.host import Host, KubeletConnection
from numaudit.kubelet.sources import poller
from numaudit.kubelet.sources.client import LiveKubelet
from numaudit.kubelet.sources.polled import Inputs, Memo
from numaudit.kubelet.sources.poller import KubeletPoller
from processes.hostile_http import KEEPING, hostile

PODS = Step("standalone-single-numa-node/1-running").read("pods.json")
LATE = 10.0
"""Seconds that a busy machine may add."""


def _poller(url: str, tmp_path: Path) -> KubeletPoller:
    return KubeletPoller.of(Host(kubelet_root=str(tmp_path / "none"), connection=KubeletConnection(url)))


def test_a_kubelet_that_keeps_every_question_takes_no_more_than_the_share(tmp_path: Path) -> None:
    with hostile(KEEPING["drips its head"]) as server:
        one = _poller(server.url, tmp_path)
        assert isinstance(one.answers, LiveKubelet)
        one.answers.deadline = 60.0
        one.patience = 0.5
        begun = time.monotonic()
        readings = one.poll(())
        assert time.monotonic() - begun < 0.5 + LATE
        one.close()
    reasons = {source.name: source.reason or "" for source in readings.sources}
    # Looking for the kubelet's process has taken a part of it, which on a busy machine is to be seen.
    assert re.search(r"no complete answer within 0\.\d+ s", reasons["kubelet configuration"])
    assert reasons["pods"].startswith("not asked, ")


def test_what_was_not_asked_for_lack_of_time_is_asked_in_the_next_tick(tmp_path: Path) -> None:
    with serving(replies(PODS)) as url:
        one = _poller(url, tmp_path)
        one.patience = -1.0
        assert one.poll(()).pods is None
        one.patience = 60.0
        readings = one.poll(())
        assert readings.pods is not None
        ages = {source.name: source.age for source in readings.sources}
        assert (ages["pods"] is not None, ages["memory checkpoint"]) == (True, None)
        one.close()


@pytest.mark.parametrize(("interval", "share"), [(1, 1 / 3), (15, 5.0), (3600, 5.0)])
def test_the_share_follows_the_interval(interval: float, share: float, tmp_path: Path) -> None:
    one = _poller("http://127.0.0.1:1", tmp_path)
    assert one.patience == poller.PATIENCE
    one.use(interval, 600)
    assert one.patience == share


def test_a_verb_waits_longer_for_a_busy_kubelet_than_a_tick_does() -> None:
    poller = KubeletPoller.of(Host())
    kubelet = poller.answers
    assert isinstance(kubelet, LiveKubelet)
    assert (kubelet.deadline, kubelet.resources.deadline) == (10, 10)
    assert poller.patience >= kubelet.deadline + kubelet.resources.deadline
    poller.use(interval=15, max_age=60)
    assert (kubelet.deadline, kubelet.resources.deadline) == (3, 2)
    assert poller.patience >= kubelet.deadline + kubelet.resources.deadline
    poller.close()


def test_the_same_inputs_give_the_same_result_without_work() -> None:
    calls: list[tuple[str, int]] = []

    def work(text: str, times: int) -> str | None:
        calls.append((text, times))
        return text * times or None

    memo = Memo(work)
    assert [memo("a", 2), memo("a", 2), memo("a", times=3), memo("", 1), memo("", 1)] == ["aa", "aa", "aaa", None, None]
    assert calls == [("a", 2), ("a", 3), ("", 1)]


def test_work_that_failed_is_tried_again() -> None:
    answers = iter([0, 4])
    memo = Memo(lambda number: number // next(answers))
    with pytest.raises(ZeroDivisionError):
        memo(8)
    assert memo(8) == 2


def test_the_same_object_is_not_compared() -> None:
    class Incomparable:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise AssertionError

    inputs, one = Inputs(), Incomparable()
    assert [inputs.changed(one, 1), inputs.changed(one, 1), inputs.changed(one, 2)] == [True, False, True]
