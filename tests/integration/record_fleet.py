"""Records what real servers answer to `numaudit fleet` about the hosts of `test_fleet.py`, for the unit tests.

.venv/bin/python tests/integration/record_fleet.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support")]
# ruff: noqa: E402

import tools
from databases import prometheus, victoria_metrics
from fixture_trees import FIXTURES
from monitoring.fleet_nodes import recordable
from numaudit.fleet import queries
from numaudit.fleet.answers import read_vector
from numaudit.fleet.scope import Scope
from processes.agent_process import eventually, running_agent

TOP = 10


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = {
            name: stack.enter_context(
                running_agent("--root", str(FIXTURES / root), "--interval", "1h", log=folder / name)
            ).port
            for name, root in (("aligned", "kubernetes-four-nodes"), ("misaligned", "misaligned-node"))
        }
        for server, start in (("prometheus", prometheus), ("victoria-metrics", victoria_metrics)):
            (folder / server).mkdir()
            database = stack.enter_context(start(tools.find(server), folder / server, ports))
            assert eventually(lambda: len(database.query("numaudit_build_info")) == len(ports))  # noqa: B023 (at once)
            bodies = {
                name: json.dumps(database.get("/api/v1/query", query=promql))
                for promql, name in recordable(Scope(), TOP).items()
            }
            worst = read_vector(bodies["worst"].encode()).samples
            names = [(one.label("namespace"), one.label("pod"), one.label("container")) for one in worst]
            (details,) = queries.details(Scope(), names)
            bodies["details"] = json.dumps(database.get("/api/v1/query", query=details))
            file = TESTS / "fixtures/fleet" / f"{server}.json"
            file.write_text(json.dumps(bodies, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
