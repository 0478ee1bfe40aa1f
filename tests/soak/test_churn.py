"""A short form of `make soak`: containers come and go quickly."""

from __future__ import annotations

from pathlib import Path

from churn import Churn
from hosts.node_tree import NodeTree
from processes.agent_process import eventually, running_agent


def test_every_container_that_lived_two_ticks_is_seen_and_none_under_a_wrong_name(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    tree.fill(20)
    with running_agent("--root", str(tree.root), "--interval", "1s", log=tmp_path / "log") as agent:
        agent.samples()
        at_rest = agent.value("process_open_fds") or 0
        churn = Churn(tree, rate=25, life=5.0, interval=1.0)
        with churn.running(agent, scrape_every=0.7):
            assert eventually(lambda: len(churn.owed()) > 150, 600)  # later where the machine has other work
        assert churn.misattributed() == {}
        assert churn.unseen() == set()
        # What has ended is forgotten once two scrapes have seen it, with all that was kept open for it.
        assert eventually(lambda: not any(("namespace", "churn") in labels for labels in _judged(agent.samples())))
        assert agent.value("numaudit_ended_containers") == 0
        assert eventually(lambda: (agent.value("process_open_fds") or 0) <= at_rest + 5)
        assert agent.value("numaudit_failed_ticks_total") == 0


def _judged(samples: dict[str, dict[frozenset[tuple[str, str]], float]]) -> list[frozenset[tuple[str, str]]]:
    return list(samples["numaudit_container_judged_bytes"])
