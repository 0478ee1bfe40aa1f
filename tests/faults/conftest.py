"""What the tests in this folder share: cgroups of version 2 on this host, and programs that run in them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hosts.node_tree import MIB, NodeTree
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from processes.agent_process import PATIENCE

NewGroup = Callable[[str], Path]
RunIn = Callable[[Path, Sequence[str]], subprocess.Popen[str]]

WORKER = Path(__file__).parents[1] / "vm/inside/touch.py"


@pytest.fixture(autouse=True)
def _root_only(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    tree = NodeTree(tmp_path / "node")
    tree.container(tree.pod("prod", "db-0"), "db", anon=(5 * MIB, 2 * MIB))
    return tree


@pytest.fixture
def new_group() -> Iterator[NewGroup]:
    """Makes a cgroup of version 2 by name; what runs in it at the end of the test is killed, then it is removed."""
    made: list[Path] = []

    def make(name: str) -> Path:
        try:
            unified = find_hierarchies(Host()).unified
        except Unavailable as reason:
            pytest.skip(str(reason))
        if unified is None:
            pytest.skip("cgroup version 2 is not mounted")
        group = unified / f"numaudit-test-{os.getpid()}-{name}"
        group.mkdir()
        made.append(group)
        return group

    yield make
    for group in made:
        if group.exists():
            remove_group(group)


def remove_group(group: Path) -> None:
    """Kill what is in it, then remove it."""
    (group / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + PATIENCE
    while "populated 1" in (group / "cgroup.events").read_text():
        assert time.monotonic() < deadline, f"processes in {group} outlive SIGKILL"
        time.sleep(0.01)
    group.rmdir()


@pytest.fixture
def run_in() -> Iterator[RunIn]:
    """Starts a command in a cgroup: a shell joins it, then becomes the command, so all it does is counted there."""
    started: list[subprocess.Popen[str]] = []

    def run(group: Path, command: Sequence[str]) -> subprocess.Popen[str]:
        joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs")]
        process = subprocess.Popen([*joining, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def start_worker(run_in: RunIn) -> Callable[[Path, int], Callable[[str], None]]:
    """Starts a process in a cgroup that holds `size` bytes and follows the orders in its own docstring."""

    def start(group: Path, size: int) -> Callable[[str], None]:
        process = run_in(group, [sys.executable, "-I", "-S", str(WORKER), str(size)])
        assert process.stdin and process.stdout
        assert process.stdout.readline().startswith("ready")

        def order(command: str) -> None:
            assert process.stdin and process.stdout
            process.stdin.write(f"{command}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{command}\n"

        return order

    return start
