"""The workflow that publishes a release has never run: its form is checked, and that it names what is there."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
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


def test_nothing_runs_that_another_can_change() -> None:
    """An action's tag can be moved, a commit's hash cannot; without hashes pip takes what PyPI has that day."""
    workflows = [*WORKFLOW.parent.glob("*.y*ml")]
    assert WORKFLOW in workflows
    for text in (path.read_text() for path in workflows):
        used = re.findall(r"uses:\s*(\S+)", text)
        assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
        installs = re.findall(r"pip install.*", text)
        assert [line for line in installs if "--require-hashes" not in line] == []


def _step(word: str) -> str:
    """The script that has this word, of the job that publishes."""
    (found,) = [step["run"] for step in JOBS["publish"]["steps"] if word in step.get("run", "")]
    return str(found)


def test_the_image_is_built_of_a_base_by_its_digest_and_of_packages_of_one_moment(tmp_path: Path) -> None:
    for name, does in {
        "skopeo": 'printf "manifest of $3"',
        "buildah": f'printf "%s\\n" "$@" >>"{tmp_path}/asked"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    known = {
        "SOURCE_DATE_EPOCH": "1793534400",
        "GITHUB_ENV": str(tmp_path / "env"),
        "PATH": f"{tmp_path}:/usr/bin:/bin",
    }
    subprocess.run(["bash", "-e", "-c", _step("buildah build")], cwd=tmp_path, env=known, check=True)
    digest = f"sha256:{hashlib.sha256(b'manifest of docker://docker.io/library/debian:bookworm-slim').hexdigest()}"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert {f"BASE=docker.io/library/debian@{digest}", "SNAPSHOT=20261101T120000Z"} <= {*asked}
    assert f"org.opencontainers.image.base.digest={digest}" in asked
    assert (tmp_path / "env").read_text() == f"BASE_DIGEST={digest}\n"


@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), ("v9.9.9", 1)])
def test_a_tag_that_is_not_the_version_publishes_nothing(tmp_path: Path, tag: str, code: int) -> None:
    (tmp_path / "agent/numaudit").mkdir(parents=True)
    shutil.copy(TOP / "agent/numaudit/__init__.py", tmp_path / "agent/numaudit/__init__.py")
    (tmp_path / "CHANGELOG.md").write_text(f"## {__version__}\n")
    (tmp_path / "git").write_text("#!/bin/sh\necho 7\n")
    (tmp_path / "git").chmod(0o755)
    known = {"TAG": tag, "REGISTRY": "ghcr.io", "GITHUB_REPOSITORY": "Some/One", "GITHUB_ENV": str(tmp_path / "env")}
    script = ["bash", "-e", "-o", "pipefail", "-c", _step("__version__")]
    done = subprocess.run(script, cwd=tmp_path, env=known | {"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    assert done.returncode == code
    if code == 0:
        said = (tmp_path / "env").read_text()
        assert said == f"VERSION={__version__}\nIMAGE=ghcr.io/some/one\nSOURCE_DATE_EPOCH=7\n"


def test_the_files_name_where_they_are_published_and_are_still_read(tmp_path: Path) -> None:
    files = ("pyproject.toml", "deploy/helm/numaudit/Chart.yaml", "deploy/helm/numaudit/values.yaml")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, tmp_path / name)
    known = {"URL": "https://git.example/n", "VERSION": __version__, "IMAGE": "r.example/n"}
    subprocess.run(["bash", "-e", "-c", _step("project.urls")], cwd=tmp_path, env={**os.environ, **known}, check=True)
    project, chart, values = ((tmp_path / name).read_text() for name in files)
    assert tomllib.loads(project)["project"]["urls"]["Source"] == known["URL"]
    assert yaml.safe_load(chart)["sources"] == [known["URL"]]
    assert yaml.safe_load(values)["image"]["repository"] == known["IMAGE"]


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
