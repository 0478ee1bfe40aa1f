"""The name of a container wherever people read of it."""

from __future__ import annotations

from numaudit.errors import printable
from numaudit.report.values import ContainerReport


def display_name(container: ContainerReport) -> str:
    """namespace/pod/container as far as known, else the pod's UID; docker/name; else the cgroup path."""
    if container.pod_uid is None and container.container is not None:
        return printable(f"{container.runtime}/{container.container}")
    if container.pod_uid is None:
        return printable(container.path or "")
    pod = f"{container.namespace}/{container.pod}" if container.pod else f"pod {container.pod_uid}"
    if container.kind == "container":
        return printable(f"{pod}/{container.container or (container.container_id or '')[:12]}")
    return printable(f"{pod} ({container.kind})")
