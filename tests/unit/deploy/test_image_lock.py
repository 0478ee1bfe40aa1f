"""The image's lock files hold what pyproject.toml asks for, by hash; its build refuses what it does not understand."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import numaudit
from processes.agent_process import PATIENCE

CHECKOUT = Path(__file__).parents[3]
LOCKS = ("requirements.txt", "build.txt", "sbom.txt")
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
CONTAINERFILE = (CHECKOUT / "deploy/Containerfile").read_text()


def _entries(lock: str) -> list[str]:
    """One for each package, its continuation lines joined."""
    text = (CHECKOUT / "deploy/image" / lock).read_text()
    plain = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))
    return plain.replace("\\\n", " ").splitlines()


def _pins(lock: str) -> dict[str, str]:
    """Name -> version."""
    found: dict[str, str] = {}
    for entry in _entries(lock):
        pin = Requirement(entry.split("--hash")[0].strip())
        (version,) = pin.specifier
        assert version.operator == "==", entry
        found[canonicalize_name(pin.name)] = version.version
    return found


def _not_met(wanted: Iterable[str], lock: str) -> list[str]:
    pins = _pins(lock)
    requirements = [Requirement(one) for one in wanted]
    return [str(one) for one in requirements if not one.specifier.contains(pins.get(canonicalize_name(one.name), "0"))]


def test_the_image_has_every_package_that_the_agent_needs_in_a_version_it_allows() -> None:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["web-auth"], *extras["publish"]]
    assert len(wanted) > 10
    assert _not_met(wanted, "requirements.txt") == []


def test_the_image_is_built_by_the_build_system_that_the_project_names() -> None:
    assert _not_met(PYPROJECT["build-system"]["requires"], "build.txt") == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_hashes(lock: str) -> None:
    entries = _entries(lock)
    assert entries
    # a wheel and a source archive at least, or wheels of several machines
    few = [entry for entry in entries if len(re.findall(r"--hash=sha256:[0-9a-f]{64}(?=\s|$)", entry)) < 2]
    assert few == []


@pytest.mark.parametrize("lock", LOCKS)
def test_the_stranger_that_is_called_bcc_is_never_locked(lock: str) -> None:
    assert not {"bcc", "bpfcc", "python3-bpfcc"} & set(_pins(lock))


def test_the_final_stage_takes_from_the_others_and_runs_nothing() -> None:
    *_, final = re.split(r"^FROM ", CONTAINERFILE, flags=re.MULTILINE)
    assert final.startswith("scratch\n")
    assert "RUN" not in final.split()


def test_the_labels_say_what_the_project_says() -> None:
    project = PYPROJECT["project"]
    assert f"ARG VERSION={numaudit.__version__}\n" in CONTAINERFILE
    assert f'image.description="{project["description"]}"' in CONTAINERFILE
    assert f'image.licenses="{project["license"]["text"]}"' in CONTAINERFILE


def test_secrets_of_the_build_are_mounted_as_secrets_since_other_mounts_leave_a_file_in_the_image() -> None:
    build = (CHECKOUT / "deploy/image/build.sh").read_text()
    assert "--secret" in build
    assert "--volume" not in build
    assert "--mount=type=secret,id=pip_cert" in CONTAINERFILE


def test_the_labels_lead_to_where_the_builder_says_the_project_is() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', CONTAINERFILE))
    assert (labels["source"], labels["url"], labels["documentation"]) == (
        "${SOURCE_URL}",
        "${SOURCE_URL}",
        "${DOCUMENTATION_URL}",
    )


BUILD = Path(__file__).parents[3] / "deploy/image/build.sh"
SNAPSHOT = BUILD.with_name("snapshot.sh")


def _run(*arguments: str, commands: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(commands)}
    return subprocess.run(
        ["/bin/bash", BUILD, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """The few that every machine has."""
    for name in ("dirname", "dpkg", "id"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    return tmp_path


@pytest.mark.parametrize("arguments", [["frobnicate"], ["amd64", "arm64"], ["--help"], [""]])
def test_it_refuses_what_it_does_not_understand(arguments: list[str], commands: Path) -> None:
    done = _run(*arguments, commands=commands)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: deploy/image/build.sh" in done.stderr


def test_it_names_the_command_that_is_missing_and_its_package(commands: Path) -> None:
    (commands / "mmdebstrap").symlink_to("/bin/true")
    done = _run(commands=commands)
    assert (done.returncode, done.stdout) == (3, "")
    assert "the command buildah is missing: install the package buildah" in done.stderr


def _sources(tmp_path: Path, moment: str) -> tuple[int, str]:
    """Exit code, and apt's sources afterwards."""
    etc = tmp_path / "apt"
    (etc / "sources.list.d").mkdir(parents=True)
    (etc / "sources.list.d/debian.sources").write_text("newest\n")
    done = subprocess.run(["/bin/sh", SNAPSHOT, moment, etc], capture_output=True, text=True, check=False)
    return done.returncode, "".join(one.read_text() for one in sorted(etc.rglob("*")) if one.is_file())


def test_a_snapshot_replaces_all_sources_by_those_of_one_moment(tmp_path: Path) -> None:
    code, sources = _sources(tmp_path, "20261101T120000Z")
    assert code == 0
    assert sources.splitlines() == [
        f"deb [check-valid-until=no] http://snapshot.debian.org/archive/{archive}/20261101T120000Z {suite} main"
        for archive, suite in (
            ("debian", "bookworm"),
            ("debian", "bookworm-updates"),
            ("debian-security", "bookworm-security"),
        )
    ]


@pytest.mark.parametrize(("moment", "code"), [("", 0), ("2026-11-01", 2), ("20261101T120000Z main", 2)])
def test_without_a_moment_the_sources_stay(tmp_path: Path, moment: str, code: int) -> None:
    assert _sources(tmp_path, moment) == (code, "newest\n")
