"""Draw docs/images/numaudit-*.svg: `python tests/integration/draw_dashboards.py`.

A Prometheus gets three nodes: worker-1 and worker-2 are the aligned and the misaligned captured tree, as the agent sees
them now; worker-3 is the recorded guest. Each dashboard is drawn from what its queries get.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS / "support")]

from databases import fill, prometheus  # noqa: E402
from fixture_trees import FIXTURES  # noqa: E402
from monitoring import recorded_scrapes  # noqa: E402
from monitoring.grafana import Chosen, Window, answers, dashboards  # noqa: E402
from monitoring.pictures import picture  # noqa: E402
from monitoring.recorded_scrapes import Recording, recording, samples  # noqa: E402
from monitoring.refusals import hold_back, refuse  # noqa: E402
from processes.agent_process import eventually, running_agent  # noqa: E402
from required import tool  # noqa: E402

TREES = {"worker-1": "kubernetes-four-nodes", "worker-2": "misaligned-node"}
REFUSING = "misaligned-node"
WORKLOADS = "numaudit_admission_workload_rejections_total"
RECORDED = "worker-3"
ALL: Chosen = {"cluster": ".*", "nodelabel": "nodename", "nodename": ".*", "namespace": ".*"}
CHOSEN: dict[str, Chosen] = {
    "numaudit-fleet": ALL,
    "numaudit-agent": ALL,
    "numaudit-node": {**ALL, "nodename": RECORDED},
    "numaudit-container": {**ALL, "nodename": RECORDED, "namespace": "lab", "pod": "drifted", "container": "app"},
}


def main() -> int:
    guest = recorded_scrapes.read()
    nodes = {RECORDED: guest, **{name: _observed(tree, guest.at) for name, tree in TREES.items()}}
    series = {
        f'{name.removesuffix("}")},nodename="{node}"}}': values
        for node, seen in nodes.items()
        for name, values in seen.series.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        end = fill(Path(folder), Recording(guest.at, series))
        window = Window(end, step=10, steps=44)
        with prometheus(tool("prometheus"), Path(folder), lookback="30s") as database:
            for uid, dashboard in dashboards().items():
                found = answers(dashboard, CHOSEN[uid], database, window)
                file = TESTS.parent / f"docs/images/{uid}.svg"
                file.write_text(picture(dashboard, found, window))
                print(file)
    return 0


def _observed(tree: str, at: list[float]) -> Recording:
    """What an agent exports of a captured tree, whose kubelet refuses pods in the middle of the time."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(FIXTURES / tree, Path(folder) / tree, symlinks=True))
        refusals = hold_back(copy)
        with running_agent("--root", str(copy), "--interval", "1s", log=Path(folder) / "log") as agent:
            before = agent.get("/metrics")[1]
            if tree == REFUSING:
                refuse(copy, refusals)
                assert eventually(lambda: agent.samples().get(WORKLOADS, {}) != {})
            after = agent.get("/metrics")[1]
    scrapes = (before if 2 * time < at[-1] else after for time in at)
    return recording(
        {time: samples(text, instance="10.0.0.1:9746", job="numaudit") for time, text in zip(at, scrapes, strict=True)}
    )


if __name__ == "__main__":
    sys.exit(main())
