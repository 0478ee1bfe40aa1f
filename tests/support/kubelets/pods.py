"""Pods for tests of the resource managers, short to write."""

from __future__ import annotations

from collections.abc import Mapping

from numaudit.containermanager.pod.spec import Container, Pod, Resources
from numaudit.topology.quantity import Quantity

Amounts = Mapping[str, str]


def quantities(amounts: Amounts) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in amounts.items()}


def container(
    name: str,
    memory: str = "1Gi",
    cpu: str = "1",
    *,
    limit: str | None = None,
    sidecar: bool = False,
    more: Amounts | None = None,
) -> Container:
    """A container whose requests are its limits, but for the memory limit where `limit` is given."""
    requests = {"cpu": cpu, "memory": memory, **(more or {})}
    limits = {**requests, "memory": limit or memory}
    return Container(name, Resources(quantities(requests), quantities(limits)), restarts_always=sidecar)


def bare(name: str) -> Container:
    """A container that asks for nothing."""
    return Container(name)


def pod(
    uid: str,
    *containers: Container,
    init: tuple[Container, ...] = (),
    resources: Amounts | None = None,
) -> Pod:
    """A pod of these containers, one named "app" if there are none. `resources` = at pod level."""
    own = None if resources is None else Resources(quantities(resources), quantities(resources))
    return Pod(uid, "default", uid, containers or (container("app"),), init, own)
