"""krew's manifest and archive, by the rules that krew-index enforces, and the launcher in it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from screens.pages import TOP

PLATFORMS = {("windows", "386"), ("windows", "amd64"), ("windows", "arm64"), ("linux", "386"), ("linux", "amd64"),
    ("linux", "arm"), ("linux", "arm64"), ("linux", "ppc64le"), ("darwin", "386"), ("darwin", "amd64"),
    ("darwin", "arm64")}  # fmt: skip
URL = "https://git.example/numaudit/releases/download"
WHEEL = "numaudit-1.2.3-py3-none-any.whl"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the script makes of a wheel whose plugin prints its arguments, and of one package to lock."""
    folder = tmp_path_factory.mktemp("krew")
    needed = folder / "needed-1.0-py3-none-any.whl"
    with zipfile.ZipFile(needed, "w") as wheel:
        wheel.writestr("needed-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: needed\nVersion: 1.0\n")
        wheel.writestr("needed-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("needed-1.0.dist-info/RECORD", "")
    for name in ("LICENSE", "deploy/krew/build.py", "deploy/krew/kubectl-numaudit"):
        (folder / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, folder / "checkout" / name)
    (folder / "checkout/deploy/image").mkdir()
    digest = hashlib.sha256(needed.read_bytes()).hexdigest()
    (folder / "checkout/deploy/image/requirements.txt").write_text(f"needed==1.0 --hash=sha256:{digest}\n")
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        info = "numaudit-1.2.3.dist-info"
        wheel.writestr("numaudit_said.py", "import sys\ndef run():\n    print('said', sys.argv[1:])\n    sys.exit(5)\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: numaudit\nVersion: 1.2.3\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\nkubectl-numaudit = numaudit_said:run\n")
        wheel.writestr(f"{info}/RECORD", "")
    build = folder / "checkout/deploy/krew/build.py"
    subprocess.run([sys.executable, build, folder / WHEEL, URL, folder], check=True)
    return folder


@pytest.fixture
def unpacked(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive as krew installs it: in a folder of its store, with a link to the program."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(built))
    store = tmp_path / "store/numaudit/v1.2.3"
    with tarfile.open(built / "kubectl-numaudit_v1.2.3.tar.gz") as archive:
        archive.extractall(store)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl-numaudit").symlink_to("../store/numaudit/v1.2.3/kubectl-numaudit")
    return tmp_path


def problems(manifest: dict[str, Any], file: str) -> list[str]:
    """What krew's validator refuses. Source: krew, internal/index/validation/validate.go."""
    spec, name = manifest.get("spec", {}), manifest.get("metadata", {}).get("name", "")
    platforms = spec.get("platforms") or []
    checks = {
        "apiVersion": manifest.get("apiVersion") == "krew.googlecontainertools.github.com/v1alpha2",
        "kind": manifest.get("kind") == "Plugin",
        "name": re.fullmatch(r"[\w-]+", name) is not None and file == f"{name}.yaml",
        "shortDescription": re.fullmatch(r"[^\r\n]+", spec.get("shortDescription", "")) is not None,
        "version": re.fullmatch(r"v\d+\.\d+\.\d+(-[\w.]+)?", spec.get("version", "")) is not None,
        "platforms": bool(platforms),
        "uri": all(re.search(r"\.(zip|tar\.gz)$", one.get("uri", "")) for one in platforms),
        "sha256": all(re.fullmatch(r"[a-f0-9]{64}", one.get("sha256", "")) for one in platforms),
        "bin": all(one.get("bin") for one in platforms),
        "files": all("files" not in one or one["files"] for one in platforms),
    }
    matched = [pair for one in platforms for pair in PLATFORMS if _matches(one.get("selector"), *pair)]
    checks["selector"] = all(any(_matches(one.get("selector"), *pair) for pair in PLATFORMS) for one in platforms)
    checks["one platform for each system"] = len(matched) == len(set(matched))
    return [name for name, is_right in checks.items() if not is_right]


def _matches(selector: dict[str, Any] | None, system: str, machine: str) -> bool:
    expressions = (selector or {}).get("matchExpressions", [])
    values = {"os": system, "arch": machine}
    return bool(expressions) and all(
        one["operator"] == "In" and values.get(one["key"]) in one["values"] for one in expressions
    )


def test_the_manifest_keeps_the_rules_of_krews_index(built: Path) -> None:
    manifest = yaml.safe_load((built / "numaudit.yaml").read_text())
    assert problems(manifest, "numaudit.yaml") == []
    (platform,) = manifest["spec"]["platforms"]
    archive = built / "kubectl-numaudit_v1.2.3.tar.gz"
    assert platform["uri"] == f"{URL}/v1.2.3/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert manifest["spec"]["homepage"] == "https://git.example/numaudit"


def test_the_archive_has_the_program_the_wheel_the_locked_packages_and_the_licence(built: Path, unpacked: Path) -> None:
    store = unpacked / "store/numaudit/v1.2.3"
    assert sorted(one.name for one in store.iterdir()) == ["LICENSE", "kubectl-numaudit", WHEEL, "requirements.txt"]
    assert os.access(store / "kubectl-numaudit", os.X_OK)


def _run(unpacked: Path, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(unpacked), "XDG_CACHE_HOME": str(unpacked / "cache"), "PIP_NO_INDEX": "1"}
    environment |= {} if path is None else {"PATH": path}
    command = ["/bin/sh", str(unpacked / "bin/kubectl-numaudit"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_launcher_installs_once_and_hands_on_arguments_and_exit_code(unpacked: Path) -> None:
    first = _run(unpacked, "report", "-n", "a b")
    assert (first.stdout, first.returncode) == ("said ['report', '-n', 'a b']\n", 5), first.stderr
    assert "this happens once" in first.stderr
    second = _run(unpacked, "top")
    assert (second.stdout, second.stderr, second.returncode) == ("said ['top']\n", "", 5)


def test_the_launcher_installs_no_package_but_those_of_the_hashes(unpacked: Path) -> None:
    lock = unpacked / "store/numaudit/v1.2.3/requirements.txt"
    right = lock.read_text()
    lock.write_text(right[:-2] + ("0" if right[-2] != "0" else "1"))
    done = _run(unpacked, "report")
    assert (done.stdout, done.returncode) == ("", 3)
    assert "kubectl-numaudit: pip could not install the packages that numaudit needs, in the versions of" in done.stderr


def test_the_launcher_says_what_is_missing(unpacked: Path, tmp_path: Path) -> None:
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("dirname", "readlink", "basename"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    done = _run(unpacked, path=str(folder))
    assert (done.returncode, done.stderr) == (
        3, "kubectl-numaudit: python3 is not on PATH; install Python 3.11 or newer\n",
    )  # fmt: skip
    (folder / "python3").write_text("#!/bin/sh\n[ $1 = --version ] && echo Python 3.9.2 || exit 1\n")
    (folder / "python3").chmod(0o755)
    done = _run(unpacked, path=str(folder))
    assert (done.returncode, done.stderr) == (
        3, "kubectl-numaudit: Python 3.9.2 is too old; install Python 3.11 or newer\n",
    )  # fmt: skip
