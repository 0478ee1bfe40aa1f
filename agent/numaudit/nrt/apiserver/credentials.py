"""Address of the API server, and credentials for it, as lightkube reads them: a kubeconfig, or a pod's service account.

Read for every round of requests, since tokens, certificates and authorities are renewed on disk.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import yaml
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError

from numaudit.errors import InputError, brief, nearest, printable
from numaudit.nrt.apiserver.failures import ApiFailure, Reason


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
