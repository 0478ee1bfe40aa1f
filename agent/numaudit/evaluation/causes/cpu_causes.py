"""Causes for a container to run on CPUs of other nodes than its promised memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from numaudit.containermanager.pod.spec import full_name
from numaudit.evaluation.causes import remedies
from numaudit.intent.node import ContainerIntent, Intent
from numaudit.topology.nodeset import CpuSet

_MOST_OWNERS = 3
_WRITE_BACK = (
    "Find out who wrote to its cpuset (a runtime hook, an admin, another agent). Write the promised CPUs back to "
    "cpuset.cpus, or {again}."
)
_CHOOSE_TOGETHER = (
    "Use the Topology Manager policy restricted or single-numa-node{where}, so that CPUs and memory are chosen "
    "together, and {again}."
)
_WORDS = {
    "kubelet": {"again": "delete the pod so that it is created again", "where": ""},
    "numaudit run": {
        "again": "end the command and start it again",
        "where": " (`topologyManagerPolicy` in its configuration)",
    },
}
"""By who gave the promise."""


class CpuCause(NamedTuple):
    """Reason why a container runs on these CPUs."""

    reason: str
    remedy: str | None
    """None = that of the verdict."""


def cpu_cause(own: ContainerIntent, allowed: CpuSet, intent: Intent) -> CpuCause | None:
    """By its promised CPUs and those that it may use; None = what it was promised is not known."""
    promised = own.promise.cpus
    if promised is None:
        return None
    if not promised:
        return CpuCause(f"it has no CPUs of its own and shares {allowed.in_words}", None)
    words = _WORDS[intent.promised_by]
    if allowed <= promised:
        apart = remedies.remedy_for_split_resources(intent) or _CHOOSE_TOGETHER.format(**words)
        return CpuCause(f"its promised {_cpus(promised, 'is', 'are')} there", apart)
    reason = f"it may use {allowed.in_words}, but was promised {promised.in_words}"
    owners = list(_owners(own, allowed - promised, intent))
    if len(owners) > _MOST_OWNERS:
        owners[_MOST_OWNERS:] = [f"{len(owners) - _MOST_OWNERS} more"]
    return CpuCause("; ".join([reason, *owners]), _WRITE_BACK.format(**words))


def _owners(own: ContainerIntent, cpus: CpuSet, intent: Intent) -> Iterator[str]:
    """Name the owner of each of these CPUs: `CPU 2 belongs to default/web/app`."""
    for one in intent.containers:
        held = CpuSet() if one is own or one.is_stale or one.has_ended else cpus & (one.promise.cpus or CpuSet())
        if held:
            yield f"{_cpus(held, 'belongs', 'belong')} to {full_name(one.namespace, one.pod, one.pod_uid, one.name)}"
    shared = cpus & (intent.shared_cpus or CpuSet())
    if shared:
        yield f"{_cpus(shared, 'is', 'are')} shared"


def _cpus(cpus: CpuSet, one: str, several: str) -> str:
    return f"{cpus.in_words} {one if len(cpus) == 1 else several}"
