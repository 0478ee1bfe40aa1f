"""Address of the API server, and credentials for it: by a kubeconfig, or the service account of a pod.

Read for every round of requests, since tokens, certificates and authorities are renewed on disk.
"""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User, UserExec
from lightkube.core.exceptions import ConfigError
from msgspec import Struct

from numaudit import yaml_values
from numaudit.apiserver.failures import ApiFailure, Reason
from numaudit.errors import InputError, brief, nearest, printable
from numaudit.net import files

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LIMITS = yaml_values.YamlLimits(size=16 << 20, values=200_000, levels=50)
_PLUGIN_SECONDS = 60.0
_PLUGIN_VERSIONS = tuple(f"client.authentication.k8s.io/{one}" for one in ("v1", "v1beta1"))


class Access(Struct, frozen=True):
    """An API server, and the credentials for it."""

    config: SingleConfig
    where: str
    """Their source, for messages."""
    tls: ssl.SSLContext
    server_name: str | None = None
    """That the server's certificate must have; None = the host of its URL."""


def find_access(
    kubeconfig: Path | None, context: str | None, environment: Mapping[str, str], account: Path = ACCOUNT
) -> Access:
    """By this kubeconfig; else in a pod by its service account, else by $KUBECONFIG or ~/.kube/config.

    Raises InputError for what is wrong in a kubeconfig, and ApiFailure when there are no credentials.
    """
    if kubeconfig is None and context is None and (account / "token").exists():
        return _of_account(account, environment)
    path = kubeconfig or _usual(environment)
    if path is None:
        raise ApiFailure(
            Reason.CREDENTIALS,
            "there are no credentials for the API server: no service account's token, no $KUBECONFIG and no "
            "~/.kube/config; give a file by --kubeconfig",
        )
    return _of_kubeconfig(path, context)


def _of_account(account: Path, environment: Mapping[str, str]) -> Access:
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        message = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, as they are in every pod"
        raise ApiFailure(Reason.CREDENTIALS, f"{account}/token is there, but {message}; give a file by --kubeconfig")
    try:
        token = files.read_text(account / "token").strip()
    except OSError as error:
        raise _unreadable(account / "token", error) from None
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = Cluster(server=server, certificate_auth=str(account / "ca.crt"))
    config = KubeConfig.from_one(cluster=cluster, user=User(token=token)).get()
    assert config is not None
    where = f"the service account in {account}"
    return Access(config, where, _tls(config, where))


def _of_kubeconfig(path: Path, context: str | None) -> Access:
    name = f"kubeconfig {path}"
    try:
        files.check_regular(path)
        body = path.read_bytes()
    except OSError as error:
        raise InputError(f"{name}: cannot read it: {error.strerror or error}; --kubeconfig names another") from None
    values = yaml_values.read(body, name, _LIMITS)
    try:
        # lightkube takes a missing list for an error and null for a list.
        msgspec.convert(values, _Listed)
        given: dict[str, Any] = msgspec.convert(values, dict[str, Any])
        listed = {key: given.get(key) or [] for key in ("clusters", "contexts", "users")}
        whole = KubeConfig.from_dict({**given, **listed}, path)
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise InputError(f"{name}: it is no kubeconfig: {type(error).__name__}: {printable(str(error))}") from None
    config = _chosen(whole, context, name)
    where = f"context {config.context_name} of {path}"
    extra = _extra(listed["clusters"], config.context.cluster)
    if extra.get("proxy-url"):
        raise InputError(f"{name}: its cluster has a proxy-url, and numaudit uses no proxy; name a reachable server")
    user = config.user or User()
    if user.exec is not None:
        user = _of_plugin(user.exec, path, name)
    config = config._replace(user=user)
    server_name = extra.get("tls-server-name")
    return Access(config, where, _tls(config, where), server_name if isinstance(server_name, str) else None)


def _chosen(whole: KubeConfig, context: str | None, name: str) -> SingleConfig:
    asked = context or whole.current_context
    if not asked:
        raise InputError(f"{name}: it has no current-context; choose one by --context")
    if asked not in whole.contexts:
        near = nearest(asked, whole.contexts, "; `kubectl config get-contexts` lists them")
        raise InputError(f"{name}: it has no context {brief(asked)!r}{near}")
    chosen = whole.contexts[asked]
    for kind, wanted, known in (("cluster", chosen.cluster, whole.clusters), ("user", chosen.user, whole.users)):
        if wanted and wanted not in known:
            raise InputError(f"{name}: context {asked!r} names the {kind} {brief(wanted)!r}, which is not in it")
    config = whole.get(asked)
    assert config is not None
    return config


def _extra(clusters: Any, name: str) -> dict[str, Any]:  # noqa: ANN401 (whatever stands in the file)
    """Fields of a cluster that lightkube leaves out."""
    found = [one.get("cluster") for one in clusters if one.get("name") == name]
    return dict(found[0] or {}) if found else {}


def _usual(environment: Mapping[str, str]) -> Path | None:
    """The file that kubectl reads, if it is one."""
    listed = [Path(one) for one in environment.get("KUBECONFIG", "").split(os.pathsep) if one]
    if len(listed) > 1:
        raise InputError("$KUBECONFIG names several files, and numaudit merges none; give one by --kubeconfig")
    if listed:
        return listed[0]
    home = environment.get("HOME")
    usual = Path(home) / ".kube/config" if home else None
    return usual if usual is not None and usual.exists() else None


class _Entry(msgspec.Struct, frozen=True):
    name: str


class _Listed(msgspec.Struct, frozen=True):
    """The form of a kubeconfig as far as lightkube takes it for granted."""

    clusters: list[_Entry] | None = None
    contexts: list[_Entry] | None = None
    users: list[_Entry] | None = None
    current: str | None = msgspec.field(name="current-context", default=None)


class _PluginStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _PluginAnswer(msgspec.Struct, frozen=True):
    """An ExecCredential."""

    status: _PluginStatus


def _of_plugin(plugin: UserExec, kubeconfig: Path, name: str) -> User:
    """A plugin's answer. lightkube knows v1beta1 alone, waits without end and takes no certificate."""
    words = f"{name}: the plugin {brief(plugin.command)!r}"
    if plugin.apiVersion not in _PLUGIN_VERSIONS:
        raise InputError(f"{words} speaks {brief(plugin.apiVersion)}, and {' and '.join(_PLUGIN_VERSIONS)} are known")
    command = str(kubeconfig.parent / plugin.command) if "/" in plugin.command else plugin.command
    asked = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {
        **os.environ,
        **{one.name: one.value for one in plugin.env or ()},
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode(),
    }
    try:
        done = subprocess.run(
            [command, *(plugin.args or ())], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_PLUGIN_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode:
            said = printable(done.stderr.decode("utf-8", "replace").strip()[-300:])
            raise ApiFailure(Reason.CREDENTIALS, f"{words} ended with {done.returncode}: {said}")
        status = msgspec.json.decode(done.stdout, type=_PluginAnswer).status
    except subprocess.TimeoutExpired:
        message = f"{words} did not answer within {_PLUGIN_SECONDS:g} s; log in with it first"
        raise ApiFailure(Reason.CREDENTIALS, message) from None
    except OSError as error:
        hint = f"; {plugin.installHint}" if plugin.installHint else "; install it"
        raise ApiFailure(Reason.CREDENTIALS, f"{words} cannot be started: {error.strerror}{hint}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiFailure(Reason.CREDENTIALS, f"{words} printed no ExecCredential: {error}") from None
    return User(
        token=status.token,
        client_cert_data=_in_base64(status.client_certificate_data),
        client_key_data=_in_base64(status.client_key_data),
    )


def _in_base64(text: str | None) -> str | None:
    return None if text is None else base64.b64encode(text.encode()).decode()


def _tls(config: SingleConfig, where: str) -> ssl.SSLContext:
    """As lightkube makes it, of files that are regular ones."""
    user = config.user or User()
    named = (config.cluster.certificate_auth, user.client_cert, user.client_key)
    path = Path(where)
    try:
        for one in filter(None, named):
            path = Path(config.abs_file(one))
            files.check_regular(path)
        found: ssl.SSLContext = client_adapter.verify_cluster(config.cluster, user, config.abs_file, trust_env=False)
    except ssl.SSLError as error:
        message = f"{where}: its CA, certificate or key cannot be used: {error.reason or error}"
        raise ApiFailure(Reason.CREDENTIALS, message) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    except (ValueError, TypeError) as error:  # base64 that is none, a certificate without its key
        message = f"{where}: its CA, certificate or key cannot be used: {error}"
        raise ApiFailure(Reason.CREDENTIALS, message) from None
    except ConfigError as error:
        raise InputError(f"{where}: {error}") from None
    return found


def _unreadable(path: Path, error: OSError) -> ApiFailure:
    return ApiFailure(Reason.CREDENTIALS, f"cannot read {path}: {error.strerror or error}")
