"""A real Prometheus reads and answers every query that the documentation shows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import tools
from databases import prometheus
from monitoring.documented_queries import documented_queries
from processes.agent_process import eventually, running_agent
from required import tool

QUERIES = documented_queries()
SERVERS = [name for name in tools.TOOLS if name.startswith("prometheus")]


def test_promtool_accepts_every_documented_query(tmp_path: Path) -> None:
    rules = [{"record": f"documented:query:{number}", "expr": query} for number, query in enumerate(QUERIES.values())]
    assert len(rules) > 10
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "documented", "rules": rules}]}))
    promtool = tool("prometheus").with_name("promtool")
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("server", SERVERS)
def test_prometheus_answers_every_documented_query(tmp_path: Path, fixtures: Path, server: str) -> None:
    """With the series of a captured host, which two sides of an operator may match wrongly."""
    root = ("--root", str(fixtures / "misaligned-node"), "--interval", "1s")
    with (
        running_agent(*root, log=tmp_path / "log") as agent,
        prometheus(tool(server), tmp_path, agent.port) as database,
    ):
        assert eventually(lambda: database.query("numaudit_ticks_total > 1") != {})
        answers = {place: database.query(query) for place, query in QUERIES.items()}  # an error is no 200, so it raises
    assert any(answers.values())
