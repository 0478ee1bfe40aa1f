"""`numaudit doctor` asks the kubelet itself: each page and PodResources, and says which of them it may not have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import grpc
import pytest

from hosts.tree_copies import lent
from kubelets.cluster_history import TREE
from kubelets.http import replies, serving
from made_up.probes import made_up_session
from numaudit.cli.main import call
from numaudit.doctor import checks
from numaudit.doctor.kubelet_answers import NAMES, answer_checks
from numaudit.kernel.host import Host, KubeletConnection
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.probes.session import Session
from numaudit.snapshot import Check

Capture = pytest.CaptureFixture[str]
FILES = {"/pods": "pods.json", "/configz": "configz.json", "/metrics": "kubelet-metrics.txt"}
PAGES = tuple(f"kubelet {path}" for path in FILES)


@dataclass
class Pod:
    """Where numaudit's pod is: a captured node that passes for the live one, and its kubelet."""

    host: Host
    status: dict[str, int] = field(default_factory=dict)
    """Path -> what the kubelet answers with in place of 200."""

    def found(self) -> dict[str, Check]:
        poller = KubeletPoller.of(self.host)
        with closing(poller):
            return {one.name: one for one in answer_checks(poller.poll(()))}


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Pod]:
    with lent(TREE) as root:
        answers = (root / "numaudit").rename(tmp_path / "answers")
        listed = (answers / "podresources-list.pb").read_bytes()
        one = Pod(Host.under(root))

        def answer(request: BaseHTTPRequestHandler) -> None:
            status = one.status.get(request.path, 200)
            body = (answers / FILES[request.path]).read_bytes() if status == 200 else b"Forbidden"
            replies(body, status)(request)

        monkeypatch.setattr(Host, "is_live", property(lambda host: host.root == root))
        socket = root / "var/lib/kubelet/pod-resources/kubelet.sock"
        socket.parent.mkdir()
        (root / "proc/self/ns").mkdir(parents=True, exist_ok=True)
        (root / "proc/self/ns/pid").touch()
        with serving(answer) as url, _podresources(socket, listed):
            one.host = replace(one.host, connection=KubeletConnection(url))
            yield one


class _podresources:  # noqa: N801 (used as a function)
    """A server that answers List on this socket."""

    def __init__(self, socket: Path, answer: bytes) -> None:
        self.server = grpc.server(ThreadPoolExecutor(1))
        handler = grpc.unary_unary_rpc_method_handler(lambda *_: answer, bytes, bytes)
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
        self.server.add_generic_rpc_handlers((service,))
        self.server.add_insecure_port(f"unix:{socket}")

    def __enter__(self) -> None:
        self.server.start()

    def __exit__(self, *_: object) -> None:
        self.server.stop(None).wait()


def test_each_source_that_answers_says_what_it_has(pod: Pod) -> None:
    found = pod.found()
    assert tuple(found) == NAMES
    assert {one.state for one in found.values()} == {"ok"}
    assert found["kubelet /pods"].detail == "20 pods, 7 of them refused"
    assert found["kubelet /configz"].detail == "Memory Manager Static, Topology Manager single-numa-node"
    assert found["kubelet /metrics"].detail.startswith("kubelet v1.36.2, ")
    assert found["podresources"].detail == "v1, 13 pods"


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("status", [401, 403])
def test_a_page_that_is_forbidden_is_named_with_the_status_and_the_right(pod: Pod, path: str, status: int) -> None:
    pod.status = {path: status}
    found = pod.found()
    refused = found.pop(f"kubelet {path}")
    assert (refused.state, refused.reason) == ("missing", "no-permission")
    assert f"{path}: {status}: " in refused.detail
    assert "`get` on nodes/pods, nodes/configz and nodes/metrics" in (refused.hint or "")
    assert {one.state for one in found.values()} == {"ok"}


def test_a_kubelet_that_fails_is_no_matter_of_rights(pod: Pod) -> None:
    pod.status = {"/pods": 500}
    failed = pod.found()["kubelet /pods"]
    assert (failed.state, failed.reason, failed.hint) == ("missing", "unavailable", None)
    assert "the kubelet answered with status 500" in failed.detail


def test_without_a_token_nothing_is_asked_and_nothing_is_wrong(pod: Pod) -> None:
    """As on a node itself, and in a pod without the component api-server."""
    pod.host = replace(pod.host, connection=KubeletConnection())
    found = pod.found()
    assert {found[name].state for name in PAGES} == {"reduced"}
    assert {found[name].reason for name in PAGES} == {"no-token"}
    assert found["podresources"].state == "ok"


def test_an_answer_that_is_none_is_not_understood(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, "/pods", "kubelet-metrics.txt")
    assert pod.found()["kubelet /pods"].reason == "not-understood"


def test_a_host_without_a_kubelet_is_asked_nothing(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "check_sources", lambda _: ())
    monkeypatch.setattr(Session, "open", lambda *_, **__: made_up_session()[1])
    checked = {one.name for one in checks.examine(Host.under(fixtures / "eight-nodes"))}
    assert "kernel" in checked
    assert checked.isdisjoint(NAMES)


@pytest.mark.parametrize(("status", "code"), [({}, 0), ({"/pods": 403}, 1)])
def test_the_exit_code_in_a_pod_is_0_unless_it_lacks_a_right(
    pod: Pod, capsys: Capture, monkeypatch: pytest.MonkeyPatch, status: dict[str, int], code: int
) -> None:
    """What BPF and the hardware give is tried elsewhere: here all of that works."""
    pod.status = status
    defaults = (pod.host.root, *(Host.__init__.__defaults__ or ())[1:])
    monkeypatch.setattr(Host.__init__, "__defaults__", defaults)
    monkeypatch.setenv("NUMAUDIT_KUBELET_URL", pod.host.connection.url or "")
    monkeypatch.setattr(checks, "check_sources", lambda _: (Check("access hint_faults", "ok", ""),))
    monkeypatch.setattr(checks, "probe_checks", lambda _: ())
    monkeypatch.setattr(Session, "open", lambda *_, **__: made_up_session()[1])
    assert call(["doctor", "-o", "json"]) == code
    found = {one["name"]: one["state"] for one in json.loads(capsys.readouterr().out)["checks"]}
    assert [name for name, state in found.items() if state == "missing"] == [f"kubelet {path}" for path in status]
