"""A v1 Pod of the kubelet's /pods with the fields that are read here; a capture keeps no others.

Source: k8s.io/api/core/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, field

Name = Annotated[str, Meta(min_length=1)]


class Part(Struct, rename="camel", omit_defaults=True):
    """A part of it."""


class Owner(Part):
    kind: str = ""
    name: str = ""
    controller: bool = False


class Annotations(Part):
    source: str | None = field(name="kubernetes.io/config.source", default=None)
    seen: str | None = field(name="kubernetes.io/config.seen", default=None)
    mirror: str | None = field(name="kubernetes.io/config.mirror", default=None)


class Labels(Part):
    template_hash: str | None = field(name="pod-template-hash", default=None)


class Metadata(Part):
    uid: Name
    name: Name
    namespace: Name
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: Annotations | None = None
    labels: Labels | None = None
    owner_references: Sequence[Owner] | None = None


class UsedClaim(Part):
    name: Name
    request: str | None = None


class Resources(Part):
    requests: Any = None
    limits: Any = None
    claims: Sequence[UsedClaim] | None = None


class Container(Part):
    name: Name
    restart_policy: str | None = None
    resources: Resources | None = None


class Claim(Part):
    """In the spec, or in the status, which has the names of those that were made of a template."""

    name: Name
    resource_claim_name: str | None = None


class Spec(Part):
    overhead: Any = None
    priority: int | None = None
    priority_class_name: str | None = None
    restart_policy: str | None = None
    resources: Resources | None = None
    resource_claims: Sequence[Claim] | None = None
    init_containers: Sequence[Container] | None = None
    containers: Sequence[Container] | None = None
    ephemeral_containers: Sequence[Container] | None = None


class ContainerState(Part):
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str | None = field(name="containerID", default=None)


class ContainerStates(Part):
    waiting: ContainerState | None = None
    running: ContainerState | None = None
    terminated: ContainerState | None = None


class ContainerStatus(Part):
    name: Name
    container_id: str | None = field(name="containerID", default=None)
    restart_count: int | None = None
    allocated_resources: Any = None
    state: ContainerStates = field(default_factory=ContainerStates)
    last_state: ContainerStates = field(default_factory=ContainerStates)


class Condition(Part):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class RequestMapping(Part):
    container_name: Name
    request_name: str | None = None


class ExtendedClaim(Part):
    resource_claim_name: Name
    request_mappings: Sequence[RequestMapping] | None = None


class Status(Part):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    qos_class: str | None = None
    start_time: str | None = None
    resize: str | None = None
    allocated_resources: Any = None
    conditions: Sequence[Condition] | None = None
    resource_claim_statuses: Sequence[Claim] | None = None
    extended_resource_claim_status: ExtendedClaim | None = None
    init_container_statuses: Sequence[ContainerStatus] | None = None
    container_statuses: Sequence[ContainerStatus] | None = None
    ephemeral_container_statuses: Sequence[ContainerStatus] | None = None


class PodObject(Part):
    metadata: Metadata
    spec: Spec = field(default_factory=Spec)
    status: Status = field(default_factory=Status)
