"""Which containers a host has, what they are called, and that every byte is owned once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from hosts.node_tree import NodeTree
from numaudit.containers import cgroup_path
from numaudit.containers.cgroup_path import Lineage
from numaudit.containers.inventory import Census, Inventory, divide
from numaudit.engine.collectors.base import SkippedItems
from numaudit.engine.collectors.containers.residency import Residency
from numaudit.kernel import host as host_module
from numaudit.kernel.cgroup import Cgroup, Hierarchies, Reader, ReadResident, find_hierarchies
from numaudit.kernel.host import Host
from numaudit.snapshot import Container, Resident

CapturedHost = Callable[[str], Host]

ID = "0123456789abcdef" * 4
UID = "01234567-89ab-4cde-8f01-23456789abcd"
NAMES = (
    "kubepods", "kubepods.slice", "burstable", f"pod{UID}", f"kubepods-pod{UID.replace('-', '_')}.slice", ID, "f" * 64,
    f"crio-{ID}.scope", f"crio-conmon-{ID}.scope", f"docker-{ID}.scope", "system.slice", "a.service", "b.scope",
    "user@1000.service", "kubelet", "docker", "x",
)  # fmt: skip


def _census(captured: CapturedHost, name: str) -> Census:
    host = captured(name)
    return Inventory(host, find_hierarchies(host)).take()


def _divided(*paths: str) -> dict[str, Container]:
    groups = [Cgroup(number, path) for number, path in enumerate(("/", *paths), 1)]
    return {container.path: container for container in divide(groups).containers}


# Each cgroup belongs to one container


@st.composite
def _trees(draw: st.DrawFn) -> list[Cgroup]:
    """The groups of a tree, parents first, the root foremost."""
    groups = [Cgroup(1, "/")]
    for _ in range(draw(st.integers(0, 25))):
        parent = draw(st.sampled_from(groups)).path.rstrip("/")
        path = f"{parent}/{draw(st.sampled_from(NAMES))}"
        if all(group.path != path for group in groups):
            groups.append(Cgroup(len(groups) + 1, path))
    return groups


class _Ledger(Reader, frozen=True):
    """A reader of groups with known bytes of their own: it sums as the kernel does."""

    own_bytes: Mapping[str, int] = field(default_factory=dict)

    def read_resident(self, path: str, last: ReadResident | None) -> ReadResident:
        below = [size for one, size in self.own_bytes.items() if f"{one.rstrip('/')}/".startswith(f"{path}/")]
        return ReadResident(0, None, Resident(anon={0: sum(below)}))


_HIERARCHIES = Hierarchies("v2", Path("/"), None, None, None)


@given(_trees())
def test_any_tree_gives_each_group_to_one_container(groups: list[Cgroup]) -> None:
    census = divide(groups)
    owned = [group.id for members in census.groups.values() for group in members]
    assert sorted(owned) == sorted(group.id for group in groups if group.path != "/")
    assert [container.id for container in census.containers] == list(census.groups)
    assert set(census.owner_of()) == set(owned)
    assert all(container.path == census.groups[container.id][0].path for container in census.containers)


@given(_trees(), st.data())
def test_any_tree_counts_each_byte_once(groups: list[Cgroup], data: st.DataObject) -> None:
    own = {group.path: data.draw(st.integers(0, 1000), label=group.path) for group in groups}
    reader = _Ledger(_HIERARCHIES, own_bytes=own)
    census = divide(groups)
    skipped = SkippedItems()
    resident, unattributed, _ = Residency(reader).collect(census, skipped)
    assert (skipped.gone, skipped.failed) == (0, 0)
    for container in census.containers:
        members = sum(own[group.path] for group in census.groups[container.id])
        assert resident[container.id].anon == {0: members}
    assert unattributed is not None
    assert unattributed.anon == {0: own["/"]}


def test_what_a_removed_group_left_behind_is_its_parents() -> None:
    """Page cache stays charged to a group that was removed; only the sums of those above it show that."""
    tracker = _Ledger(_HIERARCHIES, own_bytes={"/": 1, "/jobs": 2, "/jobs/alive": 10, "/jobs/removed": 100})
    census = divide([Cgroup(1, "/"), Cgroup(2, "/jobs"), Cgroup(3, "/jobs/alive")])
    resident, unattributed, _ = Residency(tracker).collect(census, SkippedItems())
    assert {container.path: resident[container.id].anon for container in census.containers} == {
        "/jobs": {0: 102},
        "/jobs/alive": {0: 10},
    }
    assert unattributed is not None
    assert unattributed.anon == {0: 1}


def test_a_kubernetes_container_takes_all_below_it() -> None:
    path = f"/kubepods/pod{UID}/{ID}"
    found = _divided("/kubepods", f"/kubepods/pod{UID}", path, f"{path}/system.slice", f"{path}/system.slice/a.service")
    assert [(one.path, one.kind, one.whole) for one in found.values()] == [
        ("/kubepods", "group", False),
        (f"/kubepods/pod{UID}", "pod", False),
        (path, "container", True),
    ]


def test_a_node_in_a_container_keeps_only_what_is_its_own() -> None:
    outer = f"/docker/{'f' * 64}"
    inner = [f"{outer}/kubelet", f"{outer}/kubelet/kubepods", f"{outer}/kubelet/kubepods/pod{UID}"]
    found = _divided("/docker", outer, *inner, f"{inner[-1]}/{ID}")
    assert not found[outer].whole
    assert found[f"{inner[-1]}/{ID}"].whole
    assert found[f"{inner[-1]}/{ID}"].pod_uid == UID


def test_a_service_is_whole_unless_it_runs_containers() -> None:
    found = _divided("/a.service", "/a.service/worker", "/d.service", f"/d.service/{ID}")
    assert list(found) == ["/a.service", "/d.service", f"/d.service/{ID}"]
    assert [one.whole for one in found.values()] == [True, False, True]


def test_a_users_own_systemd_is_shown_by_its_units() -> None:
    found = _divided("/user@1.service", "/user@1.service/app.slice", "/user@1.service/app.slice/b.service")
    assert [(one.kind, one.whole) for one in found.values()] == [
        ("service", False),
        ("slice", False),
        ("service", True),
    ]


# What they are called


def test_crio_pods_have_names_from_the_log_folders_and_the_mounts(captured: CapturedHost) -> None:
    named = {(c.namespace, c.pod, c.name, c.qos) for c in _census(captured, "systemd-crio").containers if c.name}
    assert named == {
        ("shop", "web-5c9", "nginx", "Guaranteed"),
        ("jobs", "batch-x7k2p", "job", "BestEffort"),
        ("kube-system", "etcd-node1", "etcd", "Burstable"),
    }


def test_the_sandbox_is_kept_apart_from_the_containers_of_its_pod(captured: CapturedHost) -> None:
    sandboxes = [c for c in _census(captured, "systemd-crio").containers if c.kind == "sandbox"]
    assert [(c.pod, c.name, c.container_id) for c in sandboxes] == [("web-5c9", None, "a0" * 32)]


def test_every_container_of_a_real_kubelet_is_named_and_every_sandbox_found(captured: CapturedHost) -> None:
    containers = [c for c in _census(captured, "kubernetes-four-nodes").containers if c.pod_uid]
    assert sorted(c.name or "" for c in containers if c.kind == "container") == ["a", *["app"] * 7, "b", "side"]
    assert sum(c.kind == "sandbox" for c in containers) == sum(c.kind == "pod" for c in containers) == 8


def test_a_container_without_a_readable_process_stays_unnamed(captured: CapturedHost) -> None:
    nested = [c for c in _census(captured, "systemd-crio").containers if c.container_id == "d2" * 32]
    assert [(c.name, c.pod, c.pod_uid) for c in nested] == [(None, None, "44444444-4444-4444-8444-444444444444")]


def test_names_are_looked_up_once_in_a_containers_life(captured: CapturedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = captured("kubernetes-four-nodes")
    inventory = Inventory(host, find_hierarchies(host))
    asked: list[str] = []
    read_bytes = host_module.read_bytes

    def counted(path: str, limit: int = host_module.LARGEST_FILE) -> bytes:
        asked.append(Path(path).name)
        return read_bytes(path, limit)

    monkeypatch.setattr(host_module, "read_bytes", counted)
    first = inventory.take()
    assert asked.count("mountinfo") == 18
    asked.clear()
    assert inventory.take() == first
    assert "mountinfo" not in asked


def test_a_container_is_named_soon_after_its_process_came(tmp_path: Path) -> None:
    group = tmp_path / "sys" / f"kubepods/pod{UID}/{ID}"
    group.mkdir(parents=True)
    inventory = Inventory(Host(tmp_path), Hierarchies("v2", tmp_path / "sys", None, None, None))
    for _ in range(40):
        assert {c.name for c in inventory.take().containers} == {None}
    (group / "cgroup.procs").write_text("7\n")
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/mountinfo").write_text(
        f"1 0 0:1 /pods/{UID}/containers/late/0cd1 /dev/termination-log rw - x x x\n"
    )
    ticks = 0
    while not any(c.name == "late" for c in inventory.take().containers):
        ticks += 1
        assert ticks < 20


def test_a_group_that_comes_again_under_another_path_is_another_container(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    first = tmp_path / "sys" / f"kubepods/pod{UID}/{ID}"
    first.mkdir(parents=True)
    hierarchies = Hierarchies("v2", tmp_path / "sys", None, None, None)
    inventory = Inventory(Host(tmp_path), hierarchies)
    before = {c.path for c in inventory.take().containers}
    first.rename(first.with_name("f" * 64))
    after = {c.path: c.container_id for c in inventory.take().containers}
    assert f"/kubepods/pod{UID}/{ID}" in before
    assert after[f"/kubepods/pod{UID}/{'f' * 64}"] == "f" * 64


def test_a_deep_tree_costs_one_step_for_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may make thousands of groups, each below the last."""
    steps: list[str] = []
    descend = cgroup_path.descend

    def count(above: Lineage, name: str) -> Lineage:
        steps.append(name)
        return descend(above, name)

    monkeypatch.setattr(cgroup_path, "descend", count)
    _divided(*("/a" * depth for depth in range(1, 1901)))
    assert len(steps) == 1900


def test_a_step_of_a_slurm_job_has_all_below_it(captured: CapturedHost) -> None:
    census = _census(captured, "ranks")
    rows = {c.name: (c.kind, c.whole, len(census.groups[c.id])) for c in census.containers if c.runtime == "slurm"}
    assert rows == {"77": ("job", False, 1), "77.0": ("step", True, 4), "77.extern": ("step", True, 1)}
    (scope,) = (c for c in census.containers if c.path == "/system.slice/slurmstepd.scope")
    assert not scope.whole


def test_a_container_that_stays_is_the_very_same_value_when_another_one_comes(tmp_path: Path) -> None:
    """So that nothing of it is compared."""
    tree = NodeTree(tmp_path / "node")
    tree.fill(4)
    host = Host.under(tree.root)
    inventory = Inventory(host, find_hierarchies(host))
    before = {one.path: one for one in inventory.take().containers}
    tree.container(tree.pod("prod", "more"), "c0")
    tree.group(f"{tree.containers()[0]}/new", (0, 0))
    now = {one.path: one for one in inventory.take().containers}
    assert len(now) == len(before) + 2
    assert all(now[path] is one for path, one in before.items())
