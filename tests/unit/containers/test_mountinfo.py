"""What a container process's mounts say of its name."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from numaudit.containers.mountinfo import MountFacts, parse
from numaudit.kernel.host import Host

CapturedHost = Callable[[str], Host]
UID = "01234567-89ab-4cde-8f01-23456789abcd"
SANDBOX = "0123456789abcdef" * 4
OTHER = "f" * 64


def _line(root: str, point: str) -> str:
    return f"251 242 0:34 {root} {point} rw,relatime master:2 - tmpfs tmpfs rw\n"


def test_a_real_container_of_containerd_has_its_name_and_sandbox(captured: CapturedHost) -> None:
    uid = "8e193a43d4362c1386fed20b209f1e29"
    text = (captured("kubernetes-four-nodes").proc / "602/mountinfo").read_text()
    sandbox = "8fb633904dac9cd8a1a0332e77a7b12606c3f891c84f9e1f6a0de4b2e5965cfe"
    assert parse(text, uid) == MountFacts("app", sandbox)
    assert parse(text, UID) == MountFacts(None, sandbox)


def test_the_kubelets_folder_may_be_anywhere_or_a_file_system_of_its_own() -> None:
    for root in ("/var/lib/kubelet", "", "/data/k8s/kubelet"):
        line = _line(f"{root}/pods/{UID}/containers/my-app.1/0cd14b1c", "/dev/termination-log")
        assert parse(line, UID).container_name == "my-app.1"


def test_the_sandbox_is_found_for_every_runtime() -> None:
    for root in (
        f"/io.containerd.grpc.v1.cri/sandboxes/{SANDBOX}/hostname",
        f"/containers/storage/overlay-containers/{SANDBOX}/userdata/hostname",
        f"/var/lib/docker/containers/{SANDBOX}/hostname",
    ):
        assert parse(_line(root, "/etc/hostname"), UID).sandbox_id == SANDBOX


def test_two_names_are_no_name() -> None:
    text = "".join(_line(f"/pods/{UID}/containers/{name}/0cd14b1c", f"/mnt/{name}") for name in ("a", "b"))
    assert parse(text, UID) == MountFacts(None, None)


def test_two_sandboxes_are_none() -> None:
    text = _line(f"/sandboxes/{SANDBOX}/hostname", "/etc/hostname") + _line(f"/sandboxes/{OTHER}/hosts", "/etc/hosts")
    assert parse(text, UID).sandbox_id is None


def test_a_folder_that_a_container_mounts_elsewhere_is_no_sandbox() -> None:
    assert parse(_line(f"/containers/{SANDBOX}/hostname", "/host/etc/hostname"), UID).sandbox_id is None


def test_another_pods_folder_gives_no_name() -> None:
    other = UID.replace("0", "1")
    text = _line(f"/pods/{other}/containers/spy/0cd14b1c", "/a") + _line(f"/pods/{UID}/containers/app/0cd1", "/b")
    assert parse(text, UID).container_name == "app"


def test_the_volumes_of_a_pod_are_no_containers() -> None:
    assert parse(_line(f"/pods/{UID}/volumes/kubernetes.io~secret/token", "/var/run"), UID) == MountFacts(None, None)
    assert parse(_line(f"/pods/{UID}/containers/app", "/x"), UID).container_name is None


@given(st.text(max_size=200))
def test_any_mountinfo_text_is_read(text: str) -> None:
    facts = parse(text, UID)
    assert facts.container_name is None or UID in text
