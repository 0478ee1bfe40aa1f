"""Credentials for the API server: a service account, kubeconfigs, plugins; each wrong one with a clear message."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.api_server import ApiServer as Server
from clusters.api_server import Right
from clusters.api_topologies import RESOURCE
from clusters.topologies import discover
from numaudit.errors import InputError
from numaudit.nrt.apiserver.client import ApiServer, find_config
from numaudit.nrt.apiserver.failures import ApiFailure, Reason
from processes.certificates import Authority

RIGHTS = (Right("get", RESOURCE), Right("patch", RESOURCE))


def ask(kubeconfig: Path | None = None, account: str = "/nowhere") -> None:
    """Read an object. Raises what that raises."""
    client = ApiServer(find_config(kubeconfig, account), 20.0)
    try:
        client.get("node1")
    finally:
        client.close()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Of a process outside of pods, without a kubeconfig."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


@pytest.fixture
def account(server: Server, tmp_path: Path, environment: pytest.MonkeyPatch) -> Path:
    """A pod's, without a namespace, as deploy/components/nrt mounts it."""
    host, port = server.url.removeprefix("https://").split(":")
    environment.setenv("KUBERNETES_SERVICE_HOST", host)
    environment.setenv("KUBERNETES_SERVICE_PORT", port)
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    shutil.copy(server.authority, folder / "ca.crt")
    (folder / "token").write_text("agent\n")
    return folder


def changed(kubeconfig: Path, change: Any) -> Path:  # noqa: ANN401
    config = yaml.safe_load(kubeconfig.read_text())
    change(config)
    kubeconfig.write_text(yaml.safe_dump(config))
    return kubeconfig


def test_a_service_account_needs_no_file_of_its_namespace(account: Path) -> None:
    ask(account=str(account))


def test_a_token_that_was_renewed_is_read_for_the_next_round(server: Server, account: Path) -> None:
    ask(account=str(account))
    del server.cluster.rights["agent"]
    server.cluster.allow("renewed", *RIGHTS)
    with pytest.raises(ApiFailure, match="401: Unauthorized; the token or certificate has expired"):
        ask(account=str(account))
    (account / "token").write_text("renewed\n")
    ask(account=str(account))


def test_an_authority_that_was_renewed_is_read_for_the_next_round(
    server: Server, account: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(Authority(other).certificate, account / "ca.crt")
    with pytest.raises(ApiFailure, match="not trusted"):
        ask(account=str(account))
    shutil.copy(server.authority, account / "ca.crt")
    ask(account=str(account))


def test_a_service_account_outside_a_pod_says_what_is_missing(account: Path, environment: pytest.MonkeyPatch) -> None:
    environment.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(ApiFailure, match="KUBERNETES_SERVICE_HOST"):
        ask(account=str(account))


@pytest.mark.parametrize("content", [b"", b"no certificate\n", None])
def test_an_authority_that_cannot_be_used_is_a_failure_of_credentials(content: bytes | None, account: Path) -> None:
    (account / "ca.crt").unlink()
    if content is not None:
        (account / "ca.crt").write_bytes(content)
    with pytest.raises(ApiFailure) as caught:
        ask(account=str(account))
    assert caught.value.reason is Reason.CREDENTIALS


def test_a_kubeconfig_is_found_as_kubectl_finds_it(
    kubeconfig: Path, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("KUBECONFIG", str(kubeconfig))
    ask()
    environment.delenv("KUBECONFIG")
    (tmp_path / ".kube").mkdir()
    shutil.copy(kubeconfig, tmp_path / ".kube/config")
    ask()


def test_without_credentials_it_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ApiFailure, match=f"no service account's token, and no file {tmp_path}/.kube/config; name a"):
        ask()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is no kubeconfig"),
        ("[]", "it is no kubeconfig"),
        ("a: [", "kubeconfig"),
        ("clusters: 5", "it is no kubeconfig"),
        ("clusters: [5]", "it is no kubeconfig"),
        ("apiVersion: v1", "it is no kubeconfig: it has no 'clusters'"),
        ("{clusters: [], contexts: []}", "it has no current-context; `kubectl config use-context` sets it"),
        ("current-context: [1]", "it is no kubeconfig"),
        ("{current-context: lab, clusters: [], contexts: []}", "it has no context 'lab'"),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: []}",
            "context 'a' names 'c', which is not in it",
        ),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], "
            "clusters: [{name: c, cluster: {}}]}",
            "context 'a' names 'u', which is not in it",
        ),
        ("a: &a [*a]", "kubeconfig"),
    ],
)
def test_a_wrong_kubeconfig_has_a_clear_message(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        ask(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_kubeconfig_that_is_not_there_is_a_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        ask(tmp_path / "nowhere")
    for other in (tmp_path, Path(os.devnull)):
        with pytest.raises(InputError, match="it is no regular file"):
            ask(other)


def test_a_context_that_is_not_there_names_the_nearest(kubeconfig: Path) -> None:
    with pytest.raises(InputError, match="it has no context 'labb'; did you mean lab"):
        ask(changed(kubeconfig, lambda config: config.update({"current-context": "labb"})))


def with_plugin(kubeconfig: Path, script: str, version: str = "v1beta1", **more: object) -> Path:
    plugin = {"apiVersion": f"client.authentication.k8s.io/{version}", "command": "sh", "args": ["-c", script], **more}
    return changed(kubeconfig, lambda config: config["users"].__setitem__(0, {"name": "u", "user": {"exec": plugin}}))


def credential(**status: str) -> str:
    return "echo " + repr(json.dumps({"kind": "ExecCredential", "status": status}))


def test_a_plugin_gives_the_token(kubeconfig: Path) -> None:
    ask(with_plugin(kubeconfig, credential(token="agent")))


@pytest.mark.parametrize(
    ("script", "more", "message"),
    [
        ("echo please log in >&2; exit 3", {}, "returned 3: please log in"),
        ("echo hello", {}, "gave no credentials"),
        ("echo '{}'", {}, "gave no credentials"),
        ("", {"command": "no-such-plugin"}, "No such file or directory"),
        ("", {"version": "v1"}, "api version client.authentication.k8s.io/v1 not implemented"),
    ],
)
def test_a_plugin_that_fails_is_quoted(script: str, more: dict[str, str], message: str, kubeconfig: Path) -> None:
    with pytest.raises(ApiFailure, match=message) as caught:
        ask(with_plugin(kubeconfig, script, **more))
    assert caught.value.reason is Reason.CREDENTIALS
    assert str(caught.value).isprintable()


def test_a_client_certificate_that_was_renewed_in_place_is_used(server: Server, kubeconfig: Path) -> None:
    """As kubelet.conf names one file for certificate and key."""
    folder = kubeconfig.parent
    certificate, key = Authority(folder).issue("node1", folder)
    both = folder / "current.pem"
    user = {"client-certificate": str(both), "client-key": str(both), "token": "agent"}
    changed(kubeconfig, lambda config: config["users"].__setitem__(0, {"name": "u", "user": user}))
    discover(server.cluster.topologies)
    both.write_text("half written")
    with pytest.raises(ApiFailure) as caught:
        ask(kubeconfig)
    assert caught.value.reason is Reason.CREDENTIALS
    both.write_text(certificate.read_text() + key.read_text())
    ask(kubeconfig)
