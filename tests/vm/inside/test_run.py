"""`numaudit run`: commands get nodes of their own, and give them back however they end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import CONFIGURATION, NODE, NODES, Lab, Started, cgroups, ending
from workload import MIB, cgroup, eventually

TOUCH = str(Path(__file__).with_name("touch.py"))
HELD = 48 * MIB
ALL_FREE = dict.fromkeys(NODES, NODE)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield Lab.below(tmp_path)
    assert not cgroups(), "a command's cgroup is still there"


def holding(lab: Lab, mebibytes: int, *options: str) -> tuple[Started, int, int]:
    """A command that holds HELD bytes; its process id, and the address of its memory."""
    started = lab.start(mebibytes, sys.executable, "-I", "-S", TOUCH, str(HELD), options=options)
    words = started.line().split()
    assert words[:1] == ["ready"], words
    return started, int(words[2]), int(words[1], 16)


def bytes_by_node(pid: int, address: int) -> dict[int, int]:
    """Where the mapping is, by the kernel."""
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        if int(line.split()[0], 16) == address:
            return {int(node): int(pages) * 4096 for node, pages in re.findall(r"N(\d+)=(\d+)", line)}
    raise AssertionError(f"process {pid} has no mapping at {address:x}")


def test_commands_get_the_nodes_of_pods_and_the_group_rule_refuses_one(lab: Lab) -> None:
    a, a_pid, a_address = holding(lab, 600)
    b, b_pid, b_address = holding(lab, 200)
    with ending(a, b):
        assert set(bytes_by_node(a_pid, a_address)) <= {0, 1}
        assert sum(bytes_by_node(a_pid, a_address).values()) == HELD
        assert bytes_by_node(b_pid, b_address) == {2: HELD}
        assert lab.free() == {0: 0, 1: 200 * MIB, 2: 200 * MIB, 3: NODE}
        code, text = lab.run(600, "true")
        assert code == 125
        assert "rejected-group-rule" in text
        assert "have the memory, but" in text
        assert "nodes 2-3: breaks-a-group" in text
        assert len(lab.entries()) == 2
        assert a.end()[0] == 0
        assert lab.free() == {0: NODE, 1: NODE, 2: 200 * MIB, 3: NODE}
        assert lab.run(600, "true")[0] == 0
        assert b.end()[0] == 0
    assert lab.free() == ALL_FREE
    assert lab.entries() == {}


def test_a_command_may_not_leave_its_nodes_nor_hold_more_than_it_asked_for(lab: Lab) -> None:
    a, pid, _ = holding(lab, 100)
    with ending(a):
        (group,) = cgroups()
        assert Path(f"/proc/{pid}/cgroup").read_text() == f"0::/numaudit/{group.name}\n"
        assert (group / "cpuset.mems.effective").read_text() == "0\n"
        assert (group / "memory.max").read_text() == f"{100 * MIB}\n"
        assert (group / "cpuset.cpus").read_text() == "\n"
        assert a.end()[0] == 0
    assert lab.run(20, sys.executable, "-I", "-S", TOUCH, str(HELD))[0] == 128 + signal.SIGKILL


@pytest.mark.one_kernel
def test_cpus_are_a_commands_own_and_near_its_memory(lab: Lab) -> None:
    a, pid, _ = holding(lab, 100, "--cpus", "1")
    with ending(a):
        (cpu,) = os.sched_getaffinity(pid)
        (group,) = cgroups()
        assert cpu != 0, "the first CPU is kept for the system"
        assert (group / "cpuset.mems.effective").read_text() == f"{cpu}\n", "each node of the guest has one CPU"
        assert lab.shared_cpus() == ",".join(str(one) for one in NODES if one != cpu).replace("0,2,3", "0,2-3")
        code, text = lab.run(100, "true", options=("--cpus", "3"))
        assert code == 125 and "rejected" in text
        assert a.end()[0] == 0
    assert lab.shared_cpus() == "0-3"


def test_huge_pages_come_from_the_nodes_that_were_promised_and_others_get_none(lab: Lab) -> None:
    pool = Path("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages")
    pool.write_text("8")
    try:
        options = ("--hugepages-2Mi", "8Mi")
        arguments = (sys.executable, "-I", "-S", TOUCH, str(4 * MIB), "--kind", "hugetlb")
        a = lab.start(100, *arguments, options=options)
        words = a.line().split()
        with ending(a):
            maps = Path(f"/proc/{words[2]}/numa_maps").read_text()
            (line,) = [one for one in maps.splitlines() if " huge " in one]
            assert "N1=2" in line
            code, text = lab.run(100, *arguments)
            assert code != 0 and "ready" not in text
            assert a.end()[0] == 0
        code, text = lab.run(100, "true", options=("--hugepages-1Gi", "1Gi"))
        assert code == 125 and "hugepages-1Gi" in text
    finally:
        pool.write_text("0")


@pytest.mark.one_kernel
def test_what_outlives_its_run_keeps_its_memory_until_it_ends(lab: Lab) -> None:
    a, pid, _ = holding(lab, 100)
    with ending(a):
        a.kill()
        a.wait()
        assert lab.run(100, "true")[0] == 0
        assert len(lab.entries()) == 1, "the command still runs"
        assert len(cgroups()) == 1
        os.kill(pid, signal.SIGKILL)

        def has_ended() -> None:
            assert all("populated 0" in (one / "cgroup.events").read_text() for one in cgroups())

        eventually(has_ended)
        assert lab.run(100, "true")[0] == 0
    assert lab.entries() == {}
    assert lab.free() == ALL_FREE


@pytest.mark.one_kernel
def test_what_a_command_leaves_running_keeps_its_memory(lab: Lab) -> None:
    code, text = lab.run(100, "sh", "-c", "sleep 1000 >/dev/null 2>&1 </dev/null & exit 3")
    assert code == 3
    assert "the command left processes in /sys/fs/cgroup/numaudit/run-" in text
    assert len(lab.entries()) == 1
    (group,) = cgroups()
    (group / "cgroup.kill").write_text("1")

    def has_ended() -> None:
        assert "populated 0" in (group / "cgroup.events").read_text()

    eventually(has_ended)
    assert lab.run(100, "true")[0] == 0
    assert lab.entries() == {}


@pytest.mark.one_kernel
def test_the_last_of_a_pipeline_gives_its_memory_back_also_on_a_busy_machine(lab: Lab) -> None:
    """It ends a moment after the command. On a busy machine that takes longer than on an idle one."""
    spinners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(6)]
    try:
        code, text = lab.run(100, "sh", "-c", "sleep 0.2 & exit 3")
    finally:
        for one in spinners:
            one.kill()
            one.wait()
    assert (code, text) == (3, "")
    assert lab.entries() == {}


@pytest.mark.one_kernel
def test_the_report_at_the_end_says_where_the_memory_was(lab: Lab) -> None:
    a, _, _ = holding(lab, 100, "--report")
    with ending(a):
        a.say("touch")
        assert a.line() == "touch\n"
        (group,) = cgroups()

        def is_seen() -> None:
            assert int((group / "cpu.stat").read_text().split()[1]) > 2_000_000

        eventually(is_seen)
        code, text = a.end()
    assert code == 0
    row = next(line for line in text.splitlines() if re.match(rf"\S*/numaudit/{group.name} ", line))
    assert re.search(r"\baligned\b", text), text
    assert row.split()[1] == "0"


def test_a_user_runs_commands_in_a_cgroup_of_their_own() -> None:
    nobody = 65534
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    lab = Lab.below(folder)
    os.chown(folder, nobody, nobody)
    (folder / CONFIGURATION).chmod(0o644)
    with cgroup("numaudit-lab/theirs/me") as mine:
        theirs = mine.path.parent
        for path in (theirs, *theirs.glob("cgroup.*"), mine.path, *mine.path.glob("cgroup.*")):
            os.chown(path, nobody, nobody)

        def become_nobody() -> None:
            mine.write("cgroup.procs", "0")
            os.setgid(nobody)
            os.setuid(nobody)

        script = "id -u; cat /proc/self/cgroup"
        options = ("--cgroup", "/numaudit-lab/theirs/commands")
        one = lab.start(100, "sh", "-c", script, options=options, before=become_nobody)
        with ending(one):
            code, text = one.end()
        assert code == 0, text
        user, group = text.split()
        assert user == str(nobody)
        assert group.startswith("0::/numaudit-lab/theirs/commands/run-")
        assert lab.entries() == {}
        code, text = lab.run(100, "true", options=("--state-dir", "/proc/no"))
        assert code == 125 and "--state-dir" in text
