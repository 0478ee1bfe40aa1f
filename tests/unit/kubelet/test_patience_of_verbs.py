"""Time limits for the kubelet's answers: a verb asks once, and a tick asks again."""

from __future__ import annotations

from numaudit.kernel.host import Host
from numaudit.kubelet.sources.client import LiveKubelet
from numaudit.kubelet.sources.poller import KubeletPoller


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
