"""Asking the kubelet over HTTP, or reading what it answered when a tree was captured.

The rights that are needed are `get` on nodes/pods, nodes/configz and nodes/metrics (fine-grained
kubelet authorization, KEP-2862). nodes/proxy would do, too, but it also allows to run commands in
every container: it is not asked for.
"""

from __future__ import annotations

import http.client
import math
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from numaudit import __version__
from numaudit.errors import InputError, Unavailable, without_password
from numaudit.kernel.files import may_use
from numaudit.kernel.host import Host, explain, may_exist, read_bytes
from numaudit.kubelet.sources.podresources import IN_A_TICK as RESOURCES_IN_A_TICK
from numaudit.kubelet.sources.podresources import Client
from numaudit.kubelet.sources.podresources import socket as podresources_socket
from numaudit.kubelet.sources.polled import time_left
from numaudit.net import target
from numaudit.net.connection import Connection
from numaudit.net.target import target_of

DEADLINE = 10.0
"""Seconds for one answer to a verb: the kubelet of a busy node takes some."""
_IN_A_TICK = 3.0
"""Seconds for one answer: to connect, for TLS, its head and its body, however slowly they drip in."""

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
LARGEST_ANSWER = 64 << 20
"""Bytes of any answer, unpacked: some ten times those of a large node."""
_RIGHTS = {"/pods": "nodes/pods", "/configz": "nodes/configz", "/metrics": "nodes/metrics"}


class NotPermitted(Unavailable):
    """The kubelet is there, and refuses to answer: status 401 or 403."""


class NoToken(Unavailable):
    """The kubelet's read-only port is closed, and there is no token for the secure one."""


class KubeletAnswers(Protocol):
    """Answers of a kubelet. Each raises Unavailable with the reason."""

    def pods(self) -> bytes:
        """A v1 PodList in JSON."""

    def configz(self) -> bytes:
        """{"kubeletconfig": {...}}"""

    def metrics(self) -> bytes:
        """Prometheus text."""

    def podresources(self) -> bytes:
        """Of List."""

    def allocatable(self) -> bytes | None:
        """Of GetAllocatableResources; None where the kubelet does not know it."""


class RecordedKubelet(Struct, frozen=True):
    """The answers in a captured tree."""

    folder: Path

    def pods(self) -> bytes:
        return self._read("pods.json")

    def configz(self) -> bytes:
        return self._read("configz.json")

    def metrics(self) -> bytes:
        return self._read("kubelet-metrics.txt")

    def podresources(self) -> bytes:
        return self._read("podresources-list.pb")

    def allocatable(self) -> bytes | None:
        return self._read("podresources-allocatable.pb")

    def _read(self, name: str) -> bytes:
        try:
            return read_bytes(self.folder / name, LARGEST_ANSWER)
        except FileNotFoundError:
            raise Unavailable(f"the captured tree has no {self.folder.name}/{name}") from None
        except OSError as error:
            raise Unavailable(f"cannot read {self.folder.name}/{name}: {error.strerror or error}") from None


class Endpoint(Struct, frozen=True):
    """Address of the kubelet's API, and the credentials that it asks for."""

    url: str
    """http://127.0.0.1:10255 or https://127.0.0.1:10250"""
    token_file: Path | None = None
    """Read for every request, since tokens are renewed."""
    ca_file: Path | None = None
    """Authorities that signed the kubelet's certificate. None = the system's authorities."""
    check_name: bool = True
    """Must the certificate name the URL's host?"""


def given_endpoint(host: Host) -> Endpoint | None:
    """The kubelet at the address that the settings give; None = find it by its own settings."""
    given = host.connection
    if given.url is None:
        return None
    url = given.url.rstrip("/")
    if not url.startswith("https:"):
        return Endpoint(url, given.token_file)
    token = given.token_file or host.at(f"{_ACCOUNT}/token")
    return Endpoint(url, token, given.ca_file) if given.ca_file else Endpoint(url, token, *_authority(host))


def find_endpoint(host: Host, config: Mapping[str, object] | None) -> Endpoint:
    """The kubelet of this host by its settings (fields of a KubeletConfiguration; None = not known).

    The read-only port when it is open, else the secure port with the service account's token.
    Raises NoToken when there is neither.
    """
    config = config or {}
    address = config.get("address")
    name = address if isinstance(address, str) and address not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
    name = f"[{name}]" if ":" in name else name
    read_only = config.get("readOnlyPort")
    if isinstance(read_only, int) and read_only > 0:
        return Endpoint(f"http://{name}:{read_only}")
    port = config.get("port")
    url = f"https://{name}:{port if isinstance(port, int) and port > 0 else 10250}"
    token = host.at(f"{_ACCOUNT}/token")
    if not may_exist(token):
        raise NoToken(
            "the kubelet's read-only port is closed and there is no token for its secure port; "
            "run as a pod with a service account that may get nodes/pods, nodes/configz and nodes/metrics"
        )
    return Endpoint(url, token, *_authority(host))


def _authority(host: Host) -> tuple[Path, bool]:
    """Return the authorities that signed the certificate of this host's kubelet, and True when it names the kubelet's
    address.

    One that the kubelet signed itself names the host as it was called then (cmd/kubelet/app/server.go). It stays
    there when the cluster signs others later (serverTLSBootstrap, pkg/kubelet/certificate/kubelet.go).
    """
    folder = host.kubelet / "pki"
    own = folder / "kubelet.crt"
    if may_use(own, os.R_OK) and not may_exist(folder / "kubelet-server-current.pem"):
        return own, False
    return host.at(f"{_ACCOUNT}/ca.crt"), True


class LiveKubelet(Struct):
    """The running kubelet. Keeps its connection; makes a new one after a failure."""

    host: Host
    resources: Client
    config: Mapping[str, object] | None = None
    """Its settings as far as they are known; they say where it listens."""
    endpoint: Endpoint | None = None
    """None = find it by the settings."""
    deadline: float = DEADLINE
    largest: int = LARGEST_ANSWER
    until: float = math.inf
    """By the monotonic clock: no answer is waited for any longer."""
    _connection: Connection | None = None
    _connected_to: Endpoint | None = None

    @classmethod
    def of(cls, host: Host, config: Mapping[str, object] | None = None) -> LiveKubelet:
        """The kubelet of this host, at the address that the settings give if they do."""
        return cls(host, Client(podresources_socket(host)), config, given_endpoint(host))

    def move(self, host: Host) -> None:
        """The kubelet's folder is another: so are its socket and the authority of its certificate."""
        self.close()
        resources = Client(podresources_socket(host))
        resources.deadline = self.resources.deadline
        self.host, self.resources, self.endpoint = host, resources, given_endpoint(host)

    def hurry(self) -> None:
        """Wait for each answer only as long as a tick can: the next one asks again."""
        self.deadline, self.resources.deadline = _IN_A_TICK, RESOURCES_IN_A_TICK

    def pods(self) -> bytes:
        return self._get("/pods")

    def configz(self) -> bytes:
        return self._get("/configz")

    def metrics(self) -> bytes:
        return self._get("/metrics")

    def podresources(self) -> bytes:
        return self.resources.list(self.until)

    def allocatable(self) -> bytes | None:
        return self.resources.allocatable(self.until)

    def close(self) -> None:
        self.resources.close()
        self._disconnect()

    def _get(self, path: str) -> bytes:
        endpoint = self.endpoint or find_endpoint(self.host, self.config)
        where = without_password(f"{endpoint.url}{path}")
        seconds = time_left(self.deadline, self.until)
        try:
            answer = self._connect(endpoint, seconds).get(path, _headers(endpoint), self.largest)
            if answer.status != http.client.OK:
                error = NotPermitted if answer.status in (401, 403) else Unavailable
                raise error(f"{where}: {_refusal(answer.status, path)}")
            return answer.unpacked(self.largest)
        except TimeoutError:
            self._disconnect()
            raise Unavailable(f"{where}: no complete answer within {seconds:.2g} s") from None
        except (OSError, http.client.HTTPException, InputError, ValueError) as error:
            self._disconnect()
            raise Unavailable(f"{where}: {_words(error)}") from None

    def _connect(self, endpoint: Endpoint, seconds: float) -> Connection:
        """For one request. Raises OSError, HTTPException, and ValueError for a URL that is none."""
        if self._connection is None or self._connected_to != endpoint:
            self._disconnect()
            url = urlsplit(endpoint.url)
            target = target_of(url, url.path, {"User-Agent": f"numaudit/{__version__}"}, _verification(endpoint))
            self._connection, self._connected_to = Connection(target, seconds), endpoint
        self._connection.end_within(seconds)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _words(error: Exception) -> str:
    """Of an error that names a file, such as the token's, in whose words; else those of the connection."""
    if isinstance(error, OSError) and error.filename is not None:
        return explain(error)
    return without_password(str(error)) or type(error).__name__


def _headers(endpoint: Endpoint) -> dict[str, str]:
    if endpoint.token_file is None:
        return {}
    return {"Authorization": f"Bearer {target.read_text(endpoint.token_file).strip()}"}


def _verification(endpoint: Endpoint) -> ssl.SSLContext | None:
    """None = plain HTTP."""
    if not endpoint.url.startswith("https:"):
        return None
    context = target.tls_context(endpoint.ca_file)
    context.check_hostname = endpoint.check_name
    return context


def _refusal(status: int, path: str) -> str:
    if status == 401:
        return "401: the kubelet does not accept the token"
    if status == 403:
        return f"403: this service account may not get {_RIGHTS.get(path, path)}"
    return f"the kubelet answered with status {status}"
