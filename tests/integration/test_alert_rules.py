"""Prometheus and VictoriaMetrics take the rules, and alerts fire where they should and nowhere else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from databases import prometheus
from monitoring import alert_cases
from processes.agent_process import eventually, running_agent
from required import tool

PROMTOOLS: dict[str, Callable[[], Path]] = {
    "of the system": lambda: tool("prometheus").with_name("promtool"),
    "of forky": lambda: tool("promtool-forky"),
}
ABOUT_SCRAPES = {"NumauditAgentMissing", "NumauditAgentDown", "NumauditSnapshotStale"}

promtools = pytest.mark.parametrize("promtool", PROMTOOLS)


@promtools
def test_promtool_finds_nothing_to_complain_about(promtool: str) -> None:
    done = _run(PROMTOOLS[promtool](), "check", "rules", "--lint=all", "--lint-fatal", alert_cases.RULES)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"SUCCESS: {len(alert_cases.rules())} rules found" in done.stdout


@promtools
def test_in_prometheus_each_case_has_its_alert_and_no_other(promtool: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(alert_cases.test_file(for_vmalert=False)))
    done = _run(PROMTOOLS[promtool](), "test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_fires_although_scrapes_fail_now_and_then(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(alert_cases.test_file_of_failed_scrapes()))
    done = _run(PROMTOOLS["of the system"](), "test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_in_victoria_metrics_each_alert_fires_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(alert_cases.test_file(for_vmalert=True)))
    done = _run(tool("victoria-metrics").with_name("vmalert-tool"), "unittest", "--files", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_real_agents_on_a_misaligned_and_an_aligned_host_have_the_right_alerts(fixtures: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(_hurried()))
    with ExitStack() as stack:
        misaligned, aligned = (
            stack.enter_context(
                running_agent("--root", str(fixtures / host), "--interval", "1s", log=tmp_path / f"{host}.log")
            )
            for host in ("misaligned-node", "kubernetes-four-nodes")
        )
        database = stack.enter_context(
            prometheus(tool("prometheus"), tmp_path, misaligned.port, aligned.port, rules=rules)
        )
        evaluated = "min(count_over_time(node:numa_misplaced_bytes:sum[5m])) >= 8"
        assert eventually(lambda: database.query("count(up == 1) == 2") != {} and database.query(evaluated) != {})
        fired = database.query('count by (instance, alertname, pod) (count_over_time(ALERTS{alertstate="firing"}[5m]))')
        here = f"127.0.0.1:{misaligned.port}"
        assert {frozenset(labels) for labels in fired} == {
            frozenset({"instance": here, "alertname": name, "pod": pod}.items())
            for name, pod in (
                ("NumauditContainerDrifted", "gu-init-numanode"),
                ("NumauditContainerCpuRemote", "gu-small-numanode"),
            )
        }
        texts = [one["annotations"]["description"] for one in database.get("/api/v1/alerts")["data"]["alerts"]]
        drifted = (
            f"default/gu-init-numanode/app on {here} may use memory of NUMA nodes 0,2, "
            "but the kubelet promised it node 2 (verdict drifted)."
        )
        assert any(drifted in one for one in texts), texts


def _hurried() -> dict[str, Any]:
    """The rules, with seconds in place of minutes unless the late answers of a busy machine would be the cause."""
    rules: dict[str, Any] = yaml.safe_load(alert_cases.RULES.read_text(encoding="utf-8"))
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        if "for" in rule and rule["alert"] not in ABOUT_SCRAPES:
            rule["for"] = "2s"
    return rules


def _run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
