"""The agent on this host, and a kubelet that does all it can to stop it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from processes.agent_process import eventually, running_agent
from processes.hostile_http import FILLING, KEEPING, MIB, hostile

MOST_GROWTH = 48 * MIB
"""What the agent gains anyhow in its first ticks is less than half of it; a bomb is 64 MiB and more."""
PROMPTLY = 10.0
"""Seconds that a busy machine may take for what takes a moment; two of them are for what does not end by itself."""


@pytest.mark.parametrize("how", ["says nothing", "drips its head", "says to go on", "packs twice", "packs zeros"])
def test_an_agent_ticks_stays_small_and_ends_at_once(how: str, tmp_path: Path) -> None:
    with hostile({**KEEPING, **FILLING}[how]) as server:
        settings = ("--interval", "1s", "--set", "probes=", "--set", f"kubelet.url={server.url}")
        with running_agent(*settings, log=tmp_path / "log") as agent:
            before = psutil.Process(agent.process.pid).memory_info().rss
            assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) >= 3)
            assert server.clients
            assert psutil.Process(agent.process.pid).memory_info().rss < before + MOST_GROWTH
            code, seconds = agent.stop()
            assert code == 0
            assert seconds < PROMPTLY
            assert "internal error" not in agent.log()
