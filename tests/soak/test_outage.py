"""A short form of outage.py: the OTLP receiver is away for some seconds."""

from __future__ import annotations

from pathlib import Path

from hosts.node_tree import NodeTree
from monitoring.otlp_receiver import OtlpReceiver
from outage import Outage
from processes.agent_process import running_agent


def test_a_receiver_that_was_away_gets_what_is_served_when_it_is_back(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    tree.fill(20)
    with OtlpReceiver() as receiver:
        port = receiver.server_address[1]
    otlp = ("--set", f"otlp.endpoint=http://127.0.0.1:{port}", "--set", "otlp.interval=1s", "--set", "otlp.timeout=2s")
    with running_agent("--root", str(tree.root), "--interval", "1s", *otlp, log=tmp_path / "log") as agent:
        outage = Outage(tree, agent, port)
        outage.pass_by(before=1, down=4, after=1)
        assert outage.failed >= 1
        assert outage.differing == set()
        assert agent.value("numaudit_failed_ticks_total") == 0
        failed = agent.value("numaudit_otlp_batches_total", outcome="failed") or 0
        assert 1 <= agent.log().count("the agent keeps trying") <= failed  # one line for each change
