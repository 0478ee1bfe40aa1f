"""`numaudit capture --from HOST`: a capture by what another host has of its own, Python 3.6 and a shell."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from numaudit.capture import collector, remote, tree
from numaudit.cli.main import call
from numaudit.kernel import host_settings

Capture = pytest.CaptureFixture[str]
SOURCE = Path(collector.__file__)
STANDARD = {"glob", "io", "json", "os", "re", "sys", "tarfile", "time", "typing"}


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of ssh: `ssh -- HOST COMMAND` runs what the file `reply` says, by default the command."""
    program, reply = tmp_path / "bin/ssh", tmp_path / "reply"
    program.parent.mkdir()
    reply.write_text('exec sh -c "$3"')
    program.write_text(f'#!/bin/sh\n[ "$1" = -- ] && [ "$2" = root@server ] || exit 9\n. {reply}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return reply


def report(capsys: Capture, root: Path) -> dict[str, Any]:
    assert call(["report", "--root", str(root), "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_collector_is_python_3_6_with_its_standard_library() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    found = ast.parse(text, feature_version=(3, 6))
    imported = {name.name for one in ast.walk(found) if isinstance(one, ast.Import) for name in one.names}
    imported |= {str(one.module) for one in ast.walk(found) if isinstance(one, ast.ImportFrom)}
    assert imported <= STANDARD
    before = text[: text.index("import glob")]
    assert "3.6 or newer" in before
    assert not any(isinstance(one, ast.JoinedStr | ast.AnnAssign) for one in ast.walk(ast.parse(before)))


def test_a_host_is_captured_with_its_own_python(ssh: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "server.tar.xz"
    assert call(["capture", "--duration", "0", "--from", "root@server", str(target)]) == 0
    assert "in " + str(target) in capsys.readouterr().err
    assert target.stat().st_mode & 0o777 == 0o600
    found = report(capsys, target)
    assert found["host"] == os.uname().nodename
    assert found["takenAt"] is not None
    assert sum(node["totalBytes"] for node in found["nodes"]) > 0


def test_a_node_is_judged_as_by_a_capture_of_its_own(
    fixtures: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fixtures / "misaligned-node"
    request = json.loads(remote.program().decode().split("\n")[1].removeprefix("REQUEST = json.loads(")[1:-2])
    monkeypatch.setattr(collector, "REQUEST", request)
    target = tmp_path / "node.tar.xz"
    with target.open("wb") as file:
        collector.main(file, str(whole))
    ours, theirs = report(capsys, whole), report(capsys, target)
    assert theirs["nodes"] == ours["nodes"]

    def facts(found: dict[str, Any]) -> dict[str, Any]:
        return {
            one["path"]: (one["resident"], one["allowedMemoryNodes"], (one["intended"] or {}).get("memoryNodes"))
            for one in found["containers"]
            if one["path"] and one["kind"] == "container"
        }

    assert len(facts(ours)) == 10
    assert facts(theirs) == facts(ours)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("kind: KubeletConfiguration\nmemoryManagerPolicy: Static\n", True),
        ("kind: KubeletConfiguration\nstaticPodURLHeader: {Authorization: [x]}\n", False),
        ("root:x:0:0::/root:/bin/sh\n", False),
    ],
)
def test_a_file_that_is_no_kubelets_or_has_credentials_is_not_copied(
    text: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "var/lib/kubelet/config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    monkeypatch.setattr(collector, "REQUEST", {"flags": [], "kubelet": ["/var/lib/kubelet/config.yaml"]})
    with (tmp_path / "out").open("wb") as out:
        capture = collector.Capture(out, str(tmp_path))
        collector.copy_kubelet(capture)
        capture.tar.close()
    assert (str(file) in capture.done) is kept
    assert bool(capture.unread) is not kept


def test_the_kernels_command_line_and_acpi_tables_come_without_what_may_be_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_line, table = tmp_path / "proc/cmdline", tmp_path / "sys/firmware/acpi/tables/SRAT"
    for file, text in ((command_line, "password=hunter2 numa=off quiet\n"), (table, "content")):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    monkeypatch.setattr(collector, "REQUEST", {"words": host_settings.PARAMETERS.pattern})
    with tarfile.open(tmp_path / "out.tar.xz", "w:xz") as archive, (tmp_path / "unused").open("wb") as unused:
        capture = collector.Capture(unused, str(tmp_path))
        capture.tar = archive
        capture.copy(str(command_line))
        capture.copy(str(table))
    with tarfile.open(tmp_path / "out.tar.xz") as found:
        names = ("capture/proc/cmdline", "capture/sys/firmware/acpi/tables/SRAT")
        texts = [content.read() for name in names if (content := found.extractfile(name))]
    assert texts == [b"numa=off\n", b""]


def test_a_file_that_is_too_large_and_a_capture_that_is_full_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "LARGEST_FILE", 1 << 16)
    monkeypatch.setattr(collector, "LARGEST", 100_000)
    files = {"right": 1 << 16, "more": (1 << 16) + 1, "next": 1 << 16, "last": 1}
    for name, size in files.items():
        (tmp_path / name).write_bytes(b"x" * size)
    with (tmp_path / "out").open("wb") as out:
        capture = collector.Capture(out, str(tmp_path))
        for name in files:
            capture.copy(str(tmp_path / name))
        capture.tar.close()
    assert capture.size == 2 << 16
    assert [one.split(": ")[1].split(" ")[0] for one in capture.unread] == ["larger", "the"]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("exit 255", "ssh cannot reach root@server, or may not log in"),
        ("exit 127", "root@server has no python3"),
        ("cat > /dev/null; exit 1", "the collector on root@server ended with 1"),
        ("cat > /dev/null; echo hello", "what root@server sent is no capture"),
        ('echo Welcome; exec sh -c "$3"', "a login script there must print nothing: `ssh root@server true` shows"),
        ("cat > /dev/null", "what root@server sent is no capture"),
    ],
)
def test_a_host_that_sends_none_is_an_error_that_says_why(
    reply: str, says: str, ssh: Path, tmp_path: Path, capsys: Capture
) -> None:
    ssh.write_text(reply)
    assert call(["capture", "--duration", "0", "--from", "root@server", str(tmp_path / "server.tar.xz")]) == 3
    assert says in capsys.readouterr().err
    assert not list(tmp_path.glob("*.tar.xz"))


def test_an_old_python_is_refused_in_a_sentence() -> None:
    old = "import sys; sys.version_info = (3, 4)\n" + remote.program().decode()
    done = subprocess.run([sys.executable, "-"], input=old.encode(), capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr == b"numaudit: Python 3.4 is here, and a capture needs 3.6 or newer\n"


@pytest.mark.parametrize(
    ("host", "target", "says"),
    [
        ("-oProxyCommand=x", "a.tar.xz", "give a host as ssh takes it"),
        ("root@server", "folder", "with --from give a name that ends in .tar.xz"),
    ],
)
def test_options_of_ssh_and_folders_are_refused(
    host: str, target: str, says: str, tmp_path: Path, capsys: Capture
) -> None:
    assert call(["capture", f"--from={host}", str(tmp_path / target)]) == 2
    assert says in capsys.readouterr().err


def test_what_is_there_already_stays(ssh: Path, tmp_path: Path) -> None:
    target = tmp_path / "server.tar.xz"
    target.write_text("mine")
    assert call(["capture", "--duration", "0", "--from", "root@server", str(target)]) == 2
    assert target.read_text() == "mine"


def test_every_pattern_is_below_the_root() -> None:
    assert not [one for one in tree.PATTERNS if one.startswith("/") or ".." in one]
