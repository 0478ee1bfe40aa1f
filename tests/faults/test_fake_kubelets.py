"""Real processes that call themselves kubelet, in PID and mount namespaces of their own: whose words are followed?

Each runs the shell under the name `kubelet`, with a command line that names a file and a server of its own.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple

import pytest

from kubelets.http import replies, serving
from processes.agent_process import NUMAUDIT, PATIENCE

pytestmark = pytest.mark.root
PLAIN = "{kubelet}"
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups {kubelet}"
WAYS = {
    "another user": (NOBODY, "it runs as user 65534"),
    "another root in a mount namespace, without capabilities": (
        "unshare --mount setpriv --bounding-set=-all --inh-caps=-all {kubelet}",
        "mount namespace of its own",
    ),
    "a PID namespace": ("unshare --pid --fork {kubelet}", "PID namespace of its own"),
    "a user namespace": ("unshare --user --map-root-user {kubelet}", "user namespace of its own"),
    "a container's cgroup": ("sh -c 'echo 0 >{group}/cgroup.procs; exec {kubelet}'", "in a container's cgroup"),
    "another program": ("{script}", "its executable is"),
}


class Outcome(NamedTuple):
    """What came of a capture."""

    asked: list[str]
    """Paths that the server of the command line was asked for."""
    files: set[str]
    not_read: str


@pytest.fixture(autouse=True)
def _unshare() -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    if shutil.which("unshare") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this user may not make namespaces")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may read, unlike pytest's."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def captured(folder: Path, starts: list[str], group: Path | None = None) -> Outcome:
    """Start these in a PID namespace, and capture there when all are called kubelet."""
    shell = Path("/bin/sh").resolve()
    shutil.copy(shell, folder / "kubelet")
    (folder / "kubelet").chmod(0o755)
    (folder / "wait").write_text("sleep 600\n")
    (folder / "evil.yaml").write_text("kind: KubeletConfiguration\nmemoryManagerPolicy: Static\n")
    (folder / "script").mkdir()
    (folder / "script/kubelet").write_text("#!/bin/sh\nsleep 600\n")
    (folder / "script/kubelet").chmod(0o755)
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        replies(b"{}")(request)

    with serving(answer) as url:
        words = f"--config={folder}/evil.yaml --read-only-port={url.rpartition(':')[2]}"
        kubelet, script = f"{folder}/kubelet {folder}/wait {words}", f"{folder}/script/kubelet {words}"
        lines = [f"{start.format(kubelet=kubelet, script=script, group=group)} &" for start in starts]
        lines.append(f"until [ $(cat /proc/[0-9]*/comm | grep -cx kubelet) -eq {len(starts)} ]; do sleep 0.05; done")
        lines.append(f"{shlex.join(NUMAUDIT)} capture {folder}/capture")
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "\n".join(lines)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    tree = folder / "capture"
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    files.discard("proc/cmdline")  # the kernel's
    return Outcome(asked, files, (tree / "not-read.txt").read_text())


@pytest.mark.parametrize("way", WAYS)
def test_a_process_that_only_calls_itself_kubelet_is_not_followed(
    way: str, folder: Path, new_group: Callable[[str], Path]
) -> None:
    start, why = WAYS[way]
    outcome = captured(folder, [start], new_group("kubepods") if "{group}" in start else None)
    assert why in outcome.not_read
    assert outcome.asked == []
    assert not [name for name in outcome.files if name.endswith(("evil.yaml", "/cmdline"))]


def test_the_kubelet_of_the_namespaces_is_followed_past_a_fake(folder: Path) -> None:
    outcome = captured(folder, [NOBODY, PLAIN])
    assert "called kubelet" not in outcome.not_read
    assert {"/pods", "/configz", "/metrics"} <= set(outcome.asked)
    assert len([name for name in outcome.files if name.endswith(("evil.yaml", "/cmdline"))]) == 2


def test_two_kubelets_are_both_refused(folder: Path) -> None:
    outcome = captured(folder, [PLAIN, PLAIN])
    assert "are each called kubelet, so none is believed" in outcome.not_read
    assert outcome.asked == []
