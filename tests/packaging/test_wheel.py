"""The wheel that users install: what it needs, what it holds, and that it works away from the checkout."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def _requirement_name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match[0].lower()


def _run(arguments: list[str | Path], folder: Path, seconds: int = 300) -> str:
    """Standard output of a command that must succeed, run where the checkout cannot be seen."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, CHECKOUT], folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a fresh environment that sees nothing of this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=True, system_site_packages=False)
    _run([folder / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel], folder)
    return folder / "venv/bin"


def test_the_project_never_asks_for_the_stranger_that_is_called_bcc() -> None:
    """The eBPF compiler's binding comes from the distribution; PyPI's `bcc` is something else."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    assert "click" in {_requirement_name(one) for one in wanted}
    assert not {"bcc", "python3-bpfcc", "bpfcc"} & {_requirement_name(one) for one in wanted}


def test_the_wheel_asks_for_what_the_project_does_and_not_for_bcc(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    wanted = {_requirement_name(one) for one in metadata.get_all("Requires-Dist") or []}
    assert {"click", "msgspec", "rich"} <= wanted
    assert "bcc" not in wanted
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_wheel_holds_the_bpf_sources_their_bytecode_the_types_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = [path for path in (CHECKOUT / "bpf").rglob("*") if path.suffix in (".c", ".h", ".json")]
    sources = {f"numaudit/bpf/{path.relative_to(CHECKOUT / 'bpf')}" for path in files}
    assert any(name.endswith(".bpf.c") for name in sources)
    assert "numaudit/bpf/bytecode/cpu_time.json" in sources
    assert any("/include/" in name for name in sources)
    assert sources <= names
    assert {"numaudit/py.typed", "numaudit/cli/main.py", "numaudit/pmu/data/families.yaml"} <= names
    assert not [name for name in names if name.startswith(("tests/", "agent/"))]


def test_the_installed_command_tells_its_version(installed: Path, tmp_path: Path) -> None:
    from numaudit import __version__  # noqa: PLC0415 (the checkout's, for comparison only)

    assert _run([installed / "numaudit", "--version"], tmp_path) == f"numaudit, version {__version__}\n"


def test_the_installed_command_reports_on_a_captured_host(installed: Path, fixtures: Path, tmp_path: Path) -> None:
    root = fixtures / "systemd-crio"
    report = json.loads(_run([installed / "numaudit", "report", "--root", root, "-o", "json"], tmp_path))
    assert "web-5c9" in {one["pod"] for one in report["containers"]}
    assert "/system.slice/kubelet.service" in _run([installed / "numaudit", "report", "--root", root], tmp_path)
    assert "HUGE PAGES" in _run([installed / "numaudit", "topology", "--root", root], tmp_path)


def test_manual_pages_and_completions_are_installed_where_a_system_looks_below_its_prefix(
    installed: Path, tmp_path: Path
) -> None:
    files = [path for path in (CHECKOUT / "share").rglob("*") if path.is_file()]
    assert {"numaudit-report.1", "kubectl-numaudit.1", "_numaudit"} <= {path.name for path in files}
    for path in files:
        assert (installed.parent / path.relative_to(CHECKOUT)).read_bytes() == path.read_bytes()


def test_the_installed_command_finds_its_bpf_sources(installed: Path, tmp_path: Path) -> None:
    program = "import numaudit, pathlib; print(*(pathlib.Path(numaudit.__file__).parent / 'bpf').glob('*.bpf.c'))"
    assert ".bpf.c" in _run([installed / "python", "-c", program], tmp_path)


@pytest.mark.root
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0, reason="needs root on a Linux host for a live report"
)
def test_the_installed_command_reports_on_this_host(installed: Path, tmp_path: Path) -> None:
    report = json.loads(_run([installed / "numaudit", "report", "-o", "json"], tmp_path))
    assert report["nodes"]
    assert json.loads(_run([installed / "numaudit", "topology", "-o", "json"], tmp_path))["nodes"]
