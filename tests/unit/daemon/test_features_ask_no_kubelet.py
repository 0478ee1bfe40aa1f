"""What the agent says that it can measure costs the kubelet nothing: it has its share of a tick already."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from pathlib import Path

from kubelets.http import replies, serving
from numaudit.daemon.ticks.publisher import Features
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.kernel.host import Host, KubeletConnection
from numaudit.probes.session import Session

IN_FORCE = b'{"kubeletconfig": {"kind": "KubeletConfiguration", "memoryManagerPolicy": "Static"}}'


def test_features_are_examined_by_what_the_tick_knows_of_the_kubelet(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        replies(IN_FORCE)(request)

    with serving(answer) as url:
        host = Host(kubelet_root=str(tmp_path / "none"), connection=KubeletConnection(url))
        kubelet = IntentCollector(host)
        kubelet.poller.poll(())
        of_the_tick = [*asked]
        assert kubelet.readings is not None
        assert kubelet.readings.config.memory_manager_policy == "Static"
        assert Features(host, Session({}), lambda: kubelet.readings).after(())
        kubelet.close()
    assert asked == of_the_tick
