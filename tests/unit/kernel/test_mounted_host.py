"""The running host whose root is mounted in a container, as `kubectl debug node/N` mounts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaudit.kernel import host as host_module
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.origin import origin_of
from numaudit.kubelet.sources.log_follow import JournalLog, live_log


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with a procfs, cgroups and a journal, as a container sees it."""
    monkeypatch.setattr(host_module, "_is_procfs", lambda folder: folder == tmp_path / "proc")
    for name in ("proc", "sys/fs/cgroup/kubepods", "var/log/journal", "etc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset memory hugetlb\n")
    (tmp_path / "etc/hostname").write_text("worker-7\n")
    own = "cgroup2 /sys/fs/cgroup cgroup2 ro 0 0"
    hosts = f"cgroup2 {tmp_path}/sys/fs/cgroup cgroup2 rw 0 0"
    (tmp_path / "proc/mounts").write_text(f"{own}\n{hosts}\n")
    return tmp_path


def test_a_root_with_a_procfs_is_the_running_host_and_what_looks_like_one_is_not(tmp_path: Path) -> None:
    """A tree that somebody hands over must not have the reader's kubelet asked."""
    assert host_module._is_procfs(Path("/proc"))
    (tmp_path / "proc/1234").mkdir(parents=True)
    (tmp_path / "proc/1234/stat").write_text("1234 (numaudit)")
    (tmp_path / "proc/self").symlink_to("1234")
    assert not Host.under(tmp_path).is_live
    (tmp_path / "sys").mkdir()
    (tmp_path / "proc").rename(tmp_path / "away")
    (tmp_path / "proc").symlink_to("/proc")
    assert not Host.under(tmp_path).is_live


def test_a_mounted_procfs_makes_a_root_the_running_host(mounted: Path) -> None:
    assert Host.under(mounted).is_live


def test_a_host_that_is_mounted_at_the_usual_place_is_found(mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "MOUNTED", mounted)
    assert Host.here() == Host(mounted, is_mounted=True)
    (mounted / "sys/fs/cgroup").rename(mounted / "away")
    assert Host.here() == Host()


def test_the_groups_of_the_mounted_host_are_read_and_not_those_of_the_container(mounted: Path) -> None:
    found = find_hierarchies(Host.under(mounted))
    assert (found.mode, found.memory, found.is_whole) == ("v2", mounted / "sys/fs/cgroup", True)


def test_name_and_journal_are_those_of_the_mounted_host(mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("K8S_NODE_NAME", "NODE_NAME"):
        monkeypatch.delenv(name, raising=False)
    host = Host.under(mounted)
    assert origin_of(host).host == "worker-7"
    log = live_log(host)
    assert isinstance(log, JournalLog) and log.folder == mounted / "var/log/journal"
    own = live_log(Host())
    assert isinstance(own, JournalLog) and own.folder is None
