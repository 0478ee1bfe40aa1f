"""The cgroup file systems: mounts, groups, and what each file of a group says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel import cgroup
from numaudit.kernel.cgroup import (
    Hierarchies,
    Reader,
    escape,
    find_hierarchies,
    huge_page_label,
    parse_process_cgroups,
    unescape,
)
from numaudit.kernel.host import Host
from numaudit.snapshot import Allowed
from numaudit.topology.nodeset import CpuSet, NodeSet

CapturedHost = Callable[[str], Host]
MIB = 1 << 20
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"


def _host(folder: Path, mounts: str, controllers: str | None = "cpuset cpu memory\n") -> Host:
    (folder / "proc").mkdir()
    (folder / "proc/mounts").write_text(mounts)
    root = folder / "sys/fs/cgroup"
    root.mkdir(parents=True)
    if controllers is not None:
        (root / "cgroup.controllers").write_text(controllers)
    return Host(folder)


def _reader(folder: Path, mode: cgroup.CgroupMode = "v2", sizes: tuple[int, ...] = (), **files: str) -> Reader:
    """A reader of a hierarchy with the group `/a` that has these files; `__` stands for a dot."""
    group = folder / "a"
    group.mkdir()
    for name, text in files.items():
        (group / name.replace("__", ".")).write_text(text)
    return Reader(Hierarchies(mode, folder, folder, folder, folder), sizes)


# Where the hierarchies are


def test_with_cgroup_v2_all_controllers_are_in_one_folder(tmp_path: Path) -> None:
    host = _host(tmp_path, "proc /proc proc rw 0 0\n" + V2)
    root = tmp_path / "sys/fs/cgroup"
    assert find_hierarchies(host) == Hierarchies("v2", root, root, root, root)


def test_with_cgroup_v1_each_controller_has_its_folder(tmp_path: Path) -> None:
    text = (
        "cgroup /sys/fs/cgroup/cpuset,memory cgroup rw,cpuset,memory 0 0\n"
        "cgroup /sys/fs/cgroup/huge\\040pages cgroup rw,hugetlb 0 0\n"
    )
    both = tmp_path / "sys/fs/cgroup/cpuset,memory"
    huge = tmp_path / "sys/fs/cgroup/huge pages"
    assert find_hierarchies(_host(tmp_path, text)) == Hierarchies("v1", both, both, huge, None)


def test_v1_memory_beside_a_cgroup2_mount_is_hybrid(captured: CapturedHost) -> None:
    found = find_hierarchies(captured("single-node-hybrid"))
    assert found.mode == "hybrid"
    assert (found.memory.name, found.hugetlb) == ("memory", None)
    assert found.unified is not None
    assert found.unified.name == "unified"


def test_a_cgroup2_mount_without_the_memory_controller_cannot_answer(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"memory controller.*cgroup_disable"):
        find_hierarchies(_host(tmp_path, V2, controllers="cpuset cpu\n"))


def test_a_cgroup2_mount_that_does_not_tell_its_controllers_is_taken(tmp_path: Path) -> None:
    assert find_hierarchies(_host(tmp_path, V2, controllers=None)).is_v2


def test_a_host_without_cgroups_cannot_answer(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no cgroup file system"):
        find_hierarchies(_host(tmp_path, "proc /proc proc rw 0 0\nnonsense\n\n"))


def test_missing_mounts_cannot_answer_and_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot read .*proc/mounts: No such file"):
        find_hierarchies(Host(tmp_path))


def test_a_mount_whose_root_is_a_containers_own_group_shows_no_host(tmp_path: Path) -> None:
    """The host's real root has no cgroup.events."""
    host = _host(tmp_path, V2)
    (tmp_path / "sys/fs/cgroup/cgroup.events").write_text("populated 1\nfrozen 0\n")
    with pytest.raises(Unavailable, match="is the group of this container alone"):
        find_hierarchies(host)


def test_groups_below_a_containers_own_group_are_a_part_of_the_hosts(tmp_path: Path) -> None:
    host = _host(tmp_path, V2)
    assert find_hierarchies(host).is_whole
    (tmp_path / "sys/fs/cgroup/cgroup.events").write_text("populated 1\nfrozen 0\n")
    (tmp_path / "sys/fs/cgroup/kubepods").mkdir()
    assert not find_hierarchies(host).is_whole


# Huge pages


def test_pages_of_each_size_are_counted_by_themselves_and_their_sum_is_hugetlb(captured: CapturedHost) -> None:
    reader = Reader(find_hierarchies(captured("huge-pages")), (2 * MIB, 1 << 30))
    dpdk, kvm = "/docker/" + "d1" * 32, "/docker/" + "e1" * 32
    assert reader.huge_pages(kvm) == {2 * MIB: {0: 0, 1: 64 * MIB}, 1 << 30: {0: 0, 1: 0}}
    assert reader.huge_pages(dpdk) == {2 * MIB: {0: 128 * MIB, 1: 0}, 1 << 30: {0: 1 << 30, 1: 0}}
    resident = reader.resident(dpdk)
    assert resident.huge_pages == reader.huge_pages(dpdk)
    assert resident.hugetlb == {0: 128 * MIB + (1 << 30), 1: 0}


def test_the_v2_root_shows_no_huge_pages_so_they_are_not_known(captured: CapturedHost) -> None:
    assert Reader(find_hierarchies(captured("huge-pages")), (2 * MIB,)).huge_pages("") is None


def test_v1_huge_pages_are_those_of_all_groups_below(tmp_path: Path) -> None:
    text = "total=2097152 N0=2097152\nhierarchical_total=6291456 N0=6291456\n"
    assert _reader(tmp_path, "v1", (2 * MIB,), hugetlb__2MB__numa_stat=text).huge_pages("/a") == {2 * MIB: {0: 6 * MIB}}


def test_a_huge_page_file_that_is_empty_is_refused_rather_than_read_as_zero(tmp_path: Path) -> None:
    reader = _reader(tmp_path, sizes=(2 * MIB,), hugetlb__2MB__numa_stat="")
    with pytest.raises(ParseError, match=r"/a/hugetlb\.2MB\.numa_stat: .*total"):
        reader.huge_pages("/a")


@pytest.mark.parametrize(
    ("size", "label"), [(64 << 10, "64KB"), (2 * MIB, "2MB"), (32 * MIB, "32MB"), (1 << 30, "1GB"), (16 << 30, "16GB")]
)
def test_a_huge_page_size_is_spelled_as_in_the_file_names(size: int, label: str) -> None:
    assert huge_page_label(size) == label


# What a group may use, and its processes


def test_the_effective_cpuset_is_read(captured: CapturedHost) -> None:
    v2 = Reader(find_hierarchies(captured("eight-nodes")))
    assert v2.allowed("/system.slice") == Allowed(NodeSet.parse("0-7"), CpuSet.parse("0-31"))
    v1 = Reader(find_hierarchies(captured("cgroup-v1")))
    assert v1.allowed("/docker/" + "9" * 64) == Allowed(NodeSet.of(0), CpuSet.of(0, 1))


def test_without_a_cpuset_hierarchy_nothing_is_known_of_it(tmp_path: Path) -> None:
    assert Reader(Hierarchies("v1", tmp_path, None, None, None)).allowed("/a") == Allowed(None, None)


def test_processes_of_another_pid_namespace_are_left_out(tmp_path: Path) -> None:
    reader = _reader(tmp_path, cgroup__procs="0\n12\n0\n345\n")
    assert reader.processes("/a") == (12, 345)


def test_the_groups_of_a_process_are_read_by_controller() -> None:
    text = "4:memory:/a\n3:cpuset,cpu:/b:c\n1:name=systemd:/d\n0::/e\n\nbroken\n"
    assert parse_process_cgroups(text) == {
        "memory": "/a",
        "cpuset": "/b:c",
        "cpu": "/b:c",
        "name=systemd": "/d",
        "": "/e",
    }


@given(st.text(max_size=100))
def test_any_process_cgroup_text_is_read(text: str) -> None:
    assert all(path for path in parse_process_cgroups(text).values())


@given(st.text(max_size=60))
def test_any_name_comes_back_from_its_escaped_form_in_one_line(name: str) -> None:
    assert unescape(escape(name)) == name
    assert not set(" \t\n") & set(escape(name))
