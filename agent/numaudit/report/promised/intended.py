"""The part of the report about what a container was promised, whole and by source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.containermanager.memory.state import Block
from numaudit.intent.node import ClaimPromise, ContainerIntent
from numaudit.report.values import Intended, PromiseOfSource
from numaudit.topology.machine import Machine


def intended_of(intent: ContainerIntent, machine: Machine) -> Intended:
    """All that was promised to it."""
    promise = intent.promise
    return Intended(
        memory_nodes=promise.memory_nodes,
        bytes=None if promise.memory is None else _known(_sizes(promise.memory), intent),
        cpus=promise.cpus,
        cpu_nodes=None if promise.cpus is None else machine.nodes_of_cpus(promise.cpus),
        device_nodes=promise.device_nodes,
        by_source=tuple(_by_source(intent, machine)) if intent.claims else (),
    )


def _by_source(intent: ContainerIntent, machine: Machine) -> Iterator[PromiseOfSource]:
    own = intent.managers
    if own.memory or own.cpus:
        yield PromiseOfSource(
            source="kubelet",
            claim=None,
            driver=None,
            memory_nodes=own.memory_nodes or None,
            bytes=_sizes(own.memory) if own.memory else None,
            cpus=own.cpus or None,
            cpu_nodes=machine.nodes_of_cpus(own.cpus) if own.cpus else None,
            devices=(),
            problem=None,
        )
    for claim in intent.claims:
        yield _of_claim(claim, machine)


def _of_claim(claim: ClaimPromise, machine: Machine) -> PromiseOfSource:
    return PromiseOfSource(
        source="dra",
        claim=f"{claim.namespace}/{claim.name}",
        driver=claim.driver,
        memory_nodes=claim.memory_nodes or None,
        bytes={type_: size for type_, size in _sizes(claim.memory).items() if size} or None,
        cpus=claim.cpus,
        cpu_nodes=machine.nodes_of_cpus(claim.cpus) if claim.cpus else None,
        devices=claim.devices,
        problem=claim.problem,
    )


def _known(sizes: dict[str, int], intent: ContainerIntent) -> dict[str, int]:
    """Without the bytes that a claim's driver does not say."""
    return {type_: size for type_, size in sizes.items() if size} if intent.claims else sizes


def _sizes(blocks: Sequence[Block]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for block in blocks:
        sizes[block.type] = sizes.get(block.type, 0) + block.size
    return sizes
