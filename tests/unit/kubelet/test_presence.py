"""Nobody but the kubelet is the kubelet: no word of another process is followed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from hosts.processes import KUBELET, ROOT_MOUNT, STATUS, process, running_host
from kubelets.http import replies, serving
from numaudit.errors import Absent, Unavailable
from numaudit.kernel.host import Host, KubeletConnection
from numaudit.kubelet.sources import presence, recording
from numaudit.kubelet.sources import process as kubelet_process
from numaudit.kubelet.sources.client import LiveKubelet
from numaudit.kubelet.sources.log_follow import FileLog
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.kubelet.sources.presence import KubeletProcess

TLS = Path(__file__).parents[2] / "fixtures/kubelet-tls"
FAKE = {**KUBELET, "status": STATUS.format(uid=65534, ids="{pid}")}
ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return running_host(tmp_path / "host")


def configure(host: Host, path: str, policy: str) -> None:
    file = host.at(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"kind: KubeletConfiguration\nmemoryManagerPolicy: {policy}\n")


def test_the_hosts_kubelet_is_found_and_not_a_process_before_it(host: Host) -> None:
    process(host.root, 47, FAKE)
    process(host.root, 347)
    process(host.root, 1048, FAKE)
    assert presence.find(host) == KubeletProcess(347, 4711)


def test_two_kubelets_of_the_host_are_both_refused_by_name(host: Host) -> None:
    for pid in (58, 347, 9):
        process(host.root, pid)
    found = presence.find(host)
    assert found.pid is None
    assert found.unseen.startswith("processes 9, 58, 347 are each called kubelet, so none is believed; stop all but")


OWN_MOUNTS = ROOT_MOUNT.replace("22 1 8:1", "99 1 8:1")


def test_of_two_kubelets_the_one_in_the_named_cgroup_is_believed_also_in_a_container(host: Host) -> None:
    """As on Talos, whose kubelet runs in a container of the host."""
    named = replace(host, connection=KubeletConnection(cgroup="/podruntime/kubelet"))
    process(host.root, 347)
    assert presence.find(named).pid is None
    assert "called kubelet but not believed" in presence.find(named).unseen
    process(host.root, 58, {**KUBELET, "cgroup": "0::/podruntime/kubelet\n", "mountinfo": OWN_MOUNTS, "exe": None})
    assert (presence.find(host).pid, presence.find(named).pid) == (347, 58)


@pytest.mark.parametrize(
    "changed",
    [
        {"cgroup": "0::/podruntime/kubelet/x\n"},
        {"cgroup": "0::/kubepods/podruntime/kubelet\n"},
        {"cgroup": "0::/../podruntime/kubelet\n"},
        {"cgroup": "0::/\n"},
        {"cgroup": "4:cpuset:/podruntime/kubelet\n3:memory:/docker/x\n"},
        {"status": STATUS.format(uid=65534, ids="{pid}")},
        {"status": STATUS.format(uid=0, ids="{pid} 1")},
        {"uid_map": "0 100000 65536\n"},
    ],
)
def test_nothing_else_passes_for_the_kubelet_of_the_named_cgroup(changed: dict[str, str], host: Host) -> None:
    named = replace(host, connection=KubeletConnection(cgroup="/podruntime/kubelet"))
    process(host.root, 58, {**KUBELET, "cgroup": "0::/podruntime/kubelet\n", **changed})
    assert presence.find(named).pid is None


def test_the_named_cgroup_is_compared_from_the_hosts_root_as_a_pod_sees_it(host: Host) -> None:
    named = replace(host, connection=KubeletConnection(cgroup="/podruntime/kubelet"))
    (host.root / "proc/1/cgroup").write_text("0::/../../init.scope\n")
    process(host.root, 58, {**KUBELET, "cgroup": "0::/../../podruntime/kubelet\n"})
    process(host.root, 59, {**KUBELET, "cgroup": "0::/podruntime/kubelet\n"})
    process(host.root, 60, {**KUBELET, "cgroup": "0::/../podruntime/kubelet\n"})
    assert presence.find(named).pid == 58


def test_two_kubelets_of_a_capture_are_both_refused(tmp_path: Path) -> None:
    for pid in (9, 10):
        process(tmp_path, pid, {"comm": "kubelet\n"})
    assert presence.find(Host(tmp_path)).pid is None
    assert "processes 9, 10" in presence.find(Host(tmp_path)).unseen


def test_what_is_not_believed_is_named_with_the_reason_and_many_are_counted(host: Host) -> None:
    for pid in range(40, 45):
        process(host.root, pid, FAKE)
    assert presence.find(host).unseen == (
        "called kubelet but not believed to be it: process 40 (it runs as user 65534, not as root), "
        "41 (it runs as user 65534, not as root), 42 (it runs as user 65534, not as root) and 2 others"
    )
    with pytest.raises(Absent, match=r"not believed to be it: process 40 .*, and there is no /var/lib/kubelet"):
        presence.require(host)


def test_another_process_of_the_same_id_is_not_the_same(host: Host) -> None:
    process(host.root, 347)
    found = presence.find(host)
    assert presence.is_there(host, found)
    assert not presence.is_there(host, KubeletProcess(found.pid, 4712))
    shutil.rmtree(host.proc / "347")
    assert not presence.is_there(host, found)


def test_no_word_of_a_process_that_is_not_believed_is_followed(host: Host) -> None:
    configure(host, "/evil.yaml", "Static")
    configure(host, "/var/lib/kubelet/config.yaml", "None")
    process(
        host.root, 48, FAKE, "--config=/evil.yaml --config-dir=/ --root-dir=/evil --read-only-port=18255 --port=18443"
    )
    located = kubelet_process.locate(host)
    assert located.host.kubelet_root == "/var/lib/kubelet"
    assert located.settings is not None
    assert located.settings.config.memory_manager_policy == "None"
    assert {"readOnlyPort", "port"}.isdisjoint(located.settings.config.document or {})
    assert located.settings.reason == (
        "flags are not known: called kubelet but not believed to be it: process 48 (it runs as user 65534, not as "
        "root); only /var/lib/kubelet/config.yaml was read"
    )
    assert kubelet_process.config_files(host) == (host.at("/var/lib/kubelet/config.yaml"),)


def test_without_a_usual_file_the_settings_of_a_process_that_is_not_believed_are_not_known(host: Host) -> None:
    process(host.root, 48, FAKE, "--memory-manager-policy=Static")
    located = kubelet_process.locate(host)
    assert located.settings is None
    assert "process 48 (it runs as user 65534, not as root), and there is no configuration file" in str(located.problem)


@pytest.mark.parametrize("flag", ["--config", "--config-dir", "--root-dir"])
@pytest.mark.parametrize("path", ["/proc/48/root/mnt/r", "/a/../proc/1/root", "/../sys/x", "//dev/shm/r", "/proc"])
def test_a_kubelet_has_no_path_that_may_lead_anywhere(flag: str, path: str, host: Host) -> None:
    process(host.root, 347, arguments=f"{flag}={path}")
    with pytest.raises(Unavailable, match=f"has {flag}={path}, which is not followed"):
        kubelet_process.read_settings(host, presence.find(host))
    assert kubelet_process.locate(host).host.kubelet_root == "/var/lib/kubelet"


def test_a_path_that_only_begins_like_one_of_the_kernels_is_followed(host: Host) -> None:
    process(host.root, 347, arguments="--root-dir=/devices/kubelet")
    assert kubelet_process.locate(host).host.kubelet_root == "/devices/kubelet"


def test_a_link_to_itself_in_a_folder_of_drop_ins_is_not_followed(host: Host) -> None:
    folder = host.at("/etc/k.d")
    folder.mkdir(parents=True)
    (folder / "loop").symlink_to(folder)
    (folder / "folder.conf").mkdir()
    process(host.root, 347, arguments="--config-dir=/etc/k.d")
    assert kubelet_process.read_settings(host, presence.find(host)).reason is None


@pytest.fixture
def poller(host: Host) -> Iterator[KubeletPoller]:
    log = host.at("/kubelet.log")
    log.touch()
    one = KubeletPoller(host, LiveKubelet.of(host), FileLog(log, "kubelet.log"))
    yield one
    one.close()


def test_a_fake_that_waits_for_a_restart_is_never_followed(host: Host, poller: KubeletPoller) -> None:
    configure(host, "/etc/real.yaml", "None")
    configure(host, "/evil.yaml", "Static")
    for folder in ("/data/kubelet", "/var/lib/kubelet", "/evil"):
        host.at(folder).mkdir(parents=True)
    real = "--config=/etc/real.yaml --root-dir=/data/kubelet --read-only-port=1"
    process(host.root, 47, arguments=real)
    process(host.root, 48, FAKE, "--config=/evil.yaml --root-dir=/evil --read-only-port=2")

    def polled() -> tuple[str | None, str, object]:
        poller._next_search = 0.0
        readings = poller.poll(())
        assert isinstance(poller.answers, LiveKubelet)
        assert poller.answers.host == poller.host
        return readings.config.memory_manager_policy, readings.folder, (poller.answers.config or {})["readOnlyPort"]

    assert polled() == ("None", "/data/kubelet", 1)
    shutil.rmtree(host.proc / "47")
    assert polled() == ("None", "/data/kubelet", 1)
    process(host.root, 58, arguments=real)
    assert polled() == ("None", "/data/kubelet", 1)
    shutil.rmtree(host.proc / "58")
    process(host.root, 59, arguments="--config=/etc/real.yaml --read-only-port=3")
    assert polled() == ("None", "/var/lib/kubelet", 3)


@pytest.mark.parametrize(("files", "is_asked"), [(KUBELET, True), (FAKE, False)])
def test_the_token_goes_to_no_server_of_a_process_that_is_not_believed(
    files: dict[str, str], is_asked: bool, host: Host, poller: KubeletPoller
) -> None:
    seen: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        replies(b"{}")(request)

    host.at(f"/{ACCOUNT}").mkdir(parents=True)
    host.at(f"/{ACCOUNT}/token").write_text("hush")
    host.kubelet.mkdir(parents=True)
    shutil.copytree(TLS, host.at("/r/pki"))
    configure(host, "/r/config.yaml", "Static")
    with serving(answer, certificate=TLS) as url:
        port = url.rpartition(":")[2]
        words = f"--root-dir=/r --config=/r/config.yaml --address=127.0.0.1 --port={port}"
        process(host.root, 48, files, words)
        located = kubelet_process.locate(host)
        dict(recording.record(located.host, located.settings))
        poller.poll(())
        poller.close()
    assert seen == (["Bearer hush"] * len(seen) if is_asked else [])
    assert bool(seen) is is_asked
