"""A laptop, and a server of four nodes elsewhere that is slow: from nothing to the command that mends it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from documentation.journey import Begun, Journey, section
from hosts import moving_node
from hosts.changed_node import CHANGED, carry_out, changed_node, remedies
from screens.pages import TOP

RUNS_ON = 2
"""The CPU to which the container was moved by hand."""
SSH = """#!{python}
import sys, time
from pathlib import Path
assert sys.argv[1:] == ["--", "root@server", "exec python3 -"], sys.argv
sys.path.insert(0, {support!r})
from hosts import moving_node
root = Path({root!r})
moving_node.begin(root, {cpu})
time.sleep = lambda _: moving_node.later(root, {cpu})
server = {{"__name__": "server"}}
exec(sys.stdin.read(), server)
server["main"](sys.stdout.buffer, str(root))
"""


@pytest.fixture
def server(tmp_path: Path, journey: Journey) -> Path:
    """The root of `root@server`, which a program in place of ssh runs its input on, with this Python."""
    root = changed_node(tmp_path)
    for pod in json.loads((CHANGED / "numaudit/pods.json").read_text())["items"]:
        about = pod["metadata"]  # kubelet: pkg/kubelet/kuberuntime/helpers.go, BuildPodLogsDirectory
        uid = about.get("annotations", {}).get("kubernetes.io/config.hash", about["uid"])
        (root / f"var/log/pods/{about['namespace']}_{about['name']}_{uid}").mkdir(parents=True)
    program = tmp_path / "bin/ssh"
    program.parent.mkdir()
    words = {"python": sys.executable, "support": str(TOP / "tests/support"), "root": str(root), "cpu": RUNS_ON}
    program.write_text(SSH.format(**words))
    program.chmod(0o755)
    journey.variables["PATH"] = f"{program.parent}:{journey.variables['PATH']}"
    return root


def node_of(cpu: int) -> int:
    """By the captured lists of each node's CPUs, which have two each."""
    lists = {one.parent.name: one.read_text() for one in CHANGED.glob("sys/devices/system/node/node*/cpulist")}
    (found,) = [name for name, cpus in lists.items() if str(cpu) in re.split(r"[-,\n]", cpus)]
    return int(found.removeprefix("node"))


def test_a_slow_server_is_captured_by_ssh_and_the_printed_command_mends_it(
    begun: Begun, journey: Journey, server: Path
) -> None:
    named = "`(make capture HOST=root@server)`"
    (command,) = re.findall(named, section(journey.document("README.md"), "Start"))
    if not Path("/sys/devices/system/node/node1").exists():
        assert re.findall(named, " ".join(begun.printed.split())) == [command]
    printed = journey.run(command)
    answer = printed.splitlines()[0]
    assert f"{moving_node.CONTAINER}/app, cpu-remote, 100Mi remote" in answer
    runs_on = node_of(RUNS_ON)
    assert f"CPUs on {runs_on}; promised 0" in printed
    assert f"N{runs_on} 4.0s" in printed  # what moving_node lets it run between the two readings
    for one in remedies(printed):
        carry_out(one, server, journey.run)
    again = journey.run(command)
    assert "promised containers are aligned" in again.splitlines()[0]
    assert remedies(again) == []
