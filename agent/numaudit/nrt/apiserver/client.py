"""NodeResourceTopology objects at the API server: read one, and apply fields to one under a field manager's name.

Address and credentials are as lightkube reads them, of a kubeconfig or a pod's service account, for every round of
requests, since tokens, certificates and authorities are renewed on disk.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
import lightkube
import msgspec
import yaml
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError
from lightkube.generic_resource import create_global_resource
from msgspec import Struct, field

from numaudit.errors import InputError, brief, nearest, printable, without_password
from numaudit.nrt.apiserver.failures import ApiFailure, Reason, refused

KIND = "NodeResourceTopology"
API_VERSION = "topology.node.k8s.io/v1alpha2"
RESOURCE = "noderesourcetopologies"
_Resource = create_global_resource("topology.node.k8s.io", "v1alpha2", KIND, RESOURCE)
WHOLE = ("zones", "attributes", "topologyPolicies")
"""Fields that whoever describes the node owns."""
_ERRORS = (
    httpx2.HTTPError, httpx2.InvalidURL, ConfigError, msgspec.MsgspecError, OSError, ValueError, LookupError, TypeError,
)  # fmt: skip
"""Errors of a request, and of a plugin's answer."""
logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each request, and the agent logs what changes
_E = TypeVar("_E", bound=BaseException)


class _Managed(msgspec.Struct, frozen=True):
    manager: str = ""
    fields: dict[str, Any] | None = msgspec.field(name="fieldsV1", default=None)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    annotations: dict[str, str] | None = None
    managed_fields: list[_Managed] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata


class Observed(Struct, frozen=True):
    """An object as the API server has it."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of all writers."""
    whole: Mapping[str, object] = field(default_factory=dict)
    """Those of WHOLE that it has."""
    owners: frozenset[str] = frozenset()
    """Field managers of these."""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Raises ApiFailure for what is no such object."""
        try:
            metadata = msgspec.convert(found, _Object).metadata
        except msgspec.ValidationError as error:
            raise ApiFailure(Reason.BROKEN, f"the API server's {KIND} cannot be understood: {error}") from None
        owners = {
            one.manager
            for one in metadata.managed_fields or ()
            if one.fields is not None and any(f"f:{name}" in one.fields for name in WHOLE)
        }
        whole = {name: found[name] for name in WHOLE if name in found}
        return cls(metadata.annotations or {}, whole, frozenset(owners))


class ApiServer:
    """A client for one round of requests. Each raises ApiFailure."""

    def __init__(self, config: SingleConfig, seconds: float) -> None:
        """`seconds`: for a connection, and for whatever comes next of an answer. Raises ApiFailure."""
        self._server, self._seconds = config.cluster.server, seconds
        try:
            self._client = lightkube.Client(config, timeout=httpx2.Timeout(seconds), trust_env=False)
        except _ERRORS as error:
            words = f"{self._server}: the CA, certificate or key for it cannot be used: {_words(error)}"
            raise ApiFailure(Reason.CREDENTIALS, without_password(words)) from None

    def get(self, name: str) -> Observed | None:
        """None = the cluster has no such object."""
        try:
            with self._asking("GET", name):
                return Observed.of(self._client.get(_Resource, name))
        except ApiFailure as failure:
            if failure.reason is Reason.NO_OBJECT:
                return None
            raise

    def apply(self, name: str, fields: Mapping[str, object], manager: str, *, force: bool) -> Observed:
        """Server-side apply: these fields become the manager's, and those that it had before and are not among them go.

        `force`: fields of others become its own; else a field with another value that another manager owns is refused.
        """
        body = _Resource.from_dict({**fields, "apiVersion": API_VERSION, "kind": KIND})
        with self._asking("PATCH", name):
            return Observed.of(self._client.patch(
                _Resource, name, body, patch_type=lightkube.types.PatchType.APPLY, field_manager=manager, force=force,
            ))  # fmt: skip

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _asking(self, method: str, name: str) -> Iterator[None]:
        what = without_password(f"{method} {self._server}/apis/{API_VERSION}/{RESOURCE}/{name}")
        try:
            yield
        except _ERRORS as error:
            raise _failure_of(error, what, self._seconds) from None


def _failure_of(error: Exception, what: str, seconds: float) -> ApiFailure:
    if (answered := _cause(error, httpx2.HTTPStatusError)) is not None:  # lightkube may fail to read its body
        response = answered.response
        return refused(what, response.status_code, response.headers, response.content)
    if isinstance(error, httpx2.TimeoutException):
        return ApiFailure(Reason.TIMEOUT, f"{what}: no answer within {seconds:g} s")
    if (untrusted := _cause(error, ssl.SSLCertVerificationError)) is not None:
        why = f"{what}: the server's certificate is not trusted: {untrusted.verify_message}"
        return ApiFailure(Reason.CONNECTION, f"{why}; check the CA of the cluster, and this host's clock")
    if isinstance(error, httpx2.RemoteProtocolError):
        return ApiFailure(Reason.BROKEN, f"{what}: {_words(error)}; is it an API server?")
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL)):
        return ApiFailure(Reason.CONNECTION, f"{what}: {_words(error)}")
    if isinstance(error, (msgspec.MsgspecError, TypeError)):
        return ApiFailure(Reason.BROKEN, f"{what}: the answer is no {KIND}: {_words(error)}; is it an API server?")
    return ApiFailure(
        Reason.CREDENTIALS, f"{what}: the kubeconfig's plugin or token gave no credentials: {_words(error)}"
    )


def _cause(error: BaseException | None, kind: type[_E]) -> _E | None:
    """The first error of this kind in the chain of what led to it."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _words(error: Exception) -> str:
    found = _cause(error, OSError)
    return printable(getattr(found, "strerror", None) or str(error) or type(error).__name__)


def find_config(kubeconfig: Path | None, account: str = SERVICE_ACCOUNT) -> SingleConfig:
    """By this kubeconfig; else by $KUBECONFIG, else in a pod by its service account, else by ~/.kube/config.

    Raises InputError for what is wrong in a kubeconfig, and ApiFailure when there are no credentials.
    """
    named = os.environ.get("KUBECONFIG")
    if kubeconfig is None and not named and (Path(account) / "token").exists():
        return _of_account(account)
    path = kubeconfig or Path(named or DEFAULT_KUBECONFIG).expanduser()
    if kubeconfig is None and not path.exists():
        raise ApiFailure(
            Reason.CREDENTIALS,
            f"there are no credentials for the API server: no service account's token, and no file {path}; name a "
            "kubeconfig by $KUBECONFIG",
        )
    return _chosen(_of_file(path), f"kubeconfig {path}")


def _of_account(account: str) -> SingleConfig:
    """As lightkube's `from_service_account`, without the namespace, which deploy/components/nrt does not mount."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        message = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, as in every pod"
        raise ApiFailure(
            Reason.CREDENTIALS, f"{account}/token is there, but {message}; name a kubeconfig by $KUBECONFIG"
        )
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster, user = Cluster(server, certificate_auth=f"{account}/ca.crt"), User(token_file=f"{account}/token")
    return _chosen(KubeConfig.from_one(cluster=cluster, user=user), account)


def _of_file(path: Path) -> KubeConfig:
    name = f"kubeconfig {path}"
    try:
        return KubeConfig.from_file(path)
    except OSError as error:
        raise InputError(f"{name}: cannot read it: {error.strerror or error}; $KUBECONFIG names another") from None
    except ConfigError:
        reason = "it is no regular file" if path.exists() else "there is no such file"
        raise InputError(f"{name}: {reason}; $KUBECONFIG names another") from None
    except KeyError as missing:
        raise InputError(f"{name}: it is no kubeconfig: it has no {missing}; $KUBECONFIG names another") from None
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{name}: it is no kubeconfig: {type(error).__name__}: {printable(str(error))}") from None


def _chosen(whole: KubeConfig, name: str) -> SingleConfig:
    asked = whole.current_context
    if not asked:
        raise InputError(f"{name}: it has no current-context; `kubectl config use-context` sets it")
    if asked not in whole.contexts:
        near = nearest(asked, whole.contexts, "; `kubectl config get-contexts` lists them")
        raise InputError(f"{name}: it has no context {brief(asked)!r}{near}")
    try:
        found = whole.get(asked)
    except KeyError as error:
        raise InputError(f"{name}: context {asked!r} names {error}, which is not in it") from None
    assert found is not None
    return found._replace(user=found.user or User())
