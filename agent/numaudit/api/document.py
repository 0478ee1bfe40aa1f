"""JSON documents: `apiVersion: numaudit/v1`, a `kind`, and the values as they are; and the small ones among them."""

from __future__ import annotations

from typing import Literal

import msgspec

from numaudit import __version__
from numaudit.encoding.value import Origin, Timestamp, Value
from numaudit.snapshot import Check
from numaudit.topology.machine import HugePages, Machine
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import MemorySpeed, TierSettings, TopologyTier

API_VERSION = "numaudit/v1"
_UNKNOWN = TierSettings()


class TopologyNode(Value, frozen=True):
    """One node of `numaudit topology`."""

    numa_node: int
    cpus: CpuSet | None
    sockets: tuple[int, ...]
    """Ids of the sockets that its CPUs are in."""
    cores: int | None
    """Number of its cores; null = not known."""
    memory_bytes: int | None
    """Its memory, huge pages included; null = not known."""
    huge_pages: tuple[HugePages, ...]
    """Its huge pages, by size."""
    distances: dict[int, int]
    memory_tier: int | None
    demotion_targets: NodeSet | None
    """Nodes to which the kernel moves its cold pages first, if demotion is on; null = the tiers are not known."""
    memory_speed: MemorySpeed | None


class Topology(Value, frozen=True):
    """The machine: nodes that are online, and the ids that could come."""

    nodes: tuple[TopologyNode, ...]
    """Nodes that are online."""
    online: NodeSet
    """Ids of those."""
    possible: NodeSet
    """Ids that could come."""
    cores: tuple[CpuSet, ...]
    """The threads of each core, as far as the kernel names them."""
    sockets: tuple[CpuSet, ...]
    """The CPUs of each socket, likewise."""
    memory_tiers: tuple[TopologyTier, ...] | None
    """Memory tiers, the fastest first; of a single one, nothing is demoted. null = the kernel shows none."""
    demotion_enabled: bool | None
    """Does the kernel move cold pages to slower tiers? null = it cannot, or does not say."""
    numa_balancing: int | None
    """kernel.numa_balancing: 0 is off, 1 normal, 2 memory tiering (hot pages are promoted), 3 both; null = not
    known."""
    problems: tuple[str, ...]
    """Sentences on CPUs and distances that the kernel shows and that cannot be used; empty = all can."""


class Setting(Value, frozen=True):
    """One setting of the agent, its value as text."""

    key: str
    """Its name, such as web.timeout."""
    value: str
    """Its value."""
    origin: str
    """`default`, a file with its line, an environment variable or a flag."""


class Config(Value, frozen=True):
    """The agent's settings in force; secrets are hidden."""

    settings: tuple[Setting, ...]
    """Every setting."""


class ConfigCheck(Value, frozen=True):
    """The result of a check of the agent's settings."""

    valid: bool
    """Is there no mistake in them?"""
    problems: tuple[str, ...]
    """Every mistake, as a sentence."""
    checked: str | None
    """Sources of the settings that were checked; null = they have mistakes."""


class Capture(Value, frozen=True):
    """A captured host (`capture.json` in it): whose, of when and by which numaudit, as the header says."""


class Generator(Value, frozen=True):
    """The program that made the document."""

    name: str = "numaudit"
    """`numaudit`."""
    version: str = __version__


class Header(Value, frozen=True):
    """Fields with which every document begins."""

    api_version: str
    """The version of the API."""
    kind: str
    """Name of the kind of document."""
    host: str | None
    """The host that the values are from: its node's name where Kubernetes names it, else its host name. null = they are
    of no one host (a scenario, a file by itself, a cluster), or the tree at --root does not say."""
    generator: Generator
    """The program that made the document."""
    taken_at: Timestamp | None
    """Time when the values were read or measured; of a captured host, when it was captured. null = the
    tree at --root does not say."""


def encode(kind: str, value: object, origin: Origin) -> bytes:
    """One document, two spaces deep, with a newline at its end.

    A name with bytes that are no UTF-8 (a cgroup may have one) gets them as escapes: \\udcff for 0xff.
    """
    header = _plain(Header(API_VERSION, kind, origin.host, Generator(), origin.taken_at))
    document = header | _plain(value) | header
    try:
        text = msgspec.json.encode(document)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_well_formed(document))
    return msgspec.json.format(text, indent=2) + b"\n"


def _plain(value: object) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(value, str_keys=True, enc_hook=shown)
    return found


def shown(value: object) -> object:
    """Sets of nodes as lists, sets of CPUs in the kernel's list format, times by RFC 3339."""
    if isinstance(value, NodeSet):
        return list(value)
    if isinstance(value, CpuSet | Timestamp):
        return str(value)
    raise NotImplementedError(f"no document shows a {type(value).__name__}")


def _well_formed(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    return [_well_formed(item) for item in value] if isinstance(value, list | tuple) else value


def topology(machine: Machine, settings: TierSettings = _UNKNOWN) -> Topology:
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
        memory_tiers=machine.shown_tiers,
        demotion_enabled=settings.demotion,
        numa_balancing=settings.numa_balancing,
        problems=tuple(one for one in (machine.cpu_problem, machine.distance_problem) if one is not None),
    )


def _topology_node(machine: Machine, node_id: int) -> TopologyNode:
    node = machine.by_id[node_id]
    cpus = [cpu for cpu in machine.cpus if cpu.node == node_id]
    cores = {(cpu.socket, cpu.core) for cpu in cpus if cpu.core is not None}
    return TopologyNode(
        numa_node=node.id,
        cpus=node.cpus,
        sockets=machine.sockets.get(node_id, ()),
        cores=0 if node.cpus == CpuSet() else len(cores) or None,
        memory_bytes=node.memory,
        huge_pages=node.huge_pages,
        distances=dict(node.distances),
        memory_tier=machine.tier_of(node_id),
        demotion_targets=None if machine.tiers is None else machine.tiers.demotion_targets(node_id, node.distances),
        memory_speed=node.speed,
    )


class DoctorQuestion(Value, frozen=True):
    """One link of the chain of evidence."""

    link: str
    """promised, allowed, resident or accessed."""
    question: str
    """The question in words."""
    answered: bool
    """Can it be answered here?"""
    checks: list[str]
    """Names of the checks that are about it."""


class Doctor(Value, frozen=True):
    """Sources of figures on this host."""

    checks: tuple[Check, ...]
    questions: tuple[DoctorQuestion, ...]
    """Questions that they answer, in the order of the chain of evidence."""


CheckState = Literal["passed", "failed", "inconclusive", "not tried"]
"""inconclusive: it was tried, and a busy machine left too little to tell a pass from a failure."""


class SelfTestCheck(Value, frozen=True):
    """One thing that was checked with known work."""

    name: str
    state: CheckState
    """Result of the check."""
    expected: str
    """Expected result."""
    seen: str
    """For what was not tried or is inconclusive: why."""


class SelfTest(Value, frozen=True):
    """All checks, in the order they were made."""

    checks: tuple[SelfTestCheck, ...]
