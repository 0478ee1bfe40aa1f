"""Promises of DRA drivers, read from the environment that they have the runtime put into a container. Pure.

No interface of Kubernetes has the NUMA nodes of a prepared claim, and each driver writes them in its own way. DRIVERS
has a row for each driver and format that is known. What is not in it is named, and nothing is guessed of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from numaudit.containermanager.memory.state import Block
from numaudit.errors import InputError, ParseError
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import Quantity

_SIZE = re.compile(r"numanode:(\d{1,4}),size:([0-9.]{1,20}[A-Za-z]{0,2})", re.ASCII)
_HUGE_PAGES = re.compile(r"hugepages_(\d{1,9})([kmgt])", re.ASCII)
_LONGEST_SHOWN = 60

Ids = TypeVar("Ids", CpuSet, NodeSet)


class Promised(Struct, frozen=True):
    """CPUs and memory of one claim. None, or no blocks = the driver promises none."""

    cpus: CpuSet | None = None
    memory: tuple[Block, ...] = ()
    """A block of no bytes names nodes whose bytes the driver does not say."""


class Driver(Struct, frozen=True):
    """One driver and one format in which it says what it promised."""

    name: str
    kind: str | None
    """CDI kind of its devices; None = any, for the driver promises neither CPUs nor memory."""
    format: str
    """The commit or version at which the format was read."""
    read: Callable[[str, Mapping[str, str]], Promised]
    """Claim's UID and environment -> promise. Raises ParseError where the environment has another format."""


def promised(driver: str, claim_uid: str, devices: Sequence[tuple[str, Sequence[str]]]) -> Promised:
    """The promise of a claim of this driver. `devices`: CDI name and environment of each.

    Raises ParseError with what is not known: the driver, its CDI kind, or the format of its environment.
    """
    rows = [one for one in DRIVERS if one.name == driver]
    if not rows:
        raise ParseError("numaudit does not know this driver")
    kinds = sorted({name.partition("=")[0] for name, _ in devices})
    for row in rows:
        if row.kind is None:
            return Promised()
        if not devices:
            raise ParseError(f"{driver} has prepared no CDI device for it")
        if kinds == [row.kind]:
            return row.read(claim_uid, _environment(line for _, env in devices for line in env))
    raise ParseError(f"the format of {driver} is not known: its CDI kind is {_shown(', '.join(kinds))}")


def places(driver: str) -> bool:
    """Is it known to promise CPUs or memory?"""
    return any(one.name == driver and one.kind is not None for one in DRIVERS)


def promises_devices_only(driver: str) -> bool:
    """Is it known to promise neither CPUs nor memory?"""
    return any(one.name == driver and one.kind is None for one in DRIVERS)


def _environment(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition("=")
        if found.setdefault(name, value) != value:
            raise ParseError(f"{_shown(name)} has two values")
    return found


def _cpus(uid: str, env: Mapping[str, str]) -> Promised:
    """One variable with the CPUs. This driver never sets cpuset.mems, so it promises no memory."""
    name = f"DRA_CPUSET_{uid}"
    if name not in env:
        raise ParseError(f"its CDI device has no variable {_shown(name)}")
    cpus = _list(CpuSet, name, env[name])
    if not cpus:
        raise ParseError(f"{name} names no CPU")
    return Promised(cpus=cpus)


def _memory(uid: str, env: Mapping[str, str]) -> Promised:
    """The nodes, and a variable for each size of pages with one node and its bytes."""
    prefix = f"DRAMEMORY_{uid}_"
    own = {name.removeprefix(prefix): value for name, value in env.items() if name.startswith(prefix)}
    if "NUMANodes" not in own:
        raise ParseError(f"its CDI device has no variable {_shown(prefix + 'NUMANodes')}")
    nodes = _list(NodeSet, f"{prefix}NUMANodes", own.pop("NUMANodes"))
    if not nodes:
        raise ParseError(f"{prefix}NUMANodes names no node")
    blocks = [_block(f"{prefix}{name}", name, value) for name, value in sorted(own.items())]
    sized = NodeSet.from_ids(node for one in blocks for node in one.nodes)
    if not sized <= nodes:
        raise ParseError(f"it has memory on {(sized - nodes).in_words}, which {prefix}NUMANodes does not name")
    if nodes - sized:
        blocks.append(Block.of("memory", 0, nodes - sized))
    return Promised(memory=tuple(blocks))


def _block(name: str, resource: str, value: str) -> Block:
    pages = _HUGE_PAGES.fullmatch(resource)
    if resource != "memory" and pages is None:
        raise ParseError(f"{_shown(name)}: {_shown(resource)} is no memory that numaudit knows")
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ParseError(f"{_shown(name)}={_shown(value)} is not numanode:N,size:QUANTITY")
    try:
        size = Quantity.parse(match[2]).value
        nodes = NodeSet.of(int(match[1]))
    except (InputError, ParseError, ValueError) as error:
        raise ParseError(f"{_shown(name)}: {error}") from None
    if size <= 0:
        raise ParseError(f"{_shown(name)}: promises no bytes")
    type_ = "memory" if pages is None else f"hugepages-{pages[1]}{pages[2].upper()}i"
    return Block.of(type_, size, nodes)


def _list(kind: type[Ids], name: str, value: str) -> Ids:
    try:
        return kind.parse(value)
    except (ParseError, ValueError) as error:
        raise ParseError(f"{_shown(name)}: {error}") from None


def _neither(_uid: str, _env: Mapping[str, str]) -> Promised:
    return Promised()


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


DRIVERS: tuple[Driver, ...] = (
    Driver("dra.cpu", "dra.k8s.io/cpu", "kubernetes-sigs/dra-driver-cpu de98098 (2026-08)", _cpus),
    Driver("dra.memory", "dra.k8s.io/memory", "ffromani/dra-driver-memory 1b0d668 (2026-02)", _memory),
    Driver("dra.net", None, "kubernetes-sigs/dranet f258477 (2026-08)", _neither),
    Driver("gpu.nvidia.com", None, "devices only", _neither),
    Driver("gpu.amd.com", None, "devices only", _neither),
    Driver("gpu.intel.com", None, "devices only", _neither),
)
