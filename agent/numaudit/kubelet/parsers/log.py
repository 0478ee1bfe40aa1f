"""Admissions in the kubelet's log. Pure: text in, events out. Node masks are integers, bit n = node n.

Sources: pkg/kubelet/cm/topologymanager/scope_{container,pod}.go and bitmask/bitmask.go, cpumanager/policy_static.go,
memorymanager/memory_manager.go, pkg/kubelet/allocation/allocation_manager.go; of 1.22 to 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from numaudit.containermanager.pod.spec import is_memory
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint
from numaudit.errors import ParseError
from numaudit.kubelet.parsers import klog
from numaudit.kubelet.parsers.klog import Fields, shown
from numaudit.topology.nodeset import CpuSet, NodeSet

_POD = re.compile(r"([a-z0-9][a-z0-9.-]{0,62})/([a-z0-9][a-z0-9.-]{0,252})", re.ASCII)
_FIELDS_OF_A_HINT = ("NUMANodeAffinity", "Preferred")
_MASK = re.compile(r"[01]{2,64}", re.ASCII)
"""As bitMask.String() writes it: the highest node first."""
_CPUS = re.compile(r"([0-9,-]*)(?: aligned=<.*>)?", re.ASCII)


class UnreadHints(ParseError):
    """A line with a provider's hints was not understood, so those of its admission are not whole."""


class Subject(Struct, frozen=True):
    """The pod or container whose admission a line is about."""

    namespace: str
    pod: str
    container: str | None
    """None = the pod as a whole."""
    pod_uid: str | None


class Hints(Struct, frozen=True):
    """One provider's answer. The kubelet asks the Device, CPU and Memory Manager in this order."""

    at: float | None
    subject: Subject
    hints: ProviderHints


class AdmissionStep(Struct, frozen=True):
    """A step of an admission. None = its line does not say; some say only the pod's UID."""

    at: float | None
    subject: Subject | None
    """None = the admission at hand: some lines of kubelets before 1.36 name no pod."""
    best: TopologyHint | None = None
    """The merged hint."""
    merged: bool | None = None
    """True: the merged hint was accepted and is handed to the providers."""
    regenerated: bool | None = None
    """True: a provider found the container in its checkpoint and repeats what it has as its only hint."""
    cpus: CpuSet | None = None
    """The exclusive CPUs given."""
    memory_nodes: NodeSet | None = None
    """The nodes for cpuset.mems of a container that is about to be created; empty = it is not pinned."""
    allocate_error: str | None = None
    """Reason why the Memory Manager could not allocate."""


class Denied(Struct, frozen=True):
    """The pod was refused."""

    at: float | None
    subject: Subject
    pod_uid: str
    reason: str
    message: str


class TopologyManagerSettings(Struct, frozen=True):
    """The kubelet started; these are the Topology Manager's settings."""

    at: float | None
    policy: str
    scope: str


class LoggedVersion(Struct, frozen=True):
    """The kubelet's version, v1.36.2."""

    at: float | None
    version: str


class StartFailure(Struct, frozen=True):
    """The kubelet gave up at its start; this is why."""

    at: float | None
    error: str


LogEvent = Hints | AdmissionStep | Denied | TopologyManagerSettings | LoggedVersion | StartFailure


def parse(line: str, *, until: datetime, at: float | None = None) -> LogEvent | None:
    """Parse a line; None for one that does not concern an admission.

    `at` and `until` are those of `klog.parse`. Raises ParseError when the message is a known one and its
    fields are not.
    """
    entry = klog.parse(line, known=_EVENTS, until=until, at=at)
    return None if entry is None else _EVENTS[entry.message](entry.at, entry.fields)


def in_utc(line: str, event: LogEvent) -> str:
    """The line that gave this event, with klog's time in UTC, as a captured log has it."""
    return line if event.at is None else klog.in_utc(line, event.at)


def _subject(fields: Fields) -> Subject:
    pod = fields.get("pod")
    if isinstance(pod, dict):
        pod = f"{pod.get('namespace')}/{pod.get('name')}"
    match = _POD.fullmatch(pod) if isinstance(pod, str) else None
    if match is None:
        raise ParseError(f"pod: expected namespace/name, found {shown(pod)}")
    container, uid = (None if fields.get(key) is None else _text(fields, key) for key in ("containerName", "podUID"))
    return Subject(match[1], match[2], container, uid)


def _subject_if_named(fields: Fields) -> Subject | None:
    return _subject(fields) if fields.get("pod") is not None else None


def _text(fields: Fields, key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise ParseError(f"{key}: expected a text, found {shown(value)}")
    return value


def _topology_hints(at: float | None, fields: Fields) -> LogEvent:
    try:
        return Hints(at, _subject(fields), _provider(fields.get("hints")))
    except ParseError as error:
        raise UnreadHints(str(error)) from None


def _provider(value: object) -> ProviderHints:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ParseError(f"hints: expected an object, found {shown(value)}")
    return {resource: _hints(resource, hints) for resource, hints in value.items()}


def _hints(resource: str, value: object) -> tuple[TopologyHint, ...] | None:
    if value is None:
        return None
    if value == () and isinstance(value, tuple):
        # Only the Device Manager gives nil (no preference), and it gives empty lists (impossible), too.
        if resource == "cpu" or is_memory(resource):
            return ()
        raise ParseError(f"hints of {resource}: [] may be no preference or no possible node")
    if not isinstance(value, list):
        raise ParseError(f"hints: expected a list, found {shown(value)}")
    return tuple([_hint(one) for one in value])


def _hint(value: object) -> TopologyHint:
    if isinstance(value, list) and len(value) == len(_FIELDS_OF_A_HINT):
        value = dict(zip(_FIELDS_OF_A_HINT, value, strict=True))
    if not isinstance(value, dict):
        raise ParseError(f"a hint: expected an object, found {shown(value)}")
    mask, preferred = (value.get(name) for name in _FIELDS_OF_A_HINT)
    if isinstance(preferred, str):  # as Go prints it
        mask = int(mask, 2) if isinstance(mask, str) and _MASK.fullmatch(mask) else mask
        preferred = {"true": True, "false": False}.get(preferred, preferred)
    if not isinstance(preferred, bool):
        raise ParseError(f"Preferred: expected true or false, found {shown(preferred)}")
    if mask is not None and (type(mask) is not int or not 0 <= mask < 1 << 64):
        raise ParseError(f"NUMANodeAffinity: expected a mask of 64 bits, found {shown(mask)}")
    return _interned(mask, preferred)


@lru_cache(maxsize=4096)
def _interned(mask: int | None, preferred: bool) -> TopologyHint:
    """One object for equal hints: eight nodes have 255 masks, and every provider lists them for every container."""
    return TopologyHint(None if mask is None else NodeSet(mask), preferred)


def _best(at: float | None, fields: Fields) -> LogEvent:
    return AdmissionStep(at, _subject_if_named(fields), best=_hint(fields.get("bestHint")))


def _topology_affinity(at: float | None, fields: Fields) -> LogEvent:
    # The CPU Manager logs the same message with another field; its line has the UID.
    if "bestHint" in fields:
        _hint(fields["bestHint"])
        return AdmissionStep(at, _subject_if_named(fields), merged=True)
    return AdmissionStep(at, _subject(fields))


def _allocate_cpus(at: float | None, fields: Fields) -> LogEvent:
    if "result" not in fields:
        return AdmissionStep(at, _subject_if_named(fields))
    match = _CPUS.fullmatch(_text(fields, "result"))
    if match is None:
        raise ParseError(f"result: expected a list of CPUs, found {shown(fields['result'])}")
    return AdmissionStep(at, _subject_if_named(fields), cpus=CpuSet.parse(match[1]))


def _memory_affinity(at: float | None, fields: Fields) -> LogEvent:
    nodes = fields.get("numaNodes")
    if nodes is None:
        return AdmissionStep(at, _subject(fields), memory_nodes=NodeSet())
    if not isinstance(nodes, dict) or not all(node.isascii() and node.isdigit() and len(node) < 5 for node in nodes):
        raise ParseError(f"numaNodes: expected node ids as keys, found {shown(nodes)}")
    try:
        return AdmissionStep(at, _subject(fields), memory_nodes=NodeSet.from_ids(map(int, nodes)))
    except ValueError as error:
        raise ParseError(f"numaNodes: {error}") from None


def _regenerating(at: float | None, fields: Fields) -> LogEvent:
    return AdmissionStep(at, _subject(fields), regenerated=True)


def _denied(at: float | None, fields: Fields) -> LogEvent:
    return Denied(at, _subject(fields), _text(fields, "podUID"), _text(fields, "reason"), _text(fields, "message"))


_EVENTS: Mapping[str, Callable[[float | None, Fields], LogEvent]] = {
    "TopologyHints": _topology_hints,
    "ContainerTopologyHint": _best,
    "PodTopologyHint": _best,
    "Topology Affinity": _topology_affinity,
    "Allocate start": lambda at, f: AdmissionStep(at, _subject(f)),
    "TopologyHints generated": lambda at, f: AdmissionStep(at, _subject(f)),
    "Regenerating TopologyHints for CPUs already allocated": _regenerating,
    "Regenerating TopologyHints, resource was already allocated to pod": _regenerating,
    "AllocateCPUs": _allocate_cpus,
    "Memory affinity": _memory_affinity,
    "Allocate error": lambda at, f: AdmissionStep(at, _subject_if_named(f), allocate_error=_text(f, "err")),
    "Pod admission denied": _denied,
    "Creating topology manager with policy per scope": lambda at, f: TopologyManagerSettings(
        at, _text(f, "topologyPolicyName"), _text(f, "topologyScopeName")
    ),
    "Creating topology manager with none policy": lambda at, _: TopologyManagerSettings(at, "none", "container"),
    "Kubelet version": lambda at, f: LoggedVersion(at, _text(f, "kubeletVersion")),
    "Failed to start ContainerManager": lambda at, f: StartFailure(at, _text(f, "err")),
}
