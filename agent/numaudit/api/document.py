"""JSON documents: `apiVersion: numaudit/v1`, a `kind`, and the values as they are."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from numaudit.api import explanation_document, simulation_document, state_document
from numaudit.api.fleet_document import FleetForecast, FleetReport
from numaudit.api.placement_document import PlacementList
from numaudit.api.selftest_document import SelfTest
from numaudit.memorymanager.forecast import Forecast
from numaudit.pmu.calibration import Calibration
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.report.values import Report
from numaudit.snapshot import Check
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, IdSet, NodeSet

API_VERSION = "numaudit/v1"


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """One node of `numaudit topology`."""

    numa_node: int
    cpus: CpuSet
    sockets: tuple[int, ...]
    cores: int | None
    memory_bytes: int | None
    huge_pages: tuple[TopologyHugePages, ...]
    distances: dict[int, int]


@dataclass(frozen=True, slots=True)
class TopologyHugePages:
    """The huge pages of one size on one node; counts in pages."""

    page_size_bytes: int
    total: int
    free: int | None
    surplus: int | None


@dataclass(frozen=True, slots=True)
class Topology:
    """The machine: nodes that are online, and the ids that could come."""

    nodes: tuple[TopologyNode, ...]
    online: NodeSet
    possible: NodeSet
    cores: tuple[CpuSet, ...]
    """The threads of each core, as far as the kernel names them."""
    sockets: tuple[CpuSet, ...]
    """The CPUs of each socket, likewise."""


@dataclass(frozen=True, slots=True)
class Doctor:
    """What this host can measure."""

    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of the agent's catalogue."""

    name: str
    type: str
    unit: str
    help: str
    labels: tuple[str, ...]
    instrument: str | None
    """Its name in OpenTelemetry; null = that has a name of its own for the same."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """The agent's catalogue of metrics."""

    metrics: tuple[MetricRow, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the agent, its value as text."""

    key: str
    value: str
    origin: str
    """`default`, a file with its line, an environment variable or a flag."""


@dataclass(frozen=True, slots=True)
class Config:
    """The agent's settings in force; secrets are hidden."""

    settings: tuple[Setting, ...]


def encode(kind: str, value: object) -> bytes:
    """One document, two spaces deep, with a newline at its end.

    A name with bytes that are no UTF-8 (a cgroup may have one) gets them as escapes: \\udcff for 0xff.
    """
    body = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_set)
    document = {"apiVersion": API_VERSION, "kind": kind, **body}
    try:
        text = msgspec.json.encode(document)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_well_formed(document))
    return msgspec.json.format(text, indent=2) + b"\n"


def _encode_set(value: object) -> str:
    """Sets of nodes and CPUs, in the kernel's list format."""
    if isinstance(value, IdSet):
        return str(value)
    raise NotImplementedError(f"no document shows a {type(value).__name__}")


def _well_formed(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    return [_well_formed(item) for item in value] if isinstance(value, list | tuple) else value


KINDS: dict[str, type] = {
    "Report": Report,
    "Topology": Topology,
    "Doctor": Doctor,
    "SelfTest": SelfTest,
    "Calibration": Calibration,
    "State": state_document.DecodedState,
    "StateList": state_document.DecodedStateList,
    "StateVerification": state_document.StateVerification,
    "StateVerificationList": state_document.StateVerificationList,
    "StateDifference": state_document.StateDifference,
    "RestartForecast": Forecast,
    "Headroom": MemoryManagerReport,
    "Explanation": explanation_document.Explanation,
    "PlacementList": PlacementList,
    "Simulation": simulation_document.Simulation,
    "FleetReport": FleetReport,
    "FleetForecast": FleetForecast,
    "Metrics": Metrics,
    "Config": Config,
}


def topology(machine: Machine) -> Topology:
    """The machine as a document."""
    return Topology(
        nodes=tuple(_topology_node(machine, node.id) for node in machine.nodes),
        online=machine.online,
        possible=machine.possible,
        cores=tuple(dict.fromkeys(cpu.siblings for cpu in machine.cpus if cpu.siblings)),
        sockets=tuple(
            CpuSet.from_ids(cpu.id for cpu in machine.cpus if cpu.socket == socket)
            for socket in sorted({cpu.socket for cpu in machine.cpus if cpu.socket is not None})
        ),
    )


def _topology_node(machine: Machine, node_id: int) -> TopologyNode:
    node = machine.by_id[node_id]
    cpus = [cpu for cpu in machine.cpus if cpu.node == node_id]
    cores = {(cpu.socket, cpu.core) for cpu in cpus if cpu.core is not None}
    return TopologyNode(
        numa_node=node.id,
        cpus=node.cpus,
        sockets=tuple(sorted({cpu.socket for cpu in cpus if cpu.socket is not None})),
        cores=len(cores) or None if cpus else 0,
        memory_bytes=node.memory,
        huge_pages=tuple(
            TopologyHugePages(pages.page_size, pages.total, pages.free, pages.surplus) for pages in node.huge_pages
        ),
        distances=dict(node.distances),
    )
