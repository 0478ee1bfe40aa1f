"""What the kernel says of a process tells one of the host's from one that only says that it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hosts.processes import KUBELET, ROOT_MOUNT, STATUS, process, running_host
from numaudit.containers.host_process import why_not_the_hosts
from numaudit.kernel import files
from numaudit.kernel.host import Host

POD = "kubepods-burstable-pod8ab1c2d3_0000_1111_2222_333344445555.slice"
ID = "ab" * 32


def judged(root: Path, **changed: str | None) -> str | None:
    host = running_host(root)
    process(root, 48, {**KUBELET, **changed})
    return why_not_the_hosts(host, 48)


def test_a_process_of_root_in_inits_namespaces_is_the_hosts(tmp_path: Path) -> None:
    assert judged(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("status", STATUS.format(uid=65534, ids="{pid}"), "it runs as user 65534, not as root"),
        ("status", "Uid:\t1000\t0\t0\t0\nNSpid:\t48\n", "it runs as user 1000, not as root"),
        ("status", "Uid:\t0\t0\t0\t1000\nNSpid:\t48\n", "it runs as user 1000, not as root"),
        ("status", "NSpid:\t48\n", "its user is not known"),
        ("status", STATUS.format(uid=0, ids="{pid}\t1"), "it is in a PID namespace of its own"),
        ("status", "Uid:\t0\t0\t0\t0\n", "it is in a PID namespace of its own"),
        ("uid_map", "0 0 1\n", "it is in a user namespace of its own"),
        ("uid_map", "0 100000 65536\n", "it is in a user namespace of its own"),
        ("mountinfo", ROOT_MOUNT.replace("22 1", "400 399"), "it has another root, or a mount namespace of its own"),
        ("mountinfo", ROOT_MOUNT.splitlines()[1], "it has another root, or a mount namespace of its own"),
        ("mountinfo", "", "it has another root, or a mount namespace of its own"),
    ],
)
def test_a_process_of_another_user_or_namespace_is_not(name: str, text: str, why: str, tmp_path: Path) -> None:
    assert judged(tmp_path, **{name: text}) == why


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods.slice/kubepods-burstable.slice/{POD}/cri-containerd-{ID}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/{POD}/cri-containerd-{ID}.scope/kubelet.service",
        "/kubepods/besteffort",
        "/kubepods.slice/x",
        "/kubelet.slice/kubelet-kubepods.slice/x",
        f"/docker/{ID}/kubelet",
        f"/system.slice/docker-{ID}.scope/system.slice/kubelet.service",
        f"/system.slice/crio-{ID}.scope",
        f"/machine.slice/libpod-{ID}.scope",
        "/machine.slice/machine-guest.scope",
        "/lxc.payload.one/system.slice/kubelet.service",
        "/lxc/one/kubelet.service",
        f"/k8s.io/{ID}",
    ],
)
def test_a_process_in_a_containers_cgroup_is_not(path: str, tmp_path: Path) -> None:
    assert judged(tmp_path, cgroup=f"0::{path}\n") == "it is in a container's cgroup"


@pytest.mark.parametrize(
    "path",
    ["/", "/kubelet", "/runtime.slice/kubelet.service", "/system.slice/kubelet.service/x", "/podruntime/kubelet"],
)
def test_the_groups_of_services_are_the_hosts(path: str, tmp_path: Path) -> None:
    assert judged(tmp_path, cgroup=f"0::{path}\n") is None


def with_init(root: Path, init: Mapping[str, str], **changed: str | None) -> str | None:
    host = running_host(root)
    for name, text in init.items():
        (root / "proc/1" / name).write_text(text)
    process(root, 48, {**KUBELET, **changed})
    return why_not_the_hosts(host, 48)


def test_every_hierarchy_of_version_1_counts(tmp_path: Path) -> None:
    init = {"cgroup": "3:memory:/\n1:name=systemd:/init.scope\n"}
    right = "3:memory:/system.slice/kubelet.service\n1:name=systemd:/system.slice/kubelet.service\n"
    assert with_init(tmp_path / "a", init, cgroup=right) is None
    wrong = right.replace("memory:/system.slice/kubelet.service", f"memory:/docker/{ID}")
    assert with_init(tmp_path / "b", init, cgroup=wrong) == "it is in a container's cgroup"
    assert with_init(tmp_path / "c", init, cgroup=right.splitlines()[0]) == "it is in a container's cgroup"


@pytest.mark.parametrize(
    ("path", "is_hosts"),
    [
        ("/../../../../system.slice/kubelet.service", True),
        ("/", False),
        ("/kubelet.service", False),
        (f"/../cri-containerd-{ID}.scope/kubelet.service", False),
        ("/../../../kubepods-besteffort.slice/x", False),
        (f"/../../../../kubepods.slice/{POD}", False),
    ],
)
def test_paths_are_read_as_a_pods_cgroup_namespace_shows_them(path: str, is_hosts: bool, tmp_path: Path) -> None:
    why = with_init(tmp_path, {"cgroup": "0::/../../../../init.scope\n"}, cgroup=f"0::{path}\n")
    assert (why is None) is is_hosts


def test_a_node_that_is_a_container_has_its_own_kubelet(tmp_path: Path) -> None:
    init = {"cgroup": f"0::/docker/{ID}/init.scope\n"}
    assert with_init(tmp_path / "a", init, cgroup=f"0::/docker/{ID}/system.slice/kubelet.service\n") is None
    nested = f"0::/docker/{ID}/kubepods.slice/{POD}\n"
    assert with_init(tmp_path / "b", init, cgroup=nested) == "it is in a container's cgroup"
    other = f"0::/docker/{'cd' * 32}/system.slice/kubelet.service\n"
    assert with_init(tmp_path / "c", init, cgroup=other) == "it is in a container's cgroup"


@pytest.mark.parametrize("name", ["status", "uid_map", "mountinfo", "cgroup"])
def test_what_cannot_be_read_proves_nothing_on_the_running_host(name: str, tmp_path: Path) -> None:
    assert judged(tmp_path / "a", **{name: None}) == f"/proc/48/{name} cannot be read, so that is not known"
    host = running_host(tmp_path / "b")
    process(host.root, 48)
    (host.root / "proc/1" / name).unlink()
    assert why_not_the_hosts(host, 48) == f"/proc/1/{name} cannot be read, so that is not known"


@pytest.mark.parametrize("name", ["status", "uid_map", "mountinfo", "cgroup"])
def test_a_capture_is_judged_by_what_it_holds(name: str, tmp_path: Path) -> None:
    running_host(tmp_path)
    process(tmp_path, 48, {**KUBELET, name: None})
    process(tmp_path, 49, {**KUBELET, name: None, "status": STATUS.format(uid=1, ids="{pid}")})
    captured = Host(tmp_path)
    assert why_not_the_hosts(captured, 48) is None
    assert why_not_the_hosts(captured, 49) == "it runs as user 1, not as root"


def test_the_executable_is_a_kubelet_that_the_host_still_has(tmp_path: Path) -> None:
    for name in ("sudo", "kubelet-v1.36", "hyperkube"):
        (tmp_path / name).touch()
    host = running_host(tmp_path)
    for pid, (exe, why) in enumerate(
        {
            "sudo": f"its executable is {tmp_path}/sudo",
            "kubelet-v1.36": None,
            "hyperkube": None,
            "kubelet (deleted)": f"its executable is not the host's {tmp_path}/kubelet (deleted)",
        }.items(),
        50,
    ):
        process(tmp_path, pid, {**KUBELET, "exe": exe})
        assert why_not_the_hosts(host, pid) == why
    process(tmp_path, 60, {**KUBELET, "exe": None})
    assert why_not_the_hosts(host, 60) == "it has no executable"


def test_an_executable_of_the_same_path_in_a_container_is_not_the_hosts(tmp_path: Path) -> None:
    host = running_host(tmp_path / "host")
    process(host.root, 48)
    (host.root / str(host.root).lstrip("/")).unlink()
    assert str(why_not_the_hosts(host, 48)).startswith("its executable is not the host's ")


def test_without_the_right_to_see_the_executable_the_login_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> str:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(files, "link_target", refuse)
    assert judged(tmp_path / "a") is None
    assert judged(tmp_path / "b", loginuid="4294967295") is None
    assert judged(tmp_path / "c", loginuid="0") is None
    assert judged(tmp_path / "d", loginuid="1000") == "user 1000 logged in and started it"
