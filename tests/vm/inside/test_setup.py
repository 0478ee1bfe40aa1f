"""`numaudit setup` on machines that are set up as they should not be, and what the kernel does on a full node."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numaudit.checkpoints.formats.file import MEMORY
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.cli.main import call
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.evaluation.setup.reservations import kept_by_kernel
from numaudit.evaluation.setup.rule import SetupEvidence
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.kubelet.sources import checkpoints
from numaudit.memorymanager.kubelet import read_kubelet
from numaudit.memorymanager.manager import fresh_state
from numaudit.topology.nodeset import CpuSet
from workload import MIB, TOUCH, Cgroup, cgroup

Json = dict[str, Any]
Capture = pytest.CaptureFixture[str]

SYSCTLS = Path("/proc/sys/vm")
EVERYWHERE = {"eviction-blind": "info", "reboot-drift": "info", "device-no-node": "info"}
"""What no setting changes, and the disk controllers of QEMU's board, which it gives no node."""


@contextlib.contextmanager
def kubelet(reserved: int | None = None) -> Iterator[None]:
    """The files of one that is set up as it should be, on this machine. `reserved`: bytes of each node; None = half of
    what huge pages leave."""
    host = Host()
    machine = read_machine(host)
    huge = {node.id: sum(pages.total * pages.page_size for pages in node.huge_pages) for node in machine.nodes}
    amounts = {node.id: reserved or (node.memory - huge[node.id]) // 2 for node in machine.nodes if node.memory}
    configuration = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "restricted",
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
        "systemReserved": {"memory": str(sum(amounts.values()))},
        "evictionHard": {},
        "reservedMemory": [{"numaNode": node, "limits": {"memory": size}} for node, size in amounts.items()],
    }
    state = fresh_state(read_kubelet(configuration, machine)[0])
    shared = CpuSet.from_ids(cpu.id for cpu in machine.cpus)
    host.kubelet.mkdir(exist_ok=True)
    (host.kubelet / "config.yaml").write_text(json.dumps(configuration))
    (host.kubelet / "cpu_manager_state").write_text(json.dumps({"policyName": "static", "defaultCpuSet": str(shared)}))
    checkpoints.write_file(host.kubelet / MEMORY, MemoryCheckpoint.of("Static", state.memory.state))
    try:
        yield
    finally:
        for name in ("config.yaml", "cpu_manager_state", MEMORY):
            (host.kubelet / name).unlink()
        with contextlib.suppress(OSError):  # where it is, the next tests would see a kubelet
            host.kubelet.rmdir()


@contextlib.contextmanager
def sysctl(name: str, value: str) -> Iterator[None]:
    before = (SYSCTLS / name).read_text()
    (SYSCTLS / name).write_text(value)
    try:
        yield
    finally:
        (SYSCTLS / name).write_text(before)


def rules(capsys: Capture) -> dict[str, Json]:
    """What `numaudit setup` says of each."""
    code = call(["setup", "-o", "json"])
    found = {one["id"]: one for one in json.loads(capsys.readouterr().out)["rules"]}
    assert code == any(one["state"] == "error" for one in found.values())
    return found


def faults(capsys: Capture) -> dict[str, str]:
    """Rules that do not hold, beside those of EVERYWHERE."""
    found = {id_: one["state"] for id_, one in rules(capsys).items() if one["state"] in ("error", "warning", "info")}
    assert found.items() >= EVERYWHERE.items()
    return {id_: state for id_, state in found.items() if id_ not in EVERYWHERE}


def test_a_setting_that_breaks_promises_is_the_only_fault_of_a_node_that_is_set_up_well(capsys: Capture) -> None:
    with kubelet():
        assert faults(capsys) == {}
        with sysctl("numa_stat", "0"), sysctl("oom_kill_allocating_task", "1"), sysctl("panic_on_oom", "2"):
            bad = {"numa-stat-off": "warning", "oom-allocating": "error", "panic-oom": "error"}
            assert faults(capsys) == bad
        with sysctl("panic_on_oom", "1"):  # of no cpuset
            assert faults(capsys) == {}
    with sysctl("panic_on_oom", "2"):
        without = rules(capsys)["panic-oom"]
        assert (without["state"], without["messages"]) == (
            "not-judged",
            ["nothing here promises memory on NUMA nodes"],
        )


@pytest.mark.odd
def test_each_way_in_which_two_nodes_are_unlike_is_a_fault(capsys: Capture) -> None:
    with kubelet():
        assert faults(capsys) == {
            "hugepages-uneven": "info",
            "isolcpus-kubelet": "warning",
            "movable-only": "warning",
            "nodes-unequal": "warning",
            "slit-asymmetric": "info",
        }
        found = {id_: one["messages"] for id_, one in rules(capsys).items()}
    assert found["isolcpus-kubelet"] == ["CPU 1 of the kubelet's shared pool is isolated"]
    assert found["hugepages-uneven"] == ["huge pages of 2Mi: node 0 has 0, node 1 has 4"]
    assert found["slit-asymmetric"] == ["the distance from node 0 to node 1 is 12, and the way back 21"]
    (movable,) = found["movable-only"]
    assert movable.endswith("of the memory of node 1 is in ZONE_MOVABLE")


@pytest.mark.flat
def test_a_kernel_that_was_told_to_show_one_node_of_four_is_found(capsys: Capture) -> None:
    found = rules(capsys)
    assert (found["numa-off"]["state"], found["numa-off"]["messages"]) == (
        "info",
        ["the kernel was started with numa=off"],
    )
    assert not {one["state"] for one in found.values()} & {"warning", "error"}


@pytest.mark.tiers
def test_slow_memory_that_the_kubelet_may_promise_is_a_fault(capsys: Capture) -> None:
    with kubelet():
        found = rules(capsys)
    assert found["cxl-ordinary"]["state"] == "warning"
    assert found["cxl-ordinary"]["numaNodes"] == [2, 3]
    assert found["no-hmat"]["state"] == "pass"


@pytest.mark.bare
def test_a_node_without_memory_is_a_fault(capsys: Capture) -> None:
    with kubelet():
        assert faults(capsys) == {"node-no-memory": "warning", "hugepages-uneven": "info"}
        assert rules(capsys)["node-no-memory"]["messages"] == ["node 2 has CPUs 2 and no memory"]


def start(group: Cgroup, size: int, score: int) -> subprocess.Popen[str]:
    """A process of this oom_score_adj that fills this many bytes."""
    joining = 'echo $$ >"$0" && echo "$1" >/proc/self/oom_score_adj && shift && exec "$@"'
    command = ["/bin/sh", "-c", joining, str(group.path / "cgroup.procs"), str(score), *TOUCH, str(size)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def memory_of(node: int) -> int:
    return read_machine(Host()).by_id[node].memory or 0


@pytest.mark.bare
@pytest.mark.parametrize("ratio", ["256 256 32", "256 4 32"])
def test_a_process_that_fills_a_node_leaves_what_the_kernel_is_said_to_keep(ratio: str, capsys: Capture) -> None:
    """Node 1 has memory on both sides of 4 GiB, so the lower zone is protected, by a share of the higher one. By the
    kernel's own report of the kill, which has what was free then."""
    with sysctl("lowmem_reserve_ratio", ratio), cgroup("numaudit-lab/full", mems="1") as group:
        kept = kept_by_kernel(SetupEvidence(Engine(Observer.of(Host())).tick().snapshot), 1)
        subprocess.run(["dmesg", "--clear"], check=True)
        with start(group, memory_of(1), 1000) as process:
            assert process.wait() == -signal.SIGKILL
        said = subprocess.run(["dmesg"], check=True, capture_output=True, text=True).stdout
        (free, protected) = (
            sum(int(one) for one in re.findall(pattern, said.partition("Killed process")[0]))
            for pattern in (r"Node 1 \w+ free:(\d+)kB", r"Node 1 DMA32 free:(\d+)kB")
        )
        assert free << 10 == pytest.approx(kept, rel=0.1)
        with kubelet(reserved=100 * MIB):
            found = rules(capsys)["reserved-below-kernel"]
    if ratio == "256 4 32":
        assert protected << 10 > 250 * MIB
        assert (found["state"], found["numaNodes"]) == ("warning", [1])
    else:
        assert found["state"] == "pass"


@pytest.mark.parametrize(("setting", "killed"), [("0", "best-effort"), ("1", "promised")])
@pytest.mark.one_kernel
def test_with_oom_kill_allocating_task_who_asks_on_a_full_node_is_killed_in_place_of_who_filled_it(
    setting: str, killed: str
) -> None:
    """With the kubelet's scores of a best-effort pod and of a guaranteed one."""
    size = memory_of(3) * 6 // 10
    with (
        sysctl("oom_kill_allocating_task", setting),
        cgroup("numaudit-lab/full", mems="3") as group,
        start(group, size, 1000) as filler,
    ):
        assert filler.stdout is not None and filler.stdout.readline().startswith("ready ")
        with start(group, size, -997) as asker:
            assert asker.stdout is not None
            is_ready = asker.stdout.readline().startswith("ready ")
            ended = {"promised": asker.poll() if is_ready else asker.wait(), "best-effort": filler.poll()}
            asker.kill()
        filler.kill()
    assert {name: code for name, code in ended.items() if code is not None} == {killed: -signal.SIGKILL}
