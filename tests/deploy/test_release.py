"""The workflow that publishes a release has never run: its form is checked, and that it names what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from numaudit import __version__

TOP = Path(__file__).resolve().parents[2]
WORKFLOW = TOP / ".github/workflows/release.yaml"
JOBS: dict[str, dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
SCRIPTS = [
    pytest.param(step["run"], id=f"{job}-{number}")
    for job, description in JOBS.items()
    for number, step in enumerate(description["steps"])
    if "run" in step
]
WITH_THE_VERSION = {
    "agent/numaudit/__init__.py": r'__version__ = "(.*)"',
    "deploy/Containerfile": r"ARG VERSION=(.*)",
    "deploy/base/kustomization.yaml": r"newTag: (\S+)",
    "deploy/examples/otlp/kustomization.yaml": r"newTag: (\S+)",
    "deploy/examples/prometheus-operator/kustomization.yaml": r"newTag: (\S+)",
    "deploy/helm/numaudit/Chart.yaml": r"(?:appVersion|version): (\S+)",
    "deploy/helm/numaudit/README.md": r"numaudit:([0-9.]+)",
}


def test_the_workflow_has_the_form_that_github_publishes() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_of_the_workflow_parses(script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_every_file_of_ours_that_the_workflow_names_is_there() -> None:
    named = set(re.findall(r"\b(?:deploy|agent)/[\w./]+", WORKFLOW.read_text())) | {"CHANGELOG.md"}
    assert {name for name in named if not (TOP / name).exists()} == set()


def test_a_job_has_no_right_but_those_it_names_and_needs_only_jobs_that_are_there() -> None:
    assert yaml.safe_load(WORKFLOW.read_text())["permissions"] == {}
    for job in JOBS.values():
        assert job["permissions"]
        needs = job.get("needs", [])
        assert {*([needs] if isinstance(needs, str) else needs)} <= JOBS.keys()


@pytest.mark.parametrize("name", WITH_THE_VERSION)
def test_a_file_has_the_version_of_the_package(name: str) -> None:
    found = re.findall(WITH_THE_VERSION[name], (TOP / name).read_text())
    assert found
    assert set(found) == {__version__}


def test_the_version_reads_as_the_workflow_reads_it() -> None:
    line = next(line for line in JOBS["check"]["steps"][2]["run"].splitlines() if line.startswith("version="))
    done = subprocess.run(
        ["bash", "-c", f'{line}\necho "$version"'], cwd=TOP, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == __version__
