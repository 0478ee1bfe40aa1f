"""Declarations of a container's processes, read from a made-up /proc, /sys and /etc."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest
from msgspec.structs import replace

from hosts.sysfs_tree import SysfsTree
from numaudit.engine.collectors.base import SkippedItems
from numaudit.engine.collectors.containers import declared
from numaudit.kernel import started_with
from numaudit.kernel.devices.descriptors import HeldDevices
from numaudit.kernel.host import Host
from numaudit.kernel.memory import maps
from numaudit.ranks.declaration import HeldDevice, Placeable, ProcessTold
from numaudit.snapshot import Container, ContainerId
from numaudit.snapshot.processes import ContainerProcesses, ProcessPlacement
from numaudit.topology.nodeset import CpuSet, NodeSet

HERE = Placeable({0: CpuSet.parse("0-3"), 1: CpuSet.parse("4-7")}, NodeSet.of(0, 1), CpuSet.parse("0-7"))
JOB = Container(ContainerId(1), "/job", "group")


def placement(pid: int, parent: int | None) -> ProcessPlacement:
    return ProcessPlacement(pid, "work", parent, None, None, 1, (), None, None, "disabled", True, ())


def write(root: Path, pid: int, line: str, environ: str | None = "") -> None:
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "cmdline").write_text("".join(f"{word}\0" for word in line.split()))
    if environ is not None:
        (folder / "environ").write_text("".join(f"{word}\0" for word in environ.split()))


def read(
    root: Path, parents: dict[int, int | None], one: Container = JOB
) -> tuple[dict[int, ProcessTold], SkippedItems]:
    skipped, host = SkippedItems(), Host(root)
    reader = declared.DeclarationReader(host, monotonic() + 60, HeldDevices(host), skipped)
    found = ContainerProcesses(tuple(placement(*pair) for pair in parents.items()), len(parents), None, "start")
    return reader.container(one, found, HERE), skipped


def test_a_descendant_of_numactl_s_wrapper_was_told_what_that_says(tmp_path: Path) -> None:
    write(tmp_path, 10, "timeout 60 numactl -m 1 ./work", "")
    write(tmp_path, 11, "./work", "RANK=5 SECRET=x")
    write(tmp_path, 12, "./child", "")
    told, _ = read(tmp_path, {10: 1, 11: 10, 12: 11})
    assert told[10].declarations == ()
    assert [str(told[pid].declarations[0].memory_nodes) for pid in (11, 12)] == ["1", "1"]
    assert told[11].rank == 5
    assert "SECRET" not in repr(told)


def test_variables_of_openmp_count_where_its_library_is_mapped_and_runs_threads(tmp_path: Path) -> None:
    library = "7f0000000000-7f0000001000 r-xp 00000000 08:01 12 /usr/lib/libgomp.so.1.0.0\n"
    for pid, mapped, threads in ((10, library, 2), (11, library, 1), (12, "", 2), (13, None, 2)):
        write(tmp_path, pid, "./work", "OMP_PLACES={0},{1}")
        for thread in range(threads):
            (tmp_path / f"proc/{pid}/task/{pid + thread}").mkdir(parents=True)
        if mapped is not None:
            (tmp_path / f"proc/{pid}/maps").write_text(mapped)
    told, skipped = read(tmp_path, dict.fromkeys((10, 11, 12, 13)))
    assert {pid: [str(of.cpus) for of in one.declarations] for pid, one in told.items()} == {
        10: ["0-1"],
        11: [],
        12: [],
    }
    assert skipped.gone == 1


def test_a_variable_whose_runtime_may_not_be_looked_for_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(host: Host, pid: int) -> frozenset[str]:
        raise PermissionError(13, "Permission denied", f"/proc/{pid}/maps")

    write(tmp_path, 10, "./work", "OMP_PLACES=cores")
    monkeypatch.setattr(maps, "read_libraries", refuse)
    (found,) = read(tmp_path, {10: None})[0][10].declarations
    assert not found.has_cpus
    assert "cannot read /proc/10/maps: Permission denied" in (found.unresolved or "")


def test_a_process_is_known_by_its_file_where_it_wrote_over_its_command_line(tmp_path: Path) -> None:
    write(tmp_path, 10, "timeout 60 numactl -m 1 python3 serve.py", "")
    write(tmp_path, 11, "VLLM::EngineCore", "")
    (tmp_path / "proc/11/exe").symlink_to("/usr/bin/python3.11")
    assert [str(one.memory_nodes) for one in read(tmp_path, {10: 1, 11: 10})[0][11].declarations] == ["1"]


def test_shared_libraries_are_files_that_are_called_so() -> None:
    text = "1000-2000 r-xp 0 08:01 12     /opt/my env/libomp.so.5 (deleted)\n"
    text += "1000-2000 rw-p 0 00:00 0 \n3000-4000 rw-p 0 00:00 0 [heap]\n"
    assert maps.parse_libraries(text) == {"libomp.so.5 (deleted)"}


def test_a_process_outside_the_container_is_no_ancestor(tmp_path: Path) -> None:
    write(tmp_path, 10, "timeout 60 numactl -m 1 ./work", "")
    write(tmp_path, 11, "./work", "")
    told, _ = read(tmp_path, {11: 10})
    assert told[11].declarations == ()


def test_processes_that_are_their_own_ancestors_end_the_walk(tmp_path: Path) -> None:
    write(tmp_path, 10, "./a", "")
    write(tmp_path, 11, "./b", "")
    told, _ = read(tmp_path, {10: 11, 11: 10})
    assert set(told) == {10, 11}


def test_an_environment_without_the_rights_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(host: Host, pid: int) -> bytes:
        raise PermissionError(13, "Permission denied", f"/proc/{pid}/environ")

    write(tmp_path, 10, "java -XX:+UseNUMA", "")
    monkeypatch.setattr(started_with, "environment", refuse)
    told, _ = read(tmp_path, {10: None})
    assert told[10].unread is not None
    assert told[10].unread.startswith("cannot read /proc/10/environ: Permission denied")
    assert told[10].declarations[0].launcher == "jvm"


def test_a_capture_has_command_lines_and_no_environment(tmp_path: Path) -> None:
    write(tmp_path, 10, "./work", None)
    assert read(tmp_path, {10: None})[0][10].unread == "a capture keeps no environment"


def test_a_process_that_has_ended_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, 10, "./work", "")
    told, skipped = read(tmp_path, {10: None, 11: None})
    assert (set(told), skipped.gone) == ({10}, 1)


def test_a_long_environment_is_cut_between_two_words(tmp_path: Path) -> None:
    write(tmp_path, 10, "./work", "RANK=1 " + "A" * 300_000 + " LOCAL_RANK=2")
    assert started_with.environment(Host(tmp_path), 10) == b"RANK=1"
    assert read(tmp_path, {10: None})[0][10].rank == 1


def test_a_service_declares_by_its_unit_and_drop_ins(tmp_path: Path) -> None:
    write(tmp_path, 10, "./work", "")
    for file, text in {
        "usr/lib/systemd/system/db.service": "NUMAPolicy=interleave\n",
        "etc/systemd/system/db.service": "NUMAPolicy=bind\nNUMAMask=0\n",
        "run/systemd/system/db.service.d/50-node.conf": "NUMAMask=0\n",
        "etc/systemd/system/db.service.d/50-node.conf": "[Service]\nNUMAMask=1\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    service = replace(JOB, path="/system.slice/db.service", kind="service")
    (found,) = read(tmp_path, {10: None}, service)[0][10].declarations
    assert (found.launcher, found.policy, str(found.memory_nodes)) == ("systemd", "bind", "1")
    assert started_with.unit_settings(Host(tmp_path), "../../etc/shadow.service") == {}


def test_a_container_declares_by_its_runtime_s_configuration(tmp_path: Path) -> None:
    write(tmp_path, 10, "./work", "")
    bundle = tmp_path / "run/containerd/io.containerd.runtime.v2.task/k8s.io" / ("ab" * 32)
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text('{"linux":{"memoryPolicy":{"mode":"MPOL_BIND","nodes":"0"}}}')
    (found,) = read(tmp_path, {10: None}, replace(JOB, container_id="ab" * 32))[0][10].declarations
    assert (found.launcher, str(found.memory_nodes)) == ("oci", "0")


def test_open_devices_have_their_nodes(tmp_path: Path) -> None:
    write(tmp_path, 10, "./work", "RANK=0")
    sysfs = SysfsTree(tmp_path)
    sysfs.pci("0000:3b:00.0", "030200", 1)
    sysfs.pci("0000:af:00.0", "020700", 0)
    sysfs.pci("0000:d8:00.0", "010802", -1)
    sysfs.nvidia("0000:3b:00.0", minor=1)
    sysfs.file("char", 231, 192, "0000:af:00.0", "infiniband_verbs/uverbs0")
    sysfs.iommu_group(12, (511, 0), "0000:d8:00.0")
    for numbers in ("char/195:1", "char/231:192", "char/511:0", "char/195:9", "char/1:3"):
        sysfs.open(10, numbers)
    (found,) = read(tmp_path, {10: None})[0].values()
    assert set(found.devices) == {
        HeldDevice("gpu", "0000:3b:00.0", 1),
        HeldDevice("vfio", "0000:d8:00.0", None),
        HeldDevice("infiniband", "0000:af:00.0", 0),
    }


def test_a_capture_without_open_files_keeps_its_declarations(tmp_path: Path) -> None:
    write(tmp_path, 10, "java -XX:+UseNUMA", "RANK=1")
    (tmp_path / "proc/10/fd").rmdir()
    told, _ = read(tmp_path, {10: None})
    assert (told[10].declarations[0].launcher, told[10].devices) == ("jvm", ())
    assert told[10].unread == "the capture has none of its open devices"
