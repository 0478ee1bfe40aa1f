"""What a cgroup path says, for every driver and runtime."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.containers.cgroup_path import CgroupOwner, parse
from numaudit.snapshot import Kind, Qos

ID = "0123456789abcdef" * 4
UID = "01234567-89ab-4cde-8f01-23456789abcd"
UID_ = UID.replace("-", "_")
STATIC = "8b073ee90e14fb4912c9c3605319c6a7"
SYSTEMD = "/kubepods.slice/kubepods-{0}.slice/kubepods-{0}-pod{1}.slice"


def _container(qos: Qos | None = None, runtime: str | None = None, uid: str | None = UID) -> CgroupOwner:
    return CgroupOwner("container", uid, qos, runtime, ID)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        # the cgroupfs driver
        (f"/kubepods/pod{UID}/{ID}", _container("Guaranteed")),
        (f"/kubepods/burstable/pod{UID}/{ID}", _container("Burstable")),
        (f"/kubepods/besteffort/pod{UID}/{ID}", _container("BestEffort")),
        (f"/kubepods/burstable/pod{UID}/crio-{ID}", _container("Burstable", "cri-o")),
        (f"/custom/root/kubepods/pod{UID}/{ID}", _container("Guaranteed")),
        # the systemd driver
        (f"/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope", _container("Guaranteed", "containerd")),
        (f"{SYSTEMD.format('burstable', UID_)}/cri-containerd-{ID}.scope", _container("Burstable", "containerd")),
        (f"{SYSTEMD.format('besteffort', UID_)}/crio-{ID}.scope", _container("BestEffort", "cri-o")),
        (f"{SYSTEMD.format('besteffort', UID_)}/docker-{ID}.scope", _container("BestEffort", "docker")),
        # containerd and kubelet disagree about the driver: runc joins them with a colon
        (f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}",
         _container("Burstable", "containerd")),
        (f"/kubepods-pod{UID_}.slice:crio:{ID}", _container("Guaranteed", "cri-o")),
        # pods of the node system partition, KEP-5894
        (f"/kubepods/system/pod{UID}/{ID}", _container("Guaranteed")),
        (f"/kubepods/system/besteffort/pod{UID}/{ID}", _container("BestEffort")),
        (f"/kubepods.slice/kubepods-system.slice/kubepods-system-pod{UID_}.slice/crio-{ID}.scope",
         _container("Guaranteed", "cri-o")),
        (f"/kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-pod{UID_}.slice/"
         f"cri-containerd-{ID}.scope", _container("Burstable", "containerd")),
        # static pods have the hash of their manifest as UID
        (f"/kubepods/burstable/pod{STATIC}/{ID}", _container("Burstable", uid=STATIC)),
        (f"{SYSTEMD.format('burstable', STATIC)}/crio-{ID}.scope", _container("Burstable", "cri-o", STATIC)),
        # a whole Kubernetes node in a container
        (f"/docker/{'f' * 64}/kubelet/kubepods/besteffort/pod{UID}/{ID}", _container("BestEffort")),
        (f"/system.slice/docker-{'f' * 64}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
         f"kubelet-kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
         _container("Burstable", "containerd")),
        (f"/kubepods/pod{STATIC}/{'f' * 64}/kubepods/burstable/pod{UID}/{ID}", _container("Burstable")),
    ],
)  # fmt: skip
def test_a_kubernetes_container_has_its_pod_qos_and_id(path: str, place: CgroupOwner) -> None:
    assert parse(path) == place


@pytest.mark.parametrize(
    ("path", "runtime"),
    [
        (f"/docker/{ID}", "docker"),
        (f"/system.slice/docker-{ID}.scope", "docker"),
        (f"/machine.slice/libpod-{ID}.scope", "podman"),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", "podman"),
        (f"/libpod_parent/libpod-{ID}", "podman"),
        (f"/system.slice/nerdctl-{ID}.scope", "containerd"),
        (f"/default/{ID}", "containerd"),
        (f"/k8s.io/{ID}", "containerd"),
        (f"/elsewhere/{ID}", None),
        (f"/{ID}", None),
        (f"/system.slice/unheard-of-{ID}.scope", None),
    ],
)
def test_a_container_without_kubernetes_has_its_runtime_and_id(path: str, runtime: str | None) -> None:
    assert parse(path) == CgroupOwner("container", runtime=runtime, container_id=ID)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"/kubepods/pod{UID}", CgroupOwner("pod", UID, "Guaranteed")),
        (f"/kubepods/burstable/pod{UID}", CgroupOwner("pod", UID, "Burstable")),
        (SYSTEMD.format("besteffort", UID_), CgroupOwner("pod", UID, "BestEffort")),
        (SYSTEMD.format("burstable", STATIC), CgroupOwner("pod", STATIC, "Burstable")),
        (
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice",
            CgroupOwner("pod", UID, "Guaranteed"),
        ),
    ],
)
def test_a_pods_own_group_is_a_pod(path: str, place: CgroupOwner) -> None:
    assert parse(path) == place


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"{SYSTEMD.format('burstable', UID_)}/crio-conmon-{ID}.scope", CgroupOwner("scope", UID, "Burstable")),
        (f"/kubepods/pod{UID}/crio-conmon-{ID}", CgroupOwner("group", UID, "Guaranteed")),
        (f"/machine.slice/libpod-conmon-{ID}.scope", CgroupOwner("scope")),
    ],
)
def test_a_runtimes_monitor_is_no_container(path: str, place: CgroupOwner) -> None:
    assert parse(path) == place


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/system.slice/slurmstepd.scope/job_77", CgroupOwner("job", runtime="slurm", name="77")),
        ("/system.slice/slurmstepd.scope/job_77/step_0", CgroupOwner("step", runtime="slurm", name="77.0")),
        ("/system.slice/n1_slurmstepd.scope/job_7/step_batch", CgroupOwner("step", runtime="slurm", name="7.batch")),
        ("/slurm/uid_1000/job_9/step_extern", CgroupOwner("step", runtime="slurm", name="9.extern")),
        ("/slurm_n1/uid_0/job_9/step_1+2", CgroupOwner("step", runtime="slurm", name="9.1+2")),
        ("/system.slice/slurmstepd.scope/system", CgroupOwner("group")),
        ("/system.slice/slurmstepd.scope/job_77/step_0/user/task_3", CgroupOwner("group")),
        ("/elsewhere/job_77", CgroupOwner("group")),
        ("/elsewhere/step_0", CgroupOwner("group")),
        ("/system.slice/slurmstepd.scope/job_x", CgroupOwner("group")),
    ],
)
def test_jobs_and_steps_of_slurm_have_their_ids(path: str, place: CgroupOwner) -> None:
    assert parse(path) == place


@pytest.mark.parametrize(
    ("below", "kind"), [("system.slice/cron.service", "service"), ("init.scope", "scope"), ("container", "group")]
)
def test_a_group_inside_a_container_knows_its_container(below: str, kind: Kind) -> None:
    assert parse(f"/kubepods/pod{UID}/{ID}/{below}") == CgroupOwner(kind, UID, "Guaranteed", container_id=ID)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "group"),
        ("", "group"),
        ("/kubepods", "group"),
        ("/kubepods.slice", "slice"),
        ("/kubepods.slice/kubepods-besteffort.slice", "slice"),
        ("/kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice", "slice"),
        ("/kubepods/system/burstable", "group"),
        ("/system.slice/sshd.service", "service"),
        ("/system.slice/system-getty.slice/getty@tty1.service", "service"),
        ("/user.slice/user-1000.slice/session-3.scope", "scope"),
        ("/init.scope", "scope"),
        ("/lxc.payload.web", "group"),
        (f"/kubepods/pod{UID[:-1]}", "group"),
        (f"/notkube/pod{UID}", "group"),
        (f"/docker/{ID[:-1]}", "group"),
        (f"/docker/{ID.upper()}", "group"),
    ],
)
def test_what_is_no_container_is_classified_by_its_unit(path: str, kind: Kind) -> None:
    assert parse(path) == CgroupOwner(kind)


_parts = st.sampled_from(
    ["kubepods", "kubepods.slice", "burstable", f"pod{UID}", f"kubepods-pod{UID_}.slice", ID, f"crio-{ID}.scope",
     f"crio-conmon-{ID}.scope", "docker", "a.service", "b.slice", "user@0.service", "..", " ", "\n", ":", "-"]
)  # fmt: skip


@given(
    st.text(max_size=80) | st.lists(_parts | st.text(max_size=8), max_size=7).map(lambda parts: "/" + "/".join(parts))
)
def test_any_path_has_one_place(path: str) -> None:
    place = parse(path)
    assert (place.kind in ("container", "sandbox")) <= (place.container_id is not None)
    assert (place.kind == "pod") <= (place.pod_uid is not None)
    assert (place.qos is None) == (place.pod_uid is None)
