"""Asking the kubelet over HTTP: a server that replays recorded answers, and one that misbehaves."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from kubelets.http import replies, serving
from kubelets.steps import Step
from numaudit.errors import Absent, Unavailable
from numaudit.kernel.host import Host, KubeletConnection
from numaudit.kubelet.sources.client import Endpoint, LiveKubelet, RecordedKubelet, find_endpoint, given_endpoint
from numaudit.kubelet.sources.podresources import Client
from numaudit.kubelet.sources.poller import KubeletPoller

PODS = Step("standalone-single-numa-node/1-running").read("pods.json")
ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"


def live(endpoint: Endpoint, **limits: float) -> LiveKubelet:
    one = LiveKubelet(Host(), Client(Path("/nowhere")), endpoint=endpoint)
    one.deadline = limits.get("deadline", one.deadline)
    one.largest = int(limits.get("largest", one.largest))
    return one


def test_pods_are_read_from_the_read_only_port() -> None:
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        assert request.headers["Authorization"] is None
        replies(PODS)(request)

    with serving(answer) as url:
        kubelet = live(Endpoint(url))
        assert kubelet.pods() == PODS
        assert kubelet.configz() == PODS
        assert kubelet.metrics() == PODS
        kubelet.close()
    assert asked == ["/pods", "/configz", "/metrics"]


def test_a_proxy_for_the_rest_of_the_world_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serving(replies(PODS)) as url:
        kubelet = live(Endpoint(url))
        assert kubelet.pods() == PODS
        kubelet.close()


def test_the_token_is_read_again_for_every_request(tmp_path: Path) -> None:
    seen: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        replies(b"")(request)

    token = tmp_path / "token"
    with serving(answer) as url:
        kubelet = live(Endpoint(url, token))
        for text in ("one\n", "two\n"):
            token.write_text(text)
            kubelet.pods()
        kubelet.close()
    assert seen == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "does not accept the token"),
        (403, "may not get nodes/pods"),
        (404, "status 404"),
        (503, "status 503"),
        (302, "status 302"),
    ],
)
def test_a_refusal_says_what_is_missing(status: int, words: str) -> None:
    with serving(replies(b"", status)) as url:
        kubelet = live(Endpoint(url))
        with pytest.raises(Unavailable, match=words):
            kubelet.pods()
        kubelet.close()


def test_a_kubelet_that_is_gone_is_unavailable_and_is_found_again() -> None:
    with serving(replies(PODS)) as url:
        kubelet = live(Endpoint(url))
        kubelet.pods()
    port = int(url.rpartition(":")[2])
    with pytest.raises(Unavailable, match=url):
        kubelet.pods()
    with serving(replies(b"back"), port):
        assert kubelet.pods() == b"back"
    kubelet.close()


def test_a_silent_kubelet_costs_no_more_than_the_deadline() -> None:
    done = threading.Event()
    with serving(lambda _: (done.wait() and None) or None) as url:
        kubelet = live(Endpoint(url), deadline=0.3)
        try:
            with pytest.raises(Unavailable, match=r"no complete answer within 0\.3 s"):
                kubelet.pods()
        finally:
            done.set()
        kubelet.close()


def test_an_answer_that_drips_in_is_given_up_after_the_deadline() -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        try:
            for _ in range(10**6):
                request.wfile.write(b"x")
                request.wfile.flush()
                time.sleep(0.05)
        except OSError:
            request.close_connection = True

    with serving(drip) as url:
        kubelet = live(Endpoint(url), deadline=0.4)
        with pytest.raises(Unavailable, match=r"no complete answer within 0\.4 s"):
            kubelet.pods()
        kubelet.close()


def test_an_endless_answer_is_given_up_at_the_limit() -> None:
    with serving(replies(b"x" * 100_000)) as url:
        kubelet = live(Endpoint(url), largest=50_000)
        with pytest.raises(Unavailable, match="larger than 50000 bytes"):
            kubelet.pods()
        kubelet.close()


def test_an_answer_that_breaks_off_is_unavailable() -> None:
    def cut(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        request.wfile.write(b"half")
        request.close_connection = True

    with serving(cut) as url:
        kubelet = live(Endpoint(url))
        with pytest.raises(Unavailable, match="/pods"):
            kubelet.pods()
        kubelet.close()


def test_garbage_instead_of_http_is_unavailable() -> None:
    def garbage(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"\x00\x01\x02 no http at all\r\n\r\n")
        request.close_connection = True

    with serving(garbage) as url:
        kubelet = live(Endpoint(url))
        with pytest.raises(Unavailable):
            kubelet.pods()
        kubelet.close()


def test_a_token_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    kubelet = live(Endpoint("http://127.0.0.1:1", tmp_path / "token"))
    with pytest.raises(Unavailable, match="token"):
        kubelet.pods()


def test_a_token_or_an_authority_that_is_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with serving(replies(PODS)) as url:
        for endpoint in (Endpoint(url, token_file=pipe), Endpoint(url.replace("http:", "https:"), ca_file=pipe)):
            with pytest.raises(Unavailable, match=r"cannot read .*/pipe: it is not a regular file"):
                live(endpoint).pods()


def test_the_secure_port_is_read_when_the_kubelets_own_certificate_is_known(fixtures: Path) -> None:
    with serving(replies(PODS), certificate=fixtures / "kubelet-tls") as url:
        kubelet = live(Endpoint(url, ca_file=fixtures / "kubelet-tls/kubelet.crt", check_name=False))
        assert kubelet.pods() == PODS
        kubelet.close()


def test_a_certificate_of_another_name_or_of_an_unknown_issuer_is_not_accepted(fixtures: Path) -> None:
    with serving(replies(PODS), certificate=fixtures / "kubelet-tls") as url:
        for endpoint in (Endpoint(url, ca_file=fixtures / "kubelet-tls/kubelet.crt"), Endpoint(url)):
            kubelet = live(endpoint)
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
                kubelet.pods()


def test_the_read_only_port_comes_first(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert find_endpoint(host, {"readOnlyPort": 10255}) == Endpoint("http://127.0.0.1:10255")
    assert find_endpoint(host, {"readOnlyPort": 1, "address": "fd00::1"}) == Endpoint("http://[fd00::1]:1")
    assert find_endpoint(host, {"readOnlyPort": 1, "address": "0.0.0.0"}).url == "http://127.0.0.1:1"


def test_the_secure_port_needs_a_token(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with pytest.raises(Unavailable, match="no token"):
        find_endpoint(host, None)
    token = tmp_path / ACCOUNT / "token"
    token.parent.mkdir(parents=True)
    token.write_text("t")
    assert find_endpoint(host, {"port": 10999}) == Endpoint("https://127.0.0.1:10999", token, token.parent / "ca.crt")
    own = tmp_path / "var/lib/kubelet/pki/kubelet.crt"
    own.parent.mkdir(parents=True)
    own.write_text("c")
    assert find_endpoint(host, None) == Endpoint("https://127.0.0.1:10250", token, own, check_name=False)


def test_an_address_that_was_given_is_used_as_it_is(tmp_path: Path) -> None:
    assert _given(tmp_path) is None
    assert _given(tmp_path, KubeletConnection("http://10.0.0.1:10255/")) == Endpoint("http://10.0.0.1:10255")
    account = tmp_path / ACCOUNT
    expected = Endpoint("https://10.0.0.1:10250", account / "token", account / "ca.crt")
    assert _given(tmp_path, KubeletConnection("https://10.0.0.1:10250")) == expected
    token, authority = tmp_path / "t", tmp_path / "c"
    expected = Endpoint("https://10.0.0.1:10250", token, authority)
    assert _given(tmp_path, KubeletConnection("https://10.0.0.1:10250", token, authority)) == expected


def _given(root: Path, connection: KubeletConnection = KubeletConnection()) -> Endpoint | None:  # noqa: B008
    return given_endpoint(Host(root, connection=connection))


def test_a_kubelet_that_signed_its_own_certificate_is_known_by_it_at_any_address(tmp_path: Path) -> None:
    """It names the host alone, as it was called then: in a pod the kubelet is asked by the node's address."""
    host, account = Host(tmp_path), tmp_path / ACCOUNT
    own = host.kubelet / "pki/kubelet.crt"
    own.parent.mkdir(parents=True)
    own.write_text("c")
    given = replace(host, connection=KubeletConnection("https://10.0.0.1:10250"))
    assert given_endpoint(given) == Endpoint("https://10.0.0.1:10250", account / "token", own, check_name=False)
    authority = tmp_path / "c"
    named = replace(host, connection=KubeletConnection("https://10.0.0.1:10250", ca_file=authority))
    assert given_endpoint(named) == Endpoint("https://10.0.0.1:10250", account / "token", authority)
    # With serverTLSBootstrap the cluster signs, and an older certificate of the kubelet's own may still lie there.
    (own.parent / "kubelet-server-current.pem").write_text("c")
    expected = Endpoint("https://10.0.0.1:10250", account / "token", account / "ca.crt")
    assert given_endpoint(given) == expected


def test_an_address_that_was_given_is_asked_where_nothing_of_a_kubelet_is_visible(tmp_path: Path) -> None:
    in_force = b'{"kubeletconfig": {"kind": "KubeletConfiguration", "memoryManagerPolicy": "Static"}}'
    bodies = {"/pods": PODS, "/configz": in_force, "/metrics": b""}

    def answer(request: BaseHTTPRequestHandler) -> None:
        replies(bodies[request.path])(request)

    with serving(answer) as url:
        poller = KubeletPoller.of(Host(kubelet_root=str(tmp_path / "none"), connection=KubeletConnection(url)))
        readings = poller.poll(())
        poller.close()
    assert len(readings.pods or {}) > 3
    assert readings.config.memory_manager_policy == "Static"
    states = {one.name: one.state for one in readings.sources}
    assert {states[name] for name in ("kubelet configuration", "pods", "kubelet metrics")} == {"ok"}


def test_without_an_address_a_host_that_shows_no_kubelet_has_none(tmp_path: Path) -> None:
    poller = KubeletPoller.of(Host(kubelet_root=str(tmp_path / "none")))
    with pytest.raises(Absent, match="no kubelet"):
        poller.poll(())
    poller.close()


def test_a_password_in_the_address_is_used_and_never_shown() -> None:
    seen: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        replies(b"", 500)(request)

    with serving(answer) as url:
        kubelet = live(Endpoint(url.replace("http://", "http://me:geheim@")))
        with pytest.raises(Unavailable) as refused:
            kubelet.pods()
    with pytest.raises(Unavailable) as gone:
        kubelet.pods()
    kubelet.close()
    assert seen[0] is not None
    assert seen[0].startswith("Basic ")
    for error in (refused, gone):
        assert "geheim" not in str(error.value)
        assert "http://(hidden)@127.0.0.1" in str(error.value)


def test_what_a_captured_tree_lacks_is_named(tmp_path: Path) -> None:
    recorded = RecordedKubelet(tmp_path / "numaudit")
    for ask in (recorded.pods, recorded.configz, recorded.metrics, recorded.podresources):
        with pytest.raises(Unavailable, match="the captured tree has no numaudit/"):
            ask()
