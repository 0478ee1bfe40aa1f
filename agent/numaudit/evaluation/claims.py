"""Verdicts as far as they are about resource claims (DRA): what was claimed, and whether the cpuset keeps it. Pure."""

from __future__ import annotations

from numaudit.intent.node import ClaimPromise, ContainerIntent
from numaudit.snapshot import Allowed
from numaudit.topology.machine import Machine

REMEDY_OF_DRIFT = (
    "The driver's NRI plugin writes the cpuset when the container is created. See that NRI is enabled in the container "
    "runtime, that the driver ran then, and that the CPU Manager's policy is none; then delete the pod so that it is "
    "created again."
)
REMEDY_OF_UNKNOWN = "See docs/dra.md for the drivers and formats that are known; a newer numaudit may know more."
REMEDY_OF_NO_MEMORY = (
    "Nothing is wrong with its CPUs. For a promise of memory claim that as well (dra.memory), of the same node: the "
    "Topology Manager does not align what the Memory Manager promises with claimed CPUs."
)


def unknown_claim(own: ContainerIntent) -> ClaimPromise | None:
    """A claim whose driver promises CPUs or memory, and did so in a way that is not known."""
    return next((one for one in own.claims if one.places and one.problem is not None), None)


def cpu_drift(own: ContainerIntent, allowed: Allowed, machine: Machine) -> str | None:
    """Difference between the allowed CPUs and the claimed ones; None = they do not, or that is not known.

    Where the CPU Manager gave it CPUs as well, both write the same cpuset: a finding says so.
    """
    claimed = own.claimed_cpus
    if not claimed or own.managers.cpus or allowed.cpus is None:
        return None
    if machine.without_cpu_list:
        return None
    offline = claimed - machine.listed_cpus
    if allowed.cpus == claimed - offline:
        return None
    said = f"it may use {allowed.cpus.in_words or 'no CPU'}, but was promised {claimed.in_words} by {_names(own)}"
    return f"{said}; {offline.in_words} {'is' if len(offline) == 1 else 'are'} offline" if offline else said


def no_memory(own: ContainerIntent, machine: Machine) -> str | None:
    """Reason why nothing is promised of the memory of a container whose CPUs are claimed; None = none are."""
    claimed = own.claimed_cpus
    if not claimed or own.claimed_memory:
        return None
    drivers = ", ".join(dict.fromkeys(one.driver or "?" for one in own.claims if one.cpus))
    on = machine.nodes_of_cpus(claimed)
    where = claimed.in_words if on is None else f"{claimed.in_words} on {on.in_words}"
    return f"no memory was promised: {drivers} gave it {where} and never sets cpuset.mems"


def _names(own: ContainerIntent) -> str:
    return ", ".join(one.in_words for one in own.claims if one.cpus)
