"""Nodes, pods and agents of a cluster, as the API server lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode

from msgspec import Struct, field

from numaudit.errors import InputError, Unavailable, nearest
from numaudit.kubectl.api import Api, Forbidden, NotFound
from numaudit.kubectl.objects import Node, NodeList, Pod, PodList
from numaudit.topology.quantity import some_of

AGENTS = "app.kubernetes.io/name=numaudit"
"""The label of the agents' pods, as in deploy/base."""
_AT_ONCE = 500
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_MIRROR = "kubernetes.io/config.mirror"
_DEFAULT_PORT = 9746


class AgentPod(Struct, frozen=True):
    """The pod of one agent."""

    node: str
    namespace: str
    pod: str
    container: str
    image: str
    port: int
    is_https: bool
    is_ready: bool
    since: str
    """RFC 3339."""
    problem: str | None
    """Reason why it cannot be asked; None = its container runs."""

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.pod}"

    @property
    def address(self) -> str:
        """The path of its pages at the API server."""
        scheme = "https:" if self.is_https else ""
        return f"/api/v1/namespaces/{self.namespace}/pods/{scheme}{self.pod}:{self.port}/proxy"


class AgentPods(Struct, frozen=True):
    """One agent for each node that has any."""

    by_node: Mapping[str, AgentPod]
    notices: tuple[str, ...] = ()

    @property
    def image(self) -> str | None:
        """The image that most of them run."""
        images = [one.image for one in self.by_node.values() if one.image]
        return max(sorted(set(images)), key=images.count) if images else None


class FoundPod(Struct, frozen=True):
    """A pod with its node, and what of its name is left: the container."""

    pod: Pod
    container: str | None = None
    notices: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """As the agent finds it: pod, or pod/container."""
        own = self.pod.metadata.name
        return own if self.container is None else f"{own}/{self.container}"

    @property
    def node(self) -> str:
        """Raises Unavailable when it is on none."""
        if self.pod.spec.node_name:
            return self.pod.spec.node_name
        status = self.pod.status
        said = [
            one.message
            for one in status.conditions or ()
            if one.type == "PodScheduled" and one.status == "False" and one.message
        ]
        why = f": {said[0]}" if said else ""
        raise Unavailable(
            f"pod {self.pod.full_name} is {status.phase or 'Pending'} and on no node yet{why}; "
            "`kubectl numaudit fit -f FILE` says where the kubelet would admit it"
        )


def rule(resource: str, *verbs: str, where: str | None = None) -> str:
    """A rule of a Role, in words that can be copied."""
    place = f" in namespace {where}" if where else " in a ClusterRole"
    return f'{{apiGroups: [""], resources: [{resource}], verbs: [{", ".join(verbs)}]}}{place}'


def find_agents(api: Api, namespace: str) -> AgentPods:
    """Raises Forbidden and Unavailable."""
    path = f"/api/v1/namespaces/{quote(namespace)}/pods"
    pods = _pods(api, path, rule("pods", "get", "list", where=namespace), labelSelector=AGENTS)
    best: dict[str, AgentPod] = {}
    several: dict[str, None] = {}
    for one in sorted(map(_agent, pods), key=_preference):
        if not one.node:
            continue
        if best.setdefault(one.node, one) is not one and one.problem is None:
            several[one.node] = None
    notices = [
        f"several agents run on {node}, and {best[node].name} is asked: it is ready or the newest" for node in several
    ]
    return AgentPods(best, tuple(notices))


def _preference(one: AgentPod) -> tuple[bool, bool, list[int], str]:
    return one.problem is not None, not one.is_ready, [-ord(letter) for letter in one.since], one.pod


def _agent(pod: Pod) -> AgentPod:
    containers = pod.spec.containers
    own = next((one for one in containers if any(port.name == "http" for port in one.ports or ())), None)
    own = own or next((one for one in containers if one.name == "agent"), containers[0] if containers else None)
    status = next((one for one in pod.status.container_statuses or () if own and one.name == own.name), None)
    probe = None if own is None or own.liveness_probe is None else own.liveness_probe.http_get
    ports = [] if own is None else [one.container_port for one in own.ports or () if one.name == "http"]
    return AgentPod(
        node=pod.spec.node_name,
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        container="" if own is None else own.name,
        image="" if own is None else own.image,
        port=ports[0] if ports else _DEFAULT_PORT,
        is_https=probe is not None and probe.scheme == "HTTPS",
        is_ready=status is not None and status.ready,
        since=pod.metadata.creation_timestamp or "",
        problem=_why_it_does_not_run(pod, own is None or status is None or status.state.running is None),
    )


def _why_it_does_not_run(pod: Pod, is_still: bool) -> str | None:
    if not is_still:
        return None
    for one in pod.status.container_statuses or ():
        reason = one.state.waiting or one.state.terminated
        if reason is not None:
            return f"its agent does not run: {reason.reason or pod.status.phase}"
    return f"its agent does not run: the pod is {pod.status.reason or pod.status.phase or 'Pending'}"


def list_nodes(api: Api) -> list[Node] | None:
    """All Linux nodes, by name; None = whoever asks may not list nodes. Raises Unavailable."""
    found: list[Node] = []
    page = ""
    while True:
        query = urlencode({"limit": _AT_ONCE, **({"continue": page} if page else {})})
        try:
            part = api.object(f"/api/v1/nodes?{query}", NodeList, rule("nodes", "list"), {"Accept": _METADATA_ONLY})
        except Forbidden:
            return None
        found += [one for one in part.items or () if one.is_linux]
        page = part.metadata.next_page
        if not page:
            return sorted(found, key=lambda one: one.metadata.name)


def find_pod(api: Api, name: str, namespace: str, everywhere: bool) -> FoundPod:
    """POD, POD/CONTAINER, NAMESPACE/POD or NAMESPACE/POD/CONTAINER.

    Raises InputError when there is none, or several; Forbidden and Unavailable.
    """
    parts = name.split("/")
    if len(parts) > 3 or not all(parts):
        raise InputError(f"{name!r} is no POD, POD/CONTAINER or NAMESPACE/POD/CONTAINER")
    if everywhere:
        return _anywhere(api, parts)
    if len(parts) == 3:
        return FoundPod(_one(api, parts[0], parts[1]), parts[2])
    try:
        return FoundPod(_one(api, namespace, parts[0]), parts[1] if len(parts) == 2 else None)
    except InputError:
        if len(parts) == 1:
            raise
        return FoundPod(_one(api, parts[0], parts[1]))


def _one(api: Api, namespace: str, name: str) -> Pod:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    try:
        return api.object(f"{path}/{quote(name, safe='')}", Pod, rule("pods", "get", where=namespace))
    except NotFound:
        pass
    try:
        pods = list(_pods(api, path, rule("pods", "list", where=namespace)))
    except Forbidden:
        pods = []
    static = [
        one
        for one in pods
        if one.metadata.name == f"{name}-{one.spec.node_name}" and _MIRROR in (one.metadata.annotations or {})
    ]
    if len(static) == 1:
        return static[0]
    if static:
        raise InputError(_ambiguous(name, static, "give one with its node's name"))
    but = "; -n or -A names another namespace"
    raise InputError(f"no pod {name!r} in namespace {namespace}{nearest(name, [o.metadata.name for o in pods], but)}")


def _anywhere(api: Api, parts: Sequence[str]) -> FoundPod:
    """In all namespaces the name has none of its own."""
    if len(parts) > 2:
        raise InputError("a namespace and -A exclude each other: leave out one")
    selector = f"metadata.name={parts[0]}"
    pods = list(_pods(api, "/api/v1/pods", rule("pods", "list"), fieldSelector=selector))
    if len(pods) > 1:
        raise InputError(_ambiguous(parts[0], pods, "-n names one"))
    if not pods:
        raise InputError(f"no pod {parts[0]!r} in any namespace; of a static pod the name ends in its node's")
    return FoundPod(pods[0], parts[1] if len(parts) == 2 else None)


def _ambiguous(name: str, pods: Sequence[Pod], remedy: str) -> str:
    names = sorted(one.full_name for one in pods)
    return f"{name!r} is {len(names)} pods: {some_of(names, 5)}; {remedy}"


def _pods(api: Api, path: str, needed: str, **selectors: str) -> Iterator[Pod]:
    page = ""
    while True:
        query = {"limit": str(_AT_ONCE), **selectors, **({"continue": page} if page else {})}
        part = api.object(f"{path}?{urlencode(query)}", PodList, needed)
        yield from part.items or ()
        page = part.metadata.next_page
        if not page:
            return
