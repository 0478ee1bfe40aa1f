"""The built image: what is in it, what is not, and that numaudit works in it."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import numaudit
from confinement import image
from fixture_trees import unpack

pytestmark = pytest.mark.usefixtures("root")
CHECKOUT = Path(__file__).parents[2]
LOCK = CHECKOUT / "deploy/image/requirements.txt"
AT_MOST = 145e6
"""Bytes of all files, uncompressed; docs/image.md has today's figure."""

TOO_BIG = """
apiVersion: v1
kind: Pod
metadata: {name: too-big}
spec:
  containers:
    - name: app
      image: app
      resources:
        requests: {cpu: "1", memory: 100Gi}
        limits: {cpu: "1", memory: 100Gi}
"""


FIND_LIBRARIES = """
import glob, json, os, subprocess
(loader,) = glob.glob("/lib*/ld-linux-*.so.*")
seen, missing = 0, []
for folder in ("/usr", "/opt"):
    for at, _, names in os.walk(folder):
        for path in (os.path.join(at, name) for name in names):
            if os.path.islink(path) or open(path, "rb").read(4) != b"\\x7fELF":
                continue
            seen += 1
            said = subprocess.run([loader, "--list", path], capture_output=True, text=True)
            missing += [f"{path}: {line.strip()}" for line in said.stdout.splitlines() if "not found" in line]
            missing += [f"{path}: {said.stderr.strip()}"] if "cannot open shared object" in said.stderr else []
print(json.dumps({"seen": seen, "missing": missing}))
"""


@pytest.fixture(scope="session")
def captured() -> Path:
    """A captured Kubernetes node, whose report has findings."""
    return unpack() / "misaligned-node"


def _modes(root: Path) -> Iterator[tuple[str, int]]:
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            yield f"/{path.relative_to(root)}", path.lstat().st_mode


def _debian_packages(root: Path) -> dict[str, str]:
    """Name -> version of what dpkg's list has as installed."""
    found = {}
    for paragraph in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields["Version"]
    return found


def _python_packages(root: Path) -> dict[str, str]:
    """Name -> version of what is in numaudit's own environment."""
    infos = (root / "opt/numaudit/lib/python3.11/site-packages").glob("*.dist-info")
    pairs = (path.name.removesuffix(".dist-info").rsplit("-", 1) for path in infos)
    return {canonicalize_name(name): version for name, version in pairs}


def test_no_program_in_it_changes_the_user(root: Path) -> None:
    assert [path for path, mode in _modes(root) if mode & (stat.S_ISUID | stat.S_ISGID)] == []


def test_only_tmp_can_be_written_to_by_other_users(root: Path) -> None:
    open_to_others = [path for path, mode in _modes(root) if not stat.S_ISLNK(mode) and mode & 0o022]
    assert open_to_others == ["/tmp"]
    assert (root / "tmp").stat().st_mode & stat.S_ISVTX


def test_nothing_in_it_builds_or_installs(root: Path) -> None:
    tools = (
        r"(cc|c\+\+|gcc|g\+\+|clang|ld|as|make|cpp|apt|apt-get|perl|pip[\d.]*|easy_install|mount|su|useradd|curl|wget)"
    )
    programs = [path for folder in ("usr/bin", "usr/sbin", "opt/numaudit/bin") for path in (root / folder).iterdir()]
    assert "python3" in {path.name for path in programs}
    assert [path.name for path in programs if re.fullmatch(f"({tools})(-[\\d.]+)?", path.name)] == []
    assert not (root / "var/lib/apt").exists()
    (own,) = (root / "opt/numaudit/lib").iterdir()
    assert not {"pip", "setuptools", "wheel"} & {path.name for path in (own / "site-packages").iterdir()}


def test_nothing_of_the_build_is_left_in_it(root: Path) -> None:
    assert [path for folder in ("mnt", "run", "tmp", "root", "src") for path in (root / folder).glob("*")] == []


def test_of_systemd_it_has_journalctl_alone(root: Path) -> None:
    listed = (root / "var/lib/dpkg/info/systemd.list").read_text().split()
    left = [path for path in listed if (root / path[1:]).is_file() and not path.startswith("/usr/share/doc/")]
    assert left == ["/bin/journalctl"]


def test_every_program_and_library_in_it_finds_what_it_links_to() -> None:
    done = image.run_program("python3", "-c", FIND_LIBRARIES)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seen"] > 100
    assert found["missing"] == []


def test_it_is_not_one_hosts(root: Path) -> None:
    """The service instance of OTLP is the host's machine id: one in the image would be the same on every node."""
    assert not (root / "etc/machine-id").exists()


def test_it_holds_what_the_lock_file_says_and_numaudit(root: Path) -> None:
    pins = [Requirement(line.split(" \\")[0]) for line in LOCK.read_text().splitlines() if re.match(r"\w", line)]
    locked: dict[str, str] = {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in pins
        if pin.marker is None or pin.marker.evaluate()
    }
    assert _python_packages(root) == locked | {"numaudit": numaudit.__version__}


def test_its_bill_of_materials_is_valid_and_names_every_package(root: Path) -> None:
    text = (root / "usr/share/doc/numaudit/sbom.cdx.json").read_text()
    bill = json.loads(text)
    version = SchemaVersion[f"V{bill['specVersion'].replace('.', '_')}"]
    assert JsonStrictValidator(version).validate_str(text) is None
    named = {(canonicalize_name(one["name"]), one.get("version")) for one in bill["components"]}
    debian, python = _debian_packages(root), _python_packages(root)
    assert {"python3", "systemd", "libc6"} <= set(debian)
    assert {(canonicalize_name(name), version) for name, version in debian.items()} - named == set()
    own = python.pop("numaudit")
    assert set(python.items()) - named == set()
    image_itself = bill["metadata"]["component"]
    assert (image_itself["name"], image_itself["type"], image_itself["version"]) == ("numaudit", "container", own)
    components = [image_itself, *bill["components"]]
    assert [one["name"] for one in components if not (one.get("version") and one.get("purl"))] == []


def test_every_debian_package_has_its_licence_in_it(root: Path) -> None:
    documents = root / "usr/share/doc"
    without = [name for name in _debian_packages(root) if not (documents / name / "copyright").is_file()]
    assert without == []


def test_its_labels_entry_point_user_and_signal_are_the_documented_ones() -> None:
    config = image.config()["config"]
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert labels["title"] == project["name"]
    assert labels["description"] == project["description"]
    assert labels["licenses"] == project["license"]["text"]
    assert labels["version"] == numaudit.__version__
    assert re.fullmatch(r"[0-9a-f]{40}(-modified)?|unknown", labels["revision"])
    assert labels["base.name"] == "docker.io/library/debian:bookworm-slim"
    # Empty in a checkout whose origin is no address on the web: the project has no home of its own.
    assert labels["source"] == labels["url"] == labels["documentation"]
    assert re.fullmatch(r"(https://[^@ ]+)?", labels["source"])
    assert (config["Entrypoint"], config["Cmd"]) == (["numaudit"], ["agent"])
    assert (config["User"], config["StopSignal"]) == ("0:0", "SIGTERM")


def test_it_is_smaller_than_the_bound(root: Path) -> None:
    size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < AT_MOST


def test_numaudit_says_its_version_in_it() -> None:
    done = image.run("--version")
    assert done.stdout.strip() == f"numaudit, version {numaudit.__version__}", done.stderr


def test_doctor_examines_a_captured_node_in_it(captured: Path) -> None:
    done = image.run("doctor", "--root", "/mnt", "-o", "json", mounts={captured: "/mnt"})
    assert done.returncode in (0, 1), done.stderr
    sources = {one["name"]: one["state"] for one in json.loads(done.stdout)["checks"]}
    assert sources["residency"] == sources["kubelet"] == "ok"


def test_a_report_in_it_is_the_one_outside_it(captured: Path) -> None:
    outside = subprocess.run(
        [sys.executable, "-c", "from numaudit.cli.start import run; run()", "report", "--root", captured, "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    done = image.run("report", "--root", "/mnt", "-o", "json", mounts={captured: "/mnt"})
    assert done.returncode == outside.returncode == 0, done.stderr
    assert json.loads(done.stdout)["containers"] == json.loads(outside.stdout)["containers"]


def test_a_refused_pod_is_explained_in_it(captured: Path, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(TOO_BIG)
    done = image.run(
        *("fit", "--root", "/mnt", "-f", "/srv/pod.yaml", "--fail-on-reject"),
        mounts={captured: "/mnt", tmp_path: "/srv"},
    )
    assert done.returncode == 1, done.stderr
    assert "refused, rejected-affinity" in done.stdout


def test_the_bpf_programs_come_compiled_and_their_compiler_is_not_in_it(root: Path) -> None:
    stored = {path.name for path in (CHECKOUT / "bpf/bytecode").glob("*.json")}
    assert "cpu_time.json" in stored
    (package,) = root.glob("opt/numaudit/lib/python3.*/site-packages/numaudit")
    assert {path.name for path in (package / "bpf/bytecode").glob("*.json")} == stored
    assert {"python3-bpfcc", "libbpfcc", "libllvm14"} & set(_debian_packages(root)) == set()


def test_its_byte_code_is_never_compared_with_the_times_of_files(root: Path) -> None:
    """A layer may change those, and then all would be compiled again at every start. Source: PEP 552."""
    flags = {path.read_bytes()[4:8] for path in root.rglob("*.pyc")}
    assert flags == {b"\x01\0\0\0"}


def test_the_journal_can_be_read_in_it() -> None:
    done = image.run_program("journalctl", "--version")
    assert done.stdout.startswith("systemd "), done.stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_locked_package_has_a_wheel_for(machine: str, tmp_path: Path) -> None:
    """One with a locked hash that runs on Debian 12, so the same lock file is good for both images."""
    install = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--dry-run", "--target", str(tmp_path)]
    where = ["--python-platform", f"{machine}-manylinux_2_36", "--python-version", "3.11"]
    done = subprocess.run(
        [*install, *where, "--only-binary", ":all:", "--require-hashes", "--requirements", str(LOCK)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Would install" in done.stderr
