"""The plain values of `questions` as the library's own, and back.

All that read raise InputError for a value of another form, with its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numaudit.containermanager.cpu.topology import CPUInfo, CPUTopology
from numaudit.containermanager.memory.candidates import Reusable
from numaudit.containermanager.plain import (
    read_any_mapping,
    read_mapping,
    read_quantity,
    read_sequence,
    read_text,
    shown,
)
from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX, MEMORY
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint
from numaudit.containermanager.topologymanager.policy import Distances
from numaudit.containermanager.versions import KubeletFeatures
from numaudit.errors import InputError, ParseError
from numaudit.topology.machine import HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet


def read_machine(machine: object) -> Machine:
    """{node: {resource: size}}"""
    sizes = read_sizes_by_node(machine, "machine")
    return Machine(tuple(_node(id_, amounts) for id_, amounts in sizes.items()))


def read_sizes_by_node(value: object, where: str) -> dict[int, dict[str, int]]:
    """{node: {resource: size}} in bytes."""
    return {
        _node_id(node, where): _sizes(amounts, f"{where}.{node}")
        for node, amounts in read_any_mapping(value, where).items()
    }


def read_features(version: object, gates: object) -> KubeletFeatures:
    """ "1.36", {"PodLevelResourceManagers": true}"""
    stands: dict[str, bool] = {}
    for name, is_on in read_mapping({} if gates is None else gates, "gates").items():
        if not isinstance(is_on, bool):
            raise InputError(f"gates.{name}: must be true or false, not {shown(is_on)}")
        stands[name] = is_on
    return KubeletFeatures.of(read_text(version, "version"), stands)[0]


def read_options(options: object) -> dict[str, str]:
    """{"prefer-closest-numa-nodes": "true"}"""
    fields = read_mapping({} if options is None else options, "options")
    found: dict[str, str] = {}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise InputError(f"options.{name}: must be text, such as 'true', not {shown(value)}")
        found[name] = value
    return found


def read_distances(distances: object) -> Distances | None:
    """{0: {0: 10, 1: 21}}"""
    if distances is None:
        return None
    return {
        _node_id(one, "distances"): {
            _node_id(other, f"distances.{one}"): read_count(distance, f"distances.{one}.{other}")
            for other, distance in read_any_mapping(row, f"distances.{one}").items()
        }
        for one, row in read_any_mapping(distances, "distances").items()
    }


def read_count(value: object, where: str) -> int:
    """A whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise InputError(f"{where}: must be a whole number from 0 on, not {shown(value)}")
    return value


def read_cpu_topology(cpus: object) -> CPUTopology:
    """{CPU: [node, socket, core, uncore cache]}"""
    details: dict[int, CPUInfo] = {}
    for cpu, where in read_any_mapping(cpus, "cpus").items():
        numbers = [read_count(one, f"cpus.{cpu}") for one in read_sequence(where, f"cpus.{cpu}")]
        if len(numbers) != 4:
            raise InputError(f"cpus.{cpu}: must be [node, socket, core, uncore cache], not {shown(where)}")
        details[read_count(cpu, "cpus")] = CPUInfo(*numbers)
    return CPUTopology(details)


def read_cpus(text: object, where: str) -> CpuSet:
    """ "0-3,8"; empty = none."""
    if not isinstance(text, str):
        raise InputError(f"{where}: must be a list of CPUs such as '0-3,8', not {shown(text)}")
    try:
        return CpuSet.parse(text)
    except ParseError as error:
        raise InputError(f"{where}: {error}") from None


def read_nodes(nodes: object, where: str) -> NodeSet:
    """[0, 1]"""
    ids = read_sequence(nodes, where)
    try:
        return NodeSet.from_ids(_node_id(one, where) for one in ids)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def read_reusable(left: object) -> Reusable:
    """{"0-1": {"memory": size}}"""
    reusable: dict[NodeSet, dict[str, int]] = {}
    for nodes, amounts in read_mapping({} if left is None else left, "reusable").items():
        try:
            reusable[NodeSet.parse(nodes)] = _sizes(amounts, f"reusable.{nodes}")
        except ParseError as error:
            raise InputError(f"reusable: {error}") from None
    return reusable


def read_answers(answers: object) -> list[ProviderHints]:
    """A list of null or {resource: null or a list of hints}."""
    return [_answer(one, f"answers.{number}") for number, one in enumerate(read_sequence(answers, "answers"))]


def read_hint(hint: object, where: str = "hint") -> TopologyHint:
    """{"nodes": [0, 1], "preferred": true}"""
    fields = read_mapping(hint, where)
    preferred = fields.get("preferred", False)
    if fields.keys() - {"nodes", "preferred"} or not isinstance(preferred, bool):
        raise InputError(f"{where}: must be {{'nodes': [0], 'preferred': True}}, not {shown(hint)}")
    nodes = fields.get("nodes")
    return TopologyHint(None if nodes is None else read_nodes(nodes, f"{where}.nodes"), preferred)


def plain_answer(answer: ProviderHints) -> dict[str, list[dict[str, Any]] | None] | None:
    """As `read_answers` takes it."""
    if answer is None:
        return None
    return {name: None if given is None else [plain_hint(one) for one in given] for name, given in answer.items()}


def plain_hint(hint: TopologyHint) -> dict[str, Any]:
    """As `read_hint` takes it."""
    return {"nodes": None if hint.affinity is None else list(hint.affinity), "preferred": hint.preferred}


def _node(id_: int, sizes: Mapping[str, int]) -> Node:
    pages: list[HugePages] = []
    for name, total in sizes.items():
        if name != MEMORY:
            size = read_quantity(name.removeprefix(HUGEPAGES_PREFIX), f"machine.{id_}.{name}").value
            if size == 0 or total % size:
                raise InputError(f"machine.{id_}.{name}: {total} bytes are not a whole number of these pages")
            pages.append(HugePages(size, total // size))
    return Node(id_, memory=sizes.get(MEMORY, 0), huge_pages=tuple(sorted(pages, key=lambda one: one.page_size)))


def _sizes(amounts: object, where: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, amount in read_mapping(amounts, where).items():
        if name != MEMORY and not name.startswith(HUGEPAGES_PREFIX):
            raise InputError(f"{where}: {name!r} is neither memory nor hugepages-<size>")
        sizes[name] = read_quantity(amount, f"{where}.{name}").value
    return sizes


def _node_id(node: object, where: str) -> int:
    text = shown(node) if isinstance(node, int) else str(node)
    if isinstance(node, bool) or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{where}: not a NUMA node: {shown(node)}")
    return int(text)


def _answer(answer: object, where: str) -> ProviderHints:
    if answer is None:
        return None
    found: dict[str, Sequence[TopologyHint] | None] = {}
    for name, given in read_mapping(answer, where).items():
        place = f"{where}.{name}"
        found[name] = None if given is None else [read_hint(one, place) for one in read_sequence(given, place)]
    return found
