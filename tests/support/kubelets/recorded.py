"""Recorded runs of a kubelet v1.36.2 on four nodes: what its log, configuration and pods say.

The log is read by a parser of its own, strict and small, so that it does not share a mistake with the product's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from fixture_trees import FIXTURES
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet

RUNS = FIXTURES / "kubelet-1.36"

_LINE = re.compile(r'[IE]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] "(?P<message>[^"]*)" ?(?P<fields>.*)')
_FIELD = re.compile(r"(?P<key>\w+)=")


@dataclass
class LoggedMerge:
    """One merge: the three providers' answers as JSON values, and the best hint."""

    container: str | None
    answers: list[object] = field(default_factory=list)
    best: object = None


@dataclass
class LoggedAdmission:
    """One pod's admission."""

    pod: str
    merges: list[LoggedMerge] = field(default_factory=list)
    denied: tuple[str, str] | None = None
    """Reason and message."""
    cpus: dict[tuple[str, str], str] = field(default_factory=dict)
    """(pod UID, container) -> exclusive CPUs, as they were stored."""
    default_cpus: str | None = None
    """The shared pool afterwards; None = unchanged."""


@dataclass(frozen=True)
class LoggedStart:
    """A container is about to be created, with the nodes it is pinned to."""

    pod: str
    container: str
    nodes: list[int]


@dataclass(frozen=True)
class LoggedRelease:
    """The CPU Manager's reconcile pass took a container's CPUs back."""

    pod_uid: str
    default_cpus: str


Event = LoggedAdmission | LoggedStart | LoggedRelease


def read_events(run: str, log: str) -> list[Event]:
    """The events of a log in order; an admission stands where it began."""
    return events_in((RUNS / run / log).read_text())


def events_in(text: str) -> list[Event]:
    """The same of the text of a log."""
    events: list[Event] = []
    current: LoggedAdmission | None = None
    releasing = False
    for message, fields in _lines(text):
        pod, container = str(fields.get("pod", "")), fields.get("containerName")
        if message == "TopologyHints":
            if current is None or current.pod != pod:
                current = LoggedAdmission(pod)
                events.append(current)
            if not current.merges or current.merges[-1].best is not None:
                current.merges.append(LoggedMerge(None if container is None else str(container)))
            current.merges[-1].answers.append(fields["hints"])
        elif message == "Best TopologyHint":
            assert current is not None
            current.merges[-1].best = fields["bestHint"]
        elif message == "Pod admission denied":
            assert current is not None
            assert current.pod == pod
            current.denied = (str(fields["reason"]), str(fields["message"]))
        elif message == "Updated desired CPUSet":
            assert current is not None
            current.cpus[str(fields["podUID"]), str(container)] = str(fields["cpuSet"])
        elif message == "Memory affinity":
            nodes = fields["numaNodes"]
            assert isinstance(nodes, dict)
            events.append(LoggedStart(pod, str(container), sorted(map(int, nodes))))
        elif message == "NUMA nodes not available for allocation":
            events.append(LoggedStart(pod, str(container), []))
        elif message == " RemoveContainer end":
            events.append(LoggedRelease(str(fields["podUID"]), str(fields["defaultCPUSet"])))
        elif message == "Updated default CPUSet" and current is not None and not releasing:
            current.default_cpus = str(fields["cpuSet"])
        releasing = message == "Deleted CPUSet assignment" or (releasing and message != " RemoveContainer end")
    return events


def read_pods(run: str) -> dict[str, Pod]:
    """The pods by "namespace/name", as the kubelet's /pods showed them."""
    pods: dict[str, Pod] = {}
    for file in sorted((RUNS / run).glob("*/pods.json")):
        for item in json.loads(file.read_text())["items"]:
            pod = read_pod(item)
            pods[f"{pod.namespace}/{pod.name}"] = pod
    return pods


def read_configuration(run: str, name: str) -> object:
    loaded: object = yaml.safe_load((RUNS / run / name).read_text())
    return loaded


def read_machine(run: str) -> Machine:
    """The guest: two CPUs a node without SMT on one socket; pages of 2 MiB as counted, none of 1 GiB."""
    text = (RUNS / run / "node-numa.txt").read_text()
    sizes = {int(id_): int(size) * 1024 for id_, size in re.findall(r"Node (\d+) MemTotal: +(\d+) kB", text)}
    pages = {int(id_): int(count) for id_, count in re.findall(r"Node (\d+) HugePages_Total: +(\d+)", text)}
    nodes = tuple(
        Node(
            id_,
            cpus=CpuSet.of(2 * id_, 2 * id_ + 1),
            memory=size,
            huge_pages=(HugePages(2 << 20, pages[id_]), HugePages(1 << 30, 0)),
        )
        for id_, size in sizes.items()
    )
    cpus = tuple(Cpu(id_, node=id_ // 2, socket=0, core=id_, siblings=CpuSet.of(id_), l3_cache=0) for id_ in range(8))
    return Machine(nodes, cpus)


def as_logged(hints: ProviderHints) -> object:
    """A provider's answer as the kubelet logs it."""
    if hints is None:
        return None
    return {name: None if one is None else [hint_as_logged(hint) for hint in one] for name, one in hints.items()}


def hint_as_logged(hint: TopologyHint) -> object:
    return {"NUMANodeAffinity": None if hint.affinity is None else hint.affinity.mask, "Preferred": hint.preferred}


def _lines(log: str) -> Iterator[tuple[str, dict[str, object]]]:
    for line in log.splitlines():
        match = _LINE.fullmatch(line)
        assert match is not None, line
        yield match["message"], dict(_fields(match["fields"]))


def _fields(text: str) -> Iterator[tuple[str, object]]:
    """`key=<JSON value>`; other values are passed over up to the next space."""
    decoder = json.JSONDecoder()
    at = 0
    while match := _FIELD.match(text, at):
        try:
            value, end = decoder.raw_decode(text, match.end())
        except json.JSONDecodeError:
            end = text.find(" ", match.end())
            value, end = text[match.end() : end], len(text) if end < 0 else end
        yield match["key"], value
        at = end + 1
