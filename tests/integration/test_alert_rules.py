"""Prometheus and VictoriaMetrics take the rules, and alerts fire where they should and nowhere else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import alert_cases
from required import tool

PROMTOOLS: dict[str, Callable[[], Path]] = {
    "of the system": lambda: tool("prometheus").with_name("promtool"),
    "of forky": lambda: tool("promtool-forky"),
}

promtools = pytest.mark.parametrize("promtool", PROMTOOLS)


@promtools
def test_promtool_finds_nothing_to_complain_about(promtool: str) -> None:
    done = _run(PROMTOOLS[promtool](), "check", "rules", "--lint=all", "--lint-fatal", alert_cases.RULES)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"SUCCESS: {len(alert_cases.rules())} rules found" in done.stdout


@promtools
def test_in_prometheus_each_case_has_its_alert_and_no_other(promtool: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(alert_cases.tests(with_groups=False)))
    done = _run(PROMTOOLS[promtool](), "test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_in_victoria_metrics_each_case_has_its_alert_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(alert_cases.tests(with_groups=True)))
    done = _run(tool("victoria-metrics").with_name("vmalert-tool"), "unittest", "--files", file)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
