"""An API server for tests: discovery, nodes, pods, exec over WebSocket, pod proxy, logs, RBAC by token, and faults.

It speaks enough for a real kubectl. Whatever a token's rules do not allow is 403, an unknown token is 401.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from clusters import api_objects, api_topologies
from clusters.api_objects import Objects
from clusters.api_topologies import Topologies
from processes.certificates import Authority

Json = dict[str, Any]
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_OUT, _ERR, _STATUS, _CLOSE = 1, 2, 3, 255
_POD = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+)(?P<rest>/.*)?)?"
)


@dataclass(frozen=True)
class Ran:
    """Outcome of a command in a container."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


@dataclass(frozen=True)
class Page:
    """An agent's answer by HTTP."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False
    """The connection breaks in the middle of the body."""


@dataclass(frozen=True)
class Fault:
    """An answer in place of the one that a request would get."""

    status: int = 500
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    is_cut: bool = False
    """The connection breaks in the middle of the body."""
    is_silent: bool = False
    """Nothing comes, for as long as the test runs."""
    drips: float = 0.0
    """Seconds between two bytes of the body."""

    @classmethod
    def of(cls, code: int, reason: str, message: str, **headers: str) -> Fault:
        """As an API server says it."""
        body = json.dumps(api_objects.status(code, reason, message)).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(code, body, {"Content-Type": "application/json", **named})


@dataclass(frozen=True, order=True)
class Right:
    """One rule of RBAC: `namespace` "" = cluster-wide."""

    verb: str
    resource: str
    namespace: str = ""


Execute = Callable[[str, list[str], bytes], Ran]
"""Pod, words and standard input -> outcome."""


@dataclass
class Cluster:
    """The objects, and what runs in them."""

    nodes: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    pages: dict[str, Callable[[], Page]] = field(default_factory=dict)
    """Pod -> its answer to any path of the pod proxy."""
    execute: Execute = lambda *_: Ran(exit_code=127)
    rights: dict[str, set[Right] | None] = field(default_factory=lambda: {"admin": None})
    """Token -> what it allows; None = everything."""
    is_over: threading.Event = field(default_factory=threading.Event)
    used: list[Right] = field(default_factory=list)
    """Rights that were asked for, in order."""
    slow: float = 0.0
    """Seconds before each answer."""
    protocols: tuple[str, ...] = ("v5.channel.k8s.io",)
    spoken: list[str] = field(default_factory=list)
    """Protocols of the WebSockets that were opened."""
    logs: dict[str, bytes] = field(default_factory=dict)
    objects: Objects = field(default_factory=Objects)
    """All else."""
    topologies: Topologies = field(default_factory=Topologies)
    faults: list[Fault] = field(default_factory=list)
    """Of the next requests, one after the other."""
    run_pod: Callable[[Json], Ran] | None = None
    """What a created pod does."""
    decide: Callable[[Json], Json] | None = None
    """A created pod -> its status, as a kubelet decides; None = it ends at once, as `run_pod` says."""

    def add_node(self, name: str, system: str = "linux") -> None:
        self.nodes.append({"metadata": {"name": name, "labels": {"kubernetes.io/os": system}}})

    def add_pod(self, name: str, namespace: str, node: str | None, **more: Json) -> Json:
        """`more`: fields of its metadata, spec and status."""
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-11-23T10:00:00Z"},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
            "status": {"phase": "Running" if node else "Pending"},
        }
        if node:
            pod["spec"]["nodeName"] = node
        for key, value in more.items():
            pod[key] |= value
        self.pods.append(pod)
        return pod

    def add_agent(self, node: str, name: str | None = None, *, ready: bool = True, running: bool = True) -> str:
        """The pod of deploy/base; its name."""
        name = name or f"numaudit-{node.replace('.', '-')}"
        state = {"running": {}} if running else {"waiting": {"reason": "CrashLoopBackOff"}}
        container: Json = {"name": "agent", "image": "registry.example/numaudit:1"}
        container |= {"ports": [{"name": "http", "containerPort": 9746}]}
        pod = self.add_pod(name, "numaudit", node, spec={"containers": [container], "nodeName": node})
        pod["metadata"]["labels"] = {"app.kubernetes.io/name": "numaudit"}
        pod["status"]["containerStatuses"] = [{"name": "agent", "ready": ready, "state": state}]
        return name

    def allow(self, token: str, *rights: Right) -> None:
        self.rights[token] = set(rights)


@dataclass(frozen=True)
class ApiServer:
    """A server that runs."""

    url: str
    cluster: Cluster
    authority: Path

    def kubeconfig(self, folder: Path, token: str = "admin", namespace: str = "default") -> Path:
        """With the contexts `lab` and `other`, whose namespace is `elsewhere`."""
        file = folder / f"kubeconfig-{token}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority": str(self.authority)}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [
                {"name": "lab", "context": {"cluster": "c", "user": "u", "namespace": namespace}},
                {"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "elsewhere"}},
            ],
            "current-context": "lab",
        }
        file.write_text(yaml.safe_dump(config))
        return file


@contextmanager
def serving(cluster: Cluster) -> Iterator[ApiServer]:
    """With TLS, for kubectl sends no token without."""

    class Handler(_Handler):
        of = cluster

    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*authority.issue("localhost", Path(folder)))
        with _served(_Server(("127.0.0.1", 0), Handler), tls) as port:
            yield ApiServer(f"https://127.0.0.1:{port}", cluster, authority.certificate)
            cluster.is_over.set()


@contextmanager
def _served(server: _Server, tls: ssl.SSLContext) -> Iterator[int]:
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is none of ours."""


class _Refused(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of: Cluster

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815 (their own names)

    def _serve(self) -> None:
        self.of.is_over.wait(self.of.slow)
        url = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if self.of.faults:
            return self._fail(self.of.faults.pop(0))
        try:
            self._answer(url.path, parse_qs(url.query, keep_blank_values=True), body)
        except _Refused as why:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": why.code}
            self._json({**status, "reason": why.reason, "message": str(why)}, why.code)

    def _answer(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token not in self.of.rights:
            raise _Refused(401, "Unauthorized", "Unauthorized")
        is_installed = self.of.topologies.is_installed
        if path == "/apis" and is_installed:
            listed = _DISCOVERY[path]
            return self._json({**listed, "groups": [*listed["groups"], api_topologies.group()]})
        if path == f"/apis/{api_topologies.API_VERSION}" and is_installed:
            return self._json(api_topologies.discovered())
        if (known := _DISCOVERY.get(path)) is not None:
            return self._json(known)
        if path == "/api/v1/nodes":
            self._may(token, "list", "nodes")
            return self._list(self.of.nodes, "NodeList", query)
        if path.startswith("/api/v1/nodes/"):
            name = path.rpartition("/")[2]
            self._may(token, "get", "nodes")
            return self._json(self._named(self.of.nodes, name, "nodes") | {"kind": "Node", "apiVersion": "v1"})
        if path == "/api/v1/pods":
            self._may(token, "list", "pods")
            return self._list(_selected(self.of.pods, query), "PodList", query)
        if (topology := self.of.topologies.named(path)) is not None:
            return self._topology(token, unquote(topology), query, body)
        found = _POD.fullmatch(path)
        if found is None and (answer := self.of.objects.answer(self.command, path, body)):
            return self._json(answer[1], answer[0])
        if found is None:
            raise _Refused(404, "NotFound", f"the server could not find {path}")
        return self._pods(token, found, query, body)

    def _topology(self, token: str, name: str, query: dict[str, list[str]], body: bytes) -> None:
        """Read one, apply or patch it."""
        of = self.of.topologies
        if not of.is_installed:
            return self._bytes(b"404 page not found\n", "text/plain; charset=utf-8", 404)
        resource, group = api_topologies.RESOURCE, api_topologies.GROUP
        self._may(token, self.command.lower(), resource, group=group)
        if self.command == "GET":
            code, answer = of.get(name)
            return self._json(answer, code)
        manager = query.get("fieldManager", [""])[0]
        if self.headers.get("Content-Type") == "application/merge-patch+json":
            code, answer = of.merge(name, json.loads(body), manager)
            return self._json(answer, code)
        allowed = self.of.rights[token]
        may_create = allowed is None or Right("create", resource) in allowed
        code, answer = of.apply(name, body, manager, force=query.get("force") == ["true"], may_create=may_create)
        return self._json(answer, code)

    def _fail(self, fault: Fault) -> None:
        if fault.is_silent:
            self.of.is_over.wait(600)
            self.close_connection = True
            return
        self.send_response(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(fault.body) + (1000 if fault.is_cut else 0)))
        self.end_headers()
        for byte in fault.body if fault.drips else ():
            self.wfile.write(bytes([byte]))
            self.of.is_over.wait(fault.drips)
        if not fault.drips:
            self.wfile.write(fault.body)
        self.close_connection = self.close_connection or fault.is_cut

    def _pods(self, token: str, found: re.Match[str], query: dict[str, list[str]], body: bytes) -> None:
        namespace, name, sub = found["namespace"], unquote(found["name"] or ""), found["sub"]
        own = [one for one in self.of.pods if one["metadata"]["namespace"] == namespace]
        if not name and self.command == "POST":
            self._may(token, "create", "pods", namespace)
            return self._create(json.loads(body), namespace)
        if not name:
            self._may(token, "list", "pods", namespace)
            return self._list(_selected(own, query), "PodList", query)
        if sub == "proxy":
            self._may(token, "get", "pods/proxy", namespace)
            return self._page(name.removeprefix("https:").partition(":")[0])
        if sub == "exec":
            self._may(token, "create", "pods/exec", namespace)
            return self._exec(self._named(own, name, "pods")["metadata"]["name"], query)
        if sub == "log":
            self._may(token, "get", "pods/log", namespace)
            return self._bytes(self.of.logs.get(name, b""), "text/plain")
        if self.command == "DELETE":
            self._may(token, "delete", "pods", namespace)
            pod = self._named(own, name, "pods")
            self.of.pods.remove(pod)
            return self._json(pod)
        self._may(token, "get", "pods", namespace)
        return self._json(self._named(own, name, "pods"))

    def _may(self, token: str, verb: str, resource: str, namespace: str = "", group: str = "") -> None:
        right = Right(verb, resource, namespace)
        self.of.used.append(right)
        allowed = self.of.rights[token]
        if allowed is None or right in allowed or Right(verb, resource) in allowed:
            return
        where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
        raise _Refused(
            403,
            "Forbidden",
            f'{resource.partition("/")[0]} is forbidden: User "{token}" cannot {verb} resource "{resource}" in API '
            f'group "{group}"{where}',
        )

    @staticmethod
    def _named(objects: list[Json], name: str, kind: str) -> Json:
        for one in objects:
            if one["metadata"]["name"] == name:
                return one
        raise _Refused(404, "NotFound", f'{kind} "{name}" not found')

    def _create(self, pod: Json, namespace: str) -> None:
        pod["metadata"]["namespace"] = namespace
        prefix = pod["metadata"].pop("generateName", None)
        if prefix is not None:
            pod["metadata"]["name"] = f"{prefix}x{len(self.of.pods)}"
        self.of.pods.append(pod)
        if self.of.decide is not None:
            pod["status"] = self.of.decide(pod)
            return self._json(pod, 201)
        (container,) = pod["spec"]["containers"]
        ran = Ran() if self.of.run_pod is None else self.of.run_pod(pod)
        name = pod["metadata"]["name"]
        self.of.logs[name] = ran.stdout + ran.stderr
        state = {"terminated": {"exitCode": ran.exit_code, "reason": "Completed"}}
        pod["status"] = {
            "phase": "Failed" if ran.exit_code else "Succeeded",
            "containerStatuses": [{"name": container["name"], "ready": False, "state": state}],
        }
        return self._json(pod, 201)

    def _list(self, objects: list[Json], kind: str, query: dict[str, list[str]]) -> None:
        """In pages, as `limit` and `continue` ask for them."""
        begin = int(query.get("continue", ["0"])[0])
        limit = int(query.get("limit", ["0"])[0]) or len(objects)
        left = len(objects) - begin - limit
        metadata = {"continue": str(begin + limit)} if left > 0 else {}
        self._json({"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": objects[begin : begin + limit]})

    def _page(self, pod: str) -> None:
        make = self.of.pages.get(pod)
        if make is None:
            raise _Refused(
                503, "ServiceUnavailable", f"error trying to reach service: dial tcp: {pod}: no route to host"
            )
        page = make()
        self.send_response(page.status)
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(page.body) + (1000 if page.is_cut else 0)))
        self.end_headers()
        self.wfile.write(page.body)
        if page.is_cut:
            self.close_connection = True

    def _json(self, value: Json, status: int = 200) -> None:
        self._bytes(json.dumps(value).encode(), "application/json", status)

    def _bytes(self, body: bytes, content_type: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _exec(self, pod: str, query: dict[str, list[str]]) -> None:
        offered = [one.strip() for one in self.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        protocol = next((one for one in offered if one in self.of.protocols), None)
        if self.headers.get("Upgrade", "").lower() != "websocket" or protocol is None:
            raise _Refused(400, "BadRequest", "unable to upgrade: no WebSocket protocol in common")
        self.of.spoken.append(protocol)
        key = self.headers["Sec-WebSocket-Key"]
        accept = base64.b64encode(hashlib.sha1(f"{key}{_GUID}".encode()).digest()).decode()
        self.send_response(101)
        for name, value in {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept}.items():
            self.send_header(name, value)
        self.send_header("Sec-WebSocket-Protocol", protocol)
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        stdin = self._stdin() if query.get("stdin") == ["true"] else b""
        ran = self.of.execute(pod, query["command"], stdin)
        for channel, data in ((_OUT, ran.stdout), (_ERR, ran.stderr), (_STATUS, json.dumps(_status(ran)).encode())):
            for start in range(0, len(data), 60_000):
                self._frame(bytes([channel]) + data[start : start + 60_000])
        self._send(0x8, b"\x03\xe8")
        self.connection.settimeout(5)
        try:
            while self.connection.recv(65536):
                pass
        except OSError:
            pass

    def _stdin(self) -> bytes:
        """Until its channel is closed, as version 5 can."""
        found = b""
        while True:
            code, data = self._receive()
            if code == 0x9:
                self._send(0xA, data)
            elif code == 0x8 or (data[:1] == bytes([_CLOSE]) and data[1:2] == b"\0"):
                return found
            elif data[:1] == b"\0":
                found += data[1:]

    def _receive(self) -> tuple[int, bytes]:
        head = self.rfile.read(2)
        size = head[1] & 0x7F
        if size >= 126:
            size = int.from_bytes(self.rfile.read(2 if size == 126 else 8), "big")
        mask = self.rfile.read(4)
        return head[0] & 0xF, bytes(one ^ mask[at % 4] for at, one in enumerate(self.rfile.read(size)))

    def _frame(self, data: bytes) -> None:
        self._send(0x2, data)

    def _send(self, code: int, data: bytes) -> None:
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
        self.wfile.write(bytes([0x80 | code]) + size + data)
        self.wfile.flush()


def _status(ran: Ran) -> Json:
    if not ran.exit_code:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(ran.exit_code)}]
    message = f"command terminated with non-zero exit code: exit status {ran.exit_code}"
    return {"status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": {"causes": causes}}


def _selected(pods: list[Json], query: dict[str, list[str]]) -> list[Json]:
    labels = dict(one.split("=") for one in ",".join(query.get("labelSelector", [])).split(",") if one)
    fields = dict(one.split("=") for one in ",".join(query.get("fieldSelector", [])).split(",") if one)
    return [
        one
        for one in pods
        if labels.items() <= one["metadata"].get("labels", {}).items()
        and fields.get("metadata.name", one["metadata"]["name"]) == one["metadata"]["name"]
        and fields.get("spec.nodeName", one["spec"].get("nodeName")) == one["spec"].get("nodeName")
    ]


def _resource(name: str, kind: str, *verbs: str, namespaced: bool = True) -> Json:
    return {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": list(verbs)}


_DISCOVERY: Mapping[str, Json] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": api_objects.groups(),
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            _resource("nodes", "Node", "get", "list", namespaced=False),
            _resource("pods", "Pod", "get", "list", "create", "delete"),
            _resource("pods/exec", "PodExecOptions", "create", "get"),
            _resource("pods/log", "Pod", "get"),
            _resource("pods/proxy", "PodProxyOptions", "get"),
            *dict(api_objects.resources())["/api/v1"],
        ],
    },
    **{
        path: {"kind": "APIResourceList", "groupVersion": path.removeprefix("/apis/"), "resources": listed}
        for path, listed in api_objects.resources()
        if path != "/api/v1"
    },
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.4"},
}


def hanging(cluster: Cluster, seconds: float = 600.0) -> Callable[[], Page]:
    """An agent on a dead node: no answer for as long as the test runs."""

    def wait() -> Page:
        cluster.is_over.wait(seconds)
        return Page(b"", 504)

    return wait


def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
