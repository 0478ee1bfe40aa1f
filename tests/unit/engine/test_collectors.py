"""Collectors: what each answers, what it skips, and how a failure is reported."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hosts.node_tree import NodeTree
from numaudit.containers.inventory import Census, Inventory
from numaudit.engine.collectors.base import CollectorRun, SkippedItems
from numaudit.engine.collectors.containers.allowed import AllowedNodes
from numaudit.engine.collectors.containers.mappings import NumaMapsWalk
from numaudit.engine.collectors.containers.residency import Residency
from numaudit.engine.observer import Observer
from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.cgroup import Cgroup, Hierarchies, Reader, find_hierarchies
from numaudit.kernel.host import Host, explain, read_bytes, read_text
from numaudit.report.build import build
from numaudit.snapshot import Allowed, CollectorOutcome, Container, ContainerId, Mappings, Resident
from numaudit.topology.nodeset import CpuSet, NodeSet
from processes.cycles import no_kept_errors

CapturedHost = Callable[[str], Host]
MIB = 1 << 20
DPDK, KVM = "/docker/" + "d1" * 32, "/docker/" + "e1" * 32


def _census_of(host: Host) -> tuple[Reader, Census]:
    hierarchies = find_hierarchies(host)
    return Reader(hierarchies, (2 * MIB, 1 << 30)), Inventory(host, hierarchies).take()


def _allowed(host: Host) -> dict[str, Allowed]:
    reader, census = _census_of(host)
    found = AllowedNodes(host, reader).collect(census, SkippedItems())
    return {container.path: found[container.id] for container in census.containers if container.id in found}


def _set(nodes: str, cpus: str) -> Allowed:
    return Allowed(NodeSet.parse(nodes), CpuSet.parse(cpus))


# What a container may use


def test_a_containers_own_cpuset_decides_and_else_that_of_its_parents(captured: CapturedHost) -> None:
    allowed = _allowed(captured("huge-pages"))
    assert allowed[DPDK] == _set("0", "0-3")
    assert allowed[KVM] == _set("0-1", "4-7")


def test_of_a_container_elsewhere_than_promised_the_groups_own_nodes_are_read(fixtures: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(fixtures / "kubernetes-four-nodes", tmp_path / "tree")
    host = Host.under(tree)
    reader, census = _census_of(host)
    guaranteed = [one for one in census.containers if one.kind == "container" and one.qos == "Guaranteed"]
    elsewhere, as_promised, bare, empty = guaranteed[:4]
    folders = {one.id: tree / f"sys/fs/cgroup{one.path}" for one in guaranteed}
    (folders[bare.id] / "cpuset.mems").unlink()
    (folders[empty.id] / "cpuset.mems").write_text("\n")
    promised: dict[int, NodeSet] = dict.fromkeys((elsewhere.id, bare.id, empty.id), NodeSet.parse("0-3"))
    before = AllowedNodes(host, reader).collect(census, SkippedItems())
    nodes = before[as_promised.id].nodes
    assert nodes is not None
    found = AllowedNodes(host, reader, promised | {as_promised.id: nodes}).collect(census, SkippedItems())
    assert found[elsewhere.id].own_nodes == found[elsewhere.id].nodes is not None
    assert found[empty.id].own_nodes == NodeSet()
    assert found[elsewhere.id].narrowed_at is None
    pod = str(Path(elsewhere.path).parent)
    (tree / f"sys/fs/cgroup{pod}/cpuset.mems").write_text("1\n")
    narrowed = AllowedNodes(host, reader, promised).collect(census, SkippedItems())
    assert narrowed[elsewhere.id].narrowed_at == pod
    assert {found[one.id].own_nodes for one in (as_promised, bare)} == {None}


def test_without_the_controller_that_far_down_the_nearest_group_above_decides(fixtures: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(fixtures / "systemd-crio", tmp_path / "tree")
    cgroups = tree / "sys/fs/cgroup"
    (cgroups / "system.slice/cpuset.mems.effective").write_text("1\n")
    for group in ("system.slice/crio.service", "machine.slice"):
        for file in (cgroups / group).glob("cpuset.*"):
            file.unlink()
    allowed = _allowed(Host.under(tree))
    assert allowed["/system.slice/crio.service"] == _set("1", "0-15")
    assert allowed["/machine.slice"] == _set("0-1", "0-15")
    for file in cgroups.rglob("cpuset.*"):
        file.unlink()
    assert set(_allowed(Host.under(tree)).values()) == {Allowed(None, None)}


@pytest.mark.parametrize("problem", [None, errno.ENOENT, errno.EACCES])
def test_a_deep_tree_without_the_controller_costs_one_question_for_each_group(
    tmp_path: Path, problem: int | None
) -> None:
    """What the groups above answered is not asked for again, whatever it was."""
    asked: list[str] = []

    def read(path: str) -> bytes:
        asked.append(path)
        if path.startswith(f"{tmp_path}/cpuset") and problem is None:
            return b"0-1\n"
        raise OSError(errno.EACCES if problem == errno.EACCES and "/a/" not in path else errno.ENOENT, "", path)

    paths = ["/a" * depth for depth in range(1, 1901)]
    groups = [Cgroup(len(path), path) for path in paths]
    containers = tuple(Container(ContainerId(group.id), group.path, "group") for group in groups)
    census = Census(containers, {ContainerId(group.id): (group,) for group in groups}, {})
    skipped = SkippedItems()
    reader = Reader(Hierarchies("v2", tmp_path, tmp_path, None, tmp_path), read=read)
    with no_kept_errors():
        found = AllowedNodes(Host(), reader).collect(census, skipped)
    assert len(asked) <= 2 * len(paths) + 2
    if problem == errno.EACCES:
        assert (len(found), skipped.failed) == (0, len(paths))
    else:
        expected = _set("0-1", "0-1") if problem is None else Allowed(None, None)
        assert (len(found), set(found.values())) == (len(paths), {expected})


def test_a_v1_group_that_the_cpuset_hierarchy_lacks_is_found_by_its_process(captured: CapturedHost) -> None:
    allowed = _allowed(captured("cgroup-v1"))
    assert allowed["/docker/" + "9" * 64] == _set("0", "0-1")
    assert allowed["/system.slice/cron.service"] == _set("0-1", "0-3")
    assert allowed["/system.slice/idle.service"] == Allowed(None, None)


def test_a_process_outside_of_every_visible_cpuset_is_counted(fixtures: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(fixtures / "cgroup-v1", tmp_path / "tree")
    (tree / "proc/702/cgroup").write_text("3:cpuset:/../elsewhere\n")
    reader, census = _census_of(Host.under(tree))
    skipped = SkippedItems()
    found = AllowedNodes(Host.under(tree), reader).collect(census, skipped)
    (cron,) = [container.id for container in census.containers if container.path.endswith("cron.service")]
    assert cron not in found
    assert (skipped.gone, skipped.failed) == (1, 0)


# numa_maps


def _mappings(host: Host, budget: float) -> tuple[dict[ContainerId, Mappings], dict[str, ContainerId], SkippedItems]:
    reader, census = _census_of(host)
    skipped = SkippedItems()
    order = [container.id for container in census.containers]
    found = NumaMapsWalk(host, reader, budget).collect(census, order, skipped)
    return found, {container.path: container.id for container in census.containers}, skipped


def test_huge_pages_of_both_sizes_are_seen_in_the_mappings(captured: CapturedHost) -> None:
    found, ids, skipped = _mappings(captured("huge-pages"), 60)
    assert found[ids[DPDK]].by_page_size[1 << 30] == {0: 1 << 30}
    assert found[ids[DPDK]].by_page_size[2 * MIB] == {0: 128 * MIB}
    assert found[ids[DPDK]].by_policy["bind=static:0"] == {0: 1 << 30}
    assert found[ids[KVM]].by_policy["weighted interleave:0-1"] == {0: MIB, 1: MIB}
    assert (skipped.gone, skipped.failed) == (0, 0)


def test_without_time_nothing_is_read_and_that_is_reported(captured: CapturedHost) -> None:
    found, ids, skipped = _mappings(captured("huge-pages"), -1)
    assert {(one.processes_read, dict(one.by_kind) == {}) for one in found.values()} == {(0, True)}
    assert found[ids[DPDK]].processes == 1
    assert skipped.failed == 2
    assert skipped.reason == "the time budget of -1 s ran out"


def test_no_process_is_counted_as_lost_twice(fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = shutil.copytree(fixtures / "huge-pages", tmp_path / "tree")
    (tree / f"sys/fs/cgroup{DPDK}/cgroup.procs").write_text("301\n302\n303\n")
    (tree / "proc/301/numa_maps").write_text("nonsense")
    clock = iter([0.0, 1.0, 99.0, 99.0, 99.0, 99.0])
    monkeypatch.setattr("numaudit.engine.collectors.containers.mappings.monotonic", lambda: next(clock))
    reader, census = _census_of(Host.under(tree))
    skipped = SkippedItems()
    (dpdk,) = [container.id for container in census.containers if container.path == DPDK]
    found = NumaMapsWalk(Host.under(tree), reader, 10).collect(census, [dpdk], skipped)
    assert (found[dpdk].processes_read, found[dpdk].processes, skipped.failed) == (0, 3, 3)


# Residency


def test_a_container_that_cannot_be_read_takes_nothing_from_the_others(fixtures: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(fixtures / "huge-pages", tmp_path / "tree")
    whole = {path: resident.anon for path, resident in _resident(Host.under(tree)).items()}
    (tree / f"sys/fs/cgroup{DPDK}/memory.numa_stat").unlink()
    less = {path: resident.anon for path, resident in _resident(Host.under(tree)).items()}
    assert DPDK not in less
    assert less[KVM] == whole[KVM]
    # What is not known of the container stays with its parent, so no byte is lost.
    assert less["/docker"] == {0: MIB, 1: 0}


def test_a_group_without_the_memory_controller_has_that_for_a_reason(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    tree.group("/jobs", (MIB, 0))
    tree.group("/jobs/inner", (MIB, 0))
    top = tree.root / "sys/fs/cgroup"
    (top / "cgroup.subtree_control").write_text("cpuset memory\n")
    (top / "jobs/cgroup.subtree_control").write_text("cpuset\n")
    (top / "jobs/inner/memory.numa_stat").unlink()
    snapshot = Observer.of(Host.under(tree.root)).observe()
    (inner,) = (one for one in build(snapshot).containers if one.path == "/jobs/inner")
    assert inner.resident is None
    (reason,) = (one.reason for one in inner.unknown if one.what == "resident")
    assert reason.startswith("the memory controller is off here: `memory` is not in cgroup.subtree_control of /jobs")
    (outcome,) = (one for one in snapshot.outcomes if one.source == "residency")
    assert (outcome.state, outcome.skipped) == ("ok", 0)


def test_a_wrapped_count_of_huge_pages_is_not_known_and_the_other_types_stay(fixtures: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(fixtures / "huge-pages", tmp_path / "tree")
    file = tree / f"sys/fs/cgroup{DPDK}/hugetlb.2MB.numa_stat"
    file.write_text("total=134217728 N0=18446744073575333888 N1=268435456\n")
    report = build(Observer.of(Host.under(tree)).observe())
    (dpdk,) = (one for one in report.containers if one.path == DPDK)
    assert dpdk.resident is not None
    assert {one.hugetlb for one in dpdk.resident} == {None}
    assert sum(one.anon or 0 for one in dpdk.resident) > 0
    assert [one.what for one in dpdk.unknown if "miscounts huge pages" in one.reason] == ["hugetlb"]
    (above,) = (one for one in report.containers if one.path == "/docker")
    assert {one.hugetlb for one in above.resident or ()} == {None}


def test_huge_pages_on_a_node_where_fewer_are_in_use_are_not_known(fixtures: Path, tmp_path: Path) -> None:
    """Linux 6.1 goes on counting pages that were moved on the node that they left, where they are free again."""
    tree = shutil.copytree(fixtures / "huge-pages", tmp_path / "tree")
    pool = tree / "sys/devices/system/node/node0/hugepages/hugepages-2048kB"
    (pool / "free_hugepages").write_text((pool / "nr_hugepages").read_text())
    report = build(Observer.of(Host.under(tree)).observe())
    (dpdk,) = (one for one in report.containers if one.path == DPDK)
    assert {one.hugetlb for one in dpdk.resident or ()} == {None}
    assert [one.what for one in dpdk.unknown if "miscounts huge pages" in one.reason] == ["hugetlb"]


def test_processes_of_another_pid_namespace_are_counted_and_not_read(fixtures: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(fixtures / "huge-pages", tmp_path / "tree")
    (tree / f"sys/fs/cgroup{DPDK}/cgroup.procs").write_text("0\n0\n")
    found, ids, skipped = _mappings(Host.under(tree), 60)
    assert (found[ids[DPDK]].processes_read, found[ids[DPDK]].processes, skipped.failed) == (0, 2, 2)
    assert skipped.reason is not None
    assert skipped.reason.startswith("processes are in another PID namespace; run in the host's")


def _resident(host: Host) -> dict[str, Resident]:
    reader, census = _census_of(host)
    found, _, _ = Residency(reader).collect(census, SkippedItems())
    return {container.path: found[container.id] for container in census.containers if container.id in found}


# How a failure is reported


def test_a_collector_that_works_is_ok_and_timed() -> None:
    run = CollectorRun()
    assert run("answer", lambda _: 42, 0) == 42
    (outcome,) = run.outcomes
    assert (outcome.source, outcome.state, outcome.reason, outcome.skipped) == ("answer", "ok", None, 0)
    assert outcome.seconds is not None


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (Unavailable("no PMU on this host"), "unavailable", "no PMU on this host"),
        (ParseError("not a list"), "failed", "not a list"),
        (OSError(errno.EIO, os.strerror(errno.EIO), "/sys/x"), "failed", "cannot read /sys/x: Input/output error"),
    ],
)
def test_a_collector_that_fails_gives_its_default_and_its_reason(error: Exception, state: str, reason: str) -> None:
    def fail(_: SkippedItems) -> int:
        raise error

    run = CollectorRun()
    assert run("broken", fail, -1) == -1
    assert run("next", lambda _: 1, 0) == 1
    assert (run.outcomes[0].state, run.outcomes[0].reason) == (state, reason)
    assert run.outcomes[1].state == "ok"


def test_a_mistake_of_our_own_stops_no_other_collector_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    run = CollectorRun()
    assert run("bug", lambda _: len(None), 7) == 7  # type: ignore[arg-type]
    assert run.outcomes[0].state == "failed"
    assert (run.outcomes[0].reason or "").startswith("internal error: TypeError: ")
    assert "internal error in the collector bug" in caplog.text


def test_what_vanished_is_normal_and_what_failed_has_its_first_reason() -> None:
    def skip(skipped: SkippedItems) -> int:
        for code in (errno.ENOENT, errno.ENODEV, errno.ESRCH):
            skipped.count(OSError(code, os.strerror(code)))
        skipped.count(ParseError("first"))
        skipped.count(ParseError("second"))
        return 0

    run = CollectorRun()
    run("groups", skip, 0)
    assert run.outcomes == [CollectorOutcome("groups", "partial", "first", run.outcomes[0].seconds, 5)]


def test_a_missing_right_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    error = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/proc/1/numa_maps")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert explain(error) == "cannot read /proc/1/numa_maps: Permission denied; run as root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert explain(error).endswith("; refused even to root (a container, or a security module)")


# Reading files


def test_a_file_up_to_the_limit_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for size in (0, 1, 16383, 16384, 16385, 3 << 20):
        file.write_bytes(b"x" * size)
        assert read_bytes(file, limit=3 << 20) == b"x" * size
    with pytest.raises(OSError, match=r"file is larger than 4096 bytes"):
        read_bytes(file, limit=4096)


def test_bytes_that_are_no_utf8_become_the_replacement_character(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xffb\xc3\xa9")
    assert read_text(tmp_path / "file") == "a\ufffdb\u00e9"
