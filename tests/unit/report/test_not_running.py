"""A promised container that does not run now keeps its row."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from made_up.reports import exposition
from numaudit.cli.main import call
from numaudit.engine.observer import Observer
from numaudit.exporters.prometheus import render
from numaudit.exporters.series import SeriesTracker
from numaudit.kernel.host import Host
from numaudit.report.build import build, last_counts
from numaudit.report.values import Report

POD = "gu-small-numanode"


@pytest.fixture
def crashing(fixtures: Path, tmp_path: Path) -> Path:
    """A captured node on which the one container of a promised pod waits to be started again."""
    root = Path(shutil.copytree(fixtures / "kubernetes-four-nodes", tmp_path / "node", symlinks=True))
    pods = json.loads((root / "numaudit/pods.json").read_text())
    (pod,) = [one for one in pods["items"] if one["metadata"]["name"] == POD]
    (status,) = pod["status"]["containerStatuses"]
    status["lastState"] = {"terminated": {"containerID": status["containerID"], "exitCode": 1}}
    status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    (root / "numaudit/pods.json").write_text(json.dumps(pods))
    (cgroup,) = (root / "sys/fs/cgroup").glob(f"**/{status['containerID'].removeprefix('containerd://')}")
    shutil.rmtree(cgroup)
    inodes = root / "cgroup-inodes.txt"
    lines = [line for line in inodes.read_text().splitlines(keepends=True) if cgroup.name not in line]
    inodes.write_text("".join(lines))
    return root


def rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in report["containers"] if (one["pod"], one["container"]) == (POD, "app")]


def report_of(root: Path) -> Report:
    return build(Observer.of(Host.under(root)).observe())


def test_a_promised_container_in_a_crash_loop_keeps_its_row(crashing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", "--root", str(crashing), "-o", "json"]) == 0
    (row,) = rows(json.loads(capsys.readouterr().out))
    assert (row["id"], row["path"], row["kind"], row["qos"]) == (None, None, "container", "Guaranteed")
    assert row["intended"]["memoryNodes"] == [0]
    assert (row["verdict"]["name"], row["judgedBytes"], row["resident"]) == ("unknown", None, None)
    assert row["verdict"]["reason"] == "it does not run now: its status is waiting"
    assert call(["report", f"default/{POD}", "--root", str(crashing)]) == 0
    assert f"default/{POD}/app" in capsys.readouterr().out


def test_a_container_that_does_not_run_fails_no_check_of_its_bytes(crashing: Path) -> None:
    assert call(["report", "--root", str(crashing), "--fail-below", "0.9"]) == 0


def test_a_container_that_runs_has_no_second_row(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", "--root", str(fixtures / "kubernetes-four-nodes"), "-o", "json"]) == 0
    (row,) = rows(json.loads(capsys.readouterr().out))
    assert row["id"] is not None


def test_its_series_goes_on_through_a_crash(fixtures: Path, crashing: Path) -> None:
    before, now = report_of(fixtures / "kubernetes-four-nodes"), report_of(crashing)
    snapshot = Observer.of(Host.under(crashing)).observe()
    tracker, key = SeriesTracker(), ("default", POD, "app")
    first = {one.key: one for one in tracker.update(before.containers, 1.0, ())}
    second = {one.key: one for one in tracker.update(now.containers, 2.0, (), last_counts(before, snapshot))}
    assert (first[key].ended, second[key].ended) == (False, False)
    assert second[key].report.intended == first[key].report.intended
    # It does not end again with each tick.
    assert [one.pod for one in last_counts(now, snapshot)] == []


def test_its_metrics_tell_the_promise_and_no_bytes(crashing: Path) -> None:
    lines = [
        line.partition("{")[0]
        for line in render(exposition(report_of(crashing)), "text").decode().splitlines()
        if f'pod="{POD}",container="app"' in line
    ]
    assert {"numaudit_container_intended_bytes", "numaudit_container_verdict"} <= set(lines)
    assert not any("resident" in line or "judged" in line for line in lines)
