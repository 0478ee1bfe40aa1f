"""Answers of agents as values within limits: one that somebody made up is refused, and no other node with it.

Pure: bytes in, values out. Who owns one node, or one agent's pod, decides what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from numaudit.api.document import API_VERSION
from numaudit.encoding.value import Value
from numaudit.errors import cut
from numaudit.evaluation.setup.facts import SetupFact
from numaudit.topology.nodeset import NodeSet

MOST_VALUES = 600_000
"""A report has 100 to 210 values for each container."""
MOST_NAMES = 64
"""Of verdicts, findings, checkpoints, sources: an agent has a third of it at most."""
MOST_LEVELS = 32
_TEXT = 300
"""Characters. No name of Kubernetes has more than 253."""

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Node = Annotated[int, Meta(ge=0, lt=NodeSet.limit)]
Share = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(max_length=_TEXT)]
Path = Annotated[str, Meta(max_length=4096)]
_T = TypeVar("_T")


class Generator(Value, frozen=True):
    version: Text | None = None


class Verdict(Value, frozen=True):
    name: Text


class Intended(Value, frozen=True):
    memory_nodes: list[Node] | None = None


class Measured(Value, frozen=True):
    source: Text | None = None
    of: Text | None = None
    lower: Share | None = None


class Container(Value, frozen=True):
    namespace: Text | None = None
    pod: Text | None = None
    container: Text | None = None
    path: Path | None = None
    verdict: Verdict | None = None
    judged_bytes: Count | None = None
    aligned_bytes: Count | None = None
    intended: Intended | None = None
    measured: Measured | None = None
    findings: tuple[Text, ...] = ()

    @property
    def misplaced_bytes(self) -> int:
        return 0 if self.aligned_bytes is None else max(0, (self.judged_bytes or 0) - self.aligned_bytes)


class Rejection(Value, frozen=True):
    namespace: Text | None = None
    pod: Text | None = None
    outcome: Text = ""
    reason: Text | None = None
    workload: Text | None = None
    at: Text | None = None


class Checkpoint(Value, frozen=True):
    file: Path
    valid: bool | None = None
    starts_now: Text = "unknown"


class Restart(Value, frozen=True):
    reboot: bool
    refused_pods: Count | None = None


class Table(Value, frozen=True):
    type: Text
    allocatable_bytes: Count = 0
    free_bytes: Count = 0


class MemoryNode(Value, frozen=True):
    stranded_bytes: Count = 0


class Admissible(Value, frozen=True):
    node_count: Count
    bytes: Count


class Room(Value, frozen=True):
    tables: tuple[Table, ...] = ()
    nodes: tuple[MemoryNode, ...] = ()
    admissible: tuple[Admissible, ...] | None = None


class Source(Value, frozen=True):
    source: Text
    old: bool = False


class Report(Value, frozen=True):
    """The part of a node's report that a cluster's is made of; older and newer agents may leave out any of it."""

    api_version: Text = ""
    kind: Text = ""
    generator: Generator = Generator()
    taken_at: Text | None = None
    containers: tuple[Container, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    restarts: tuple[Restart, ...] = ()
    memory_manager: Room | None = None
    sources: tuple[Source, ...] = ()


class Replicas(Value, frozen=True):
    asked: Count
    fit: Count


class Doubt(Value, frozen=True):
    decides: bool = True


class Fit(Value, frozen=True):
    """The part of an explanation that says how many of a pod fit on its node."""

    pod: Text = ""
    admitted: bool = False
    not_known: str | None = None
    doubt: Doubt | None = None
    replicas: Replicas | None = None

    @property
    def is_open(self) -> bool:
        """May the kubelet decide otherwise?"""
        return self.not_known is not None or (self.doubt is not None and self.doubt.decides)

    @property
    def asked(self) -> int:
        return 1 if self.replicas is None else self.replicas.asked

    @property
    def fit(self) -> int:
        """No more than were asked for, and none while the answer is open."""
        if self.is_open:
            return 0
        return int(self.admitted) if self.replicas is None else min(self.replicas.asked, self.replicas.fit)


class _Fits(Value, frozen=True):
    items: tuple[Fit, ...] = ()


def fits(found: Mapping[str, Any]) -> tuple[Fit, ...]:
    """The pods of an Explanation or ExplanationList. Raises ValueError."""
    try:
        if found.get("kind") == "ExplanationList":
            return msgspec.convert(found, _Fits).items
        return (msgspec.convert(found, Fit),)
    except msgspec.MsgspecError as error:
        raise ValueError(f"its answer is no Explanation: {error}") from None


class _Facts(Value, frozen=True):
    facts: tuple[SetupFact, ...] | None = None


def facts(found: Mapping[str, Any]) -> tuple[SetupFact, ...]:
    """Of a Setup. Raises ValueError, also for one of an agent that knows none yet."""
    try:
        facts = msgspec.convert(found, _Facts).facts
    except msgspec.MsgspecError as error:
        raise ValueError(f"its answer is no Setup: {error}") from None
    if not facts:
        raise ValueError("its answer has no facts to compare: update the agent")
    return facts


def report(body: bytes) -> Report:
    """Raises ValueError for what is no report of this version, and for one that no agent can have made."""
    found = _decoded(body, Report, "report")
    _check_version(found.api_version, found.kind, "Report")
    _check_numbers(found)
    return found


def document(body: bytes, kind: str) -> dict[str, Any]:
    """Raises ValueError, as `report`."""
    found = _decoded(body, dict[str, Any], "document")
    _check_version(str(found.get("apiVersion", ""))[:_TEXT], str(found.get("kind", ""))[:_TEXT], kind)
    if _levels(found) > MOST_LEVELS:
        raise ValueError(f"its answer is nested deeper than {MOST_LEVELS} levels, which no document is")
    return found


def brief_path(path: str) -> str:
    """Its end, which tells it from others."""
    return path if len(path) <= _TEXT else f"...{path[-_TEXT:]}"


def _decoded(body: bytes, kind: type[_T], what: str) -> _T:
    """Its values are counted first, for `{},` makes forty bytes of memory out of one."""
    if sum(map(body.count, (b"{", b"[", b","))) > MOST_VALUES:
        raise ValueError(f"its answer has more than {MOST_VALUES} values, which no {what} has")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"its answer is no {what}: {error}") from None
    except RecursionError:
        raise ValueError(f"its answer is no {what}: it is nested too deep") from None


def _check_version(version: str, kind: str, wanted: str) -> None:
    if version != API_VERSION:
        raise ValueError(
            f"its answer is of {cut(version) or 'no version'}, and this plugin reads {API_VERSION}: use a plugin of "
            "the agent's release"
        )
    if kind.removesuffix("List") != wanted.removesuffix("List"):
        raise ValueError(f"its answer is a {cut(kind) or 'document of no kind'}, not a {wanted}")


def _check_numbers(found: Report) -> None:
    """A table of all nodes has room for what an agent names, not for what somebody makes up."""
    room = found.memory_manager or Room()
    names = {
        "verdicts": len({one.verdict.name for one in found.containers if one.verdict is not None}),
        "findings": len({name for one in found.containers for name in one.findings}),
        "reasons": len({(one.reason, one.outcome) for one in found.rejections}),
        "checkpoints": len(found.checkpoints),
        "restarts": len(found.restarts),
        "sources": len(found.sources),
        "sizes of rooms": len(room.admissible or ()),
    }
    for what, number in names.items():
        if number > MOST_NAMES:
            raise ValueError(f"its answer has {number} {what}, and no agent has more than {MOST_NAMES}")


def _levels(value: object) -> int:
    levels, level = 0, [value]
    while level and levels <= MOST_LEVELS:
        levels += 1
        level = [
            below
            for one in level
            if isinstance(one, dict | list)
            for below in (one.values() if isinstance(one, dict) else one)
        ]
    return levels
