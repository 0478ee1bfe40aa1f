"""The parts of Kubernetes objects that decide which agent is asked. Everything else of an object is passed over."""

from __future__ import annotations

from msgspec import Struct, field


class Metadata(Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None


class ListMetadata(Struct, frozen=True):
    next_page: str = field(default="", name="continue")


class Port(Struct, frozen=True, rename="camel"):
    container_port: int
    name: str = ""


class HttpGet(Struct, frozen=True):
    scheme: str = "HTTP"


class HealthProbe(Struct, frozen=True, rename="camel"):
    http_get: HttpGet | None = None


class PodContainer(Struct, frozen=True, rename="camel"):
    name: str
    image: str = ""
    ports: list[Port] | None = None
    liveness_probe: HealthProbe | None = None


class PodSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: list[PodContainer] = []


class Reason(Struct, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""
    exit_code: int | None = None


class ContainerState(Struct, frozen=True):
    waiting: Reason | None = None
    running: Reason | None = None
    terminated: Reason | None = None


class ContainerStatus(Struct, frozen=True):
    name: str
    ready: bool = False
    state: ContainerState = ContainerState()


class Condition(Struct, frozen=True):
    type: str
    status: str = ""
    message: str | None = None


class PodStatus(Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(Struct, frozen=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def full_name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class PodList(Struct, frozen=True):
    items: list[Pod] | None = None
    metadata: ListMetadata = ListMetadata()


class Node(Struct, frozen=True):
    metadata: Metadata

    @property
    def is_linux(self) -> bool:
        return (self.metadata.labels or {}).get("kubernetes.io/os", "linux") == "linux"


class NodeList(Struct, frozen=True):
    items: list[Node] | None = None
    metadata: ListMetadata = ListMetadata()


class Status(Struct, frozen=True):
    """The API server's word on a request that failed."""

    message: str = ""
    kind: str = ""
