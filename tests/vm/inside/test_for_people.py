"""Headroom, room and missing huge pages on a real kernel: what is foretold is true."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import NODE, Lab, Started, ending
from numaudit.cli.main import call, module_of
from numaudit.kernel.host import Host
from workload import MIB, cgroup, worker

Json = dict[str, Any]
Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.one_kernel

importlib.import_module(module_of("report"))  # once here, and not by each child


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.below(tmp_path)


@pytest.fixture
def node(lab: Lab) -> Iterator[Path]:
    """The folder of a kubelet that has the lab's machine and configuration."""
    folder = Host().kubelet
    is_ours = not folder.exists()
    folder.mkdir(exist_ok=True)
    configuration = yaml.safe_load((lab.folder / "run.yaml").read_text())
    reserved = sum(one["limits"]["memory"] for one in configuration["reservedMemory"])
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "restricted",
        "systemReserved": {"memory": str(reserved)},
        "evictionHard": {},
        **configuration,
    }
    files = {"config.yaml": json.dumps(document), "memory_manager_state": ""}
    for name, text in files.items():
        (folder / name).write_text(text)
    yield folder
    for name in files:
        (folder / name).unlink()
    if is_ours:  # where it is, the next tests would see a kubelet
        folder.rmdir()


def holding(lab: Lab, *sizes: int) -> dict[str, Started]:
    """Commands of so many MiB; by the holder's name in the memory file."""
    commands: dict[str, Started] = {}
    for size in sizes:
        one = lab.start(size, "sh", "-c", "echo ready; cat")
        assert one.line() == "ready\n"
        (holder,) = lab.entries().keys() - commands.keys()
        commands[holder] = one
    return commands


def is_admitted(lab: Lab, mebibytes: int) -> bool:
    return lab.run(mebibytes, "true")[0] == 0


def test_the_headroom_is_what_commands_can_really_have(lab: Lab, node: Path, capsys: Capture) -> None:
    commands = holding(lab, 600, 200)
    with ending(*commands.values()):
        (node / "memory_manager_state").write_bytes((lab.state / "memory_manager_state").read_bytes())
        assert call(["headroom", "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        free = {one["numaNode"]: one["freeBytes"] for one in found["tables"] if one["type"] == "memory"}
        assert free == lab.free() == {0: 0, 1: 200 * MIB, 2: 200 * MIB, 3: NODE}
        assert {one["numaNode"]: one["group"] for one in found["nodes"]} == {0: [0, 1], 1: [0, 1], 2: [2], 3: None}
        assert {one["numaNode"]: one["strandedBytes"] for one in found["nodes"]} == {0: 0, 1: 200 * MIB, 2: 0, 3: 0}
        assert [one["podUid"] for one in found["holders"]] == list(commands)
        largest = max(one["bytes"] for one in found["admissible"]) // MIB
        assert is_admitted(lab, largest)
        assert not is_admitted(lab, largest + 1)


def test_who_is_named_to_make_room_makes_it_and_nobody_less_does(
    lab: Lab, node: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Three commands, each alone on a node of four; what is as large as three nodes needs two of them to end."""
    commands = holding(lab, 300, 280, 260)
    with ending(*commands.values()):
        assert lab.free() == {0: 100 * MIB, 1: 120 * MIB, 2: 140 * MIB, 3: NODE}
        (node / "memory_manager_state").write_bytes((lab.state / "memory_manager_state").read_bytes())
        names = {f"command-{number}": holder for number, holder in enumerate(commands)}
        (container_name,) = {name for held in lab.entries().values() for name in dict(held)}
        tree = this_host_with(tmp_path / "tree", names, container_name)
        pod = tmp_path / "pod.json"
        pod.write_text(json.dumps(manifest("large", "large", "1000Mi")))
        assert call(["fit", "-f", str(pod), "--make-room", "--root", str(tree), "-o", "json"]) == 0
        room = json.loads(capsys.readouterr().out)["makeRoom"]
        named = [one["name"] for one in room["pods"]]
        assert (named, room["exact"], room["unnamed"]) == (["command-1", "command-2"], True, 0)
        assert [one["command"] for one in room["pods"]] == [f"kubectl delete pod -n lab {name}" for name in named]
        for name in named:
            assert not is_admitted(lab, 1000)
            assert commands[names[name]].end()[0] == 0
        assert is_admitted(lab, 1000)


def this_host_with(tree: Path, names: dict[str, str], container_name: str) -> Path:
    """A tree for --root: this host, with a list of pods that have a container of that name; `names`: pod -> UID.

    It has no processes: a whole procfs would be the running host, which a list of pods cannot speak for.
    """
    for name in (
        "sys/devices/system/node",
        "sys/devices/system/cpu",
        "var/lib/kubelet",
        "proc/sys/kernel",
        "proc/sys/vm",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        # Copies, for no link leads out of a tree; some files of the kernel may not be read.
        subprocess.run(["cp", "-r", f"/{name}", str(tree / name)], check=False, stderr=subprocess.DEVNULL)
    for name in ("cpuinfo", "meminfo", "vmstat", "zoneinfo"):
        (tree / "proc" / name).write_bytes(Path(f"/proc/{name}").read_bytes())
    pods = [
        manifest(name, uid, "100Mi", container_name) | {"status": {"phase": "Running"}} for name, uid in names.items()
    ]
    (tree / "numaudit").mkdir()
    (tree / "numaudit/pods.json").write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": pods}))
    return tree


def manifest(name: str, uid: str, memory: str, container_name: str = "app") -> Json:
    resources = {"cpu": "1m", "memory": memory}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "uid": uid},
        "spec": {"containers": [{"name": container_name, "resources": {"requests": resources, "limits": resources}}]},
    }


POOL = Path("/sys/devices/system/node/node1/hugepages/hugepages-2048kB")
ASK = """
import ctypes, mmap, sys
size, flags = int(sys.argv[1]), int(sys.argv[2], 16)
pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000 | flags)
print("mapped", flush=True)
ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(pages)), 1, size)
print("filled", flush=True)
"""
"""Huge pages of the pool, and flags of mmap(2) beside those: 4000 = MAP_NORESERVE."""
NO_RESERVE = "4000"


def asks(lab: Lab, mebibytes: int, flags: str = "0") -> tuple[int, str]:
    """A command that was promised so much in huge pages, and uses it."""
    command = (sys.executable, "-I", "-S", "-c", ASK, str(mebibytes * MIB), flags)
    return lab.run(50, *command, options=("--hugepages-2Mi", f"{mebibytes}Mi"))


def short_of(capsys: Capture, pod: Path, mebibytes: int) -> list[Json] | None:
    """`fit -f`: the huge pages that a pod with so much of them would lack."""
    amounts = {"cpu": "100m", "memory": "50Mi", "hugepages-2Mi": f"{mebibytes}Mi"}
    containers = [{"name": "app", "image": "app", "resources": {"requests": amounts, "limits": amounts}}]
    spec = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"}, "spec": {"containers": containers}}
    pod.write_text(json.dumps(spec))
    assert call(["fit", "-f", str(pod), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["admitted"] is True
    short: list[Json] | None = found["hugepagesShort"]
    return short


def test_huge_pages_that_a_burstable_group_took_are_missing_as_foretold(
    lab: Lab, node: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The promise is made by the map, the kernel has the rest: mmap(2) fails, or the first touch does."""
    (POOL / "nr_hugepages").write_text("16")
    try:
        with ending(*holding(lab, 50).values()), cgroup("numaudit-lab/burstable", cpus="1", mems="1") as eater:
            (node / "memory_manager_state").write_bytes((lab.state / "memory_manager_state").read_bytes())
            pod = tmp_path / "pod.yaml"
            assert short_of(capsys, pod, 8) == []
            with worker(eater, 28 * MIB, kind="hugetlb"):
                assert (POOL / "free_hugepages").read_text() == "2\n"
                short, *_ = short_of(capsys, pod, 8) or [{}]
                assert {
                    name: short[name] for name in ("numaNodes", "mapFreeBytes", "kernelFreeBytes", "leftBytes")
                } == {
                    "numaNodes": [1],
                    "mapFreeBytes": 32 * MIB,
                    "kernelFreeBytes": 4 * MIB,
                    "leftBytes": 4 * MIB,
                }
                code, text = asks(lab, 8)
                assert code == 1 and "Cannot allocate memory" in text and "mapped" not in text
                code, text = asks(lab, 8, NO_RESERVE)
                assert code == 128 + signal.SIGBUS and text.endswith("mapped\n")
                assert short_of(capsys, pod, 4) == []
                assert asks(lab, 4) == (0, "mapped\nfilled\n")
                assert call(["report", "-o", "json"]) == 0
                found = json.loads(capsys.readouterr().out)["findings"]
                (said,) = [one["message"] for one in found if one["name"] == "hugepages-short"]
                assert "used there without a promise by" in said and "burstable (28Mi)" in said
            assert short_of(capsys, pod, 8) == []
            assert asks(lab, 8) == (0, "mapped\nfilled\n")
    finally:
        (POOL / "nr_hugepages").write_text("0")
