"""Is every promised container aligned as far as somebody demands? Pure."""

from __future__ import annotations

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.values import ContainerReport, Report
from numaudit.topology.nodeset import NodeSet

_NOT_OF_BYTES = tuple(name for name in MISALIGNED if name != "spilled")
"""Misaligned although the bytes may be in place: no ratio of bytes tolerates that."""


class Shortfalls(Struct, frozen=True):
    """The containers that do not pass, in words, and whether a demand is known to be missed."""

    messages: tuple[str, ...] = ()
    failed: bool = False
    """Has one of them less than the ratio, or is misaligned in another way?"""
    unknown: int = 0
    """Containers of which that is not known."""

    def require_an_answer(self) -> None:
        """A check that compares nothing must not pass: raises Unavailable when none failed and some are not known."""
        if self.unknown and not self.failed:
            which = "a container" if self.unknown == 1 else f"{self.unknown} containers"
            raise Unavailable(f"--fail-below: {which} cannot be compared with the limit; the reasons are above")


def shortfalls(report: Report, ratio: float) -> Shortfalls:
    """Find the promised containers that have less than this share of their judged bytes on their promised nodes.

    Or are misaligned in another way: they may use other nodes, run elsewhere, or use memory of other nodes. Raises
    Unavailable when it is not known what was promised to anybody.
    """
    require_known_promises(report, "--fail-below")
    messages: list[str] = []
    failed, unknown = False, 0
    for one in report.containers:
        if one.id is None:  # it does not run
            continue
        problem = _problem(one, ratio)
        doubt = _doubt(one) if problem is None else None
        failed |= problem is not None
        unknown += doubt is not None
        if problem is not None or doubt is not None:
            messages.append(f"{full_name(one)!r}: {problem or doubt}")
    return Shortfalls(tuple(messages), failed, unknown)


def require_known_promises(report: Report, option: str) -> None:
    """Raises Unavailable, with the option in front, when it is not known what was promised to anybody."""
    promised = [one for one in report.containers if one.intended is not None and one.intended.memory_nodes]
    for source in report.sources:
        if not promised and source.source == "intent" and source.state in ("absent", "unavailable", "failed"):
            raise Unavailable(f"{option}: its promise is unknown: {source.reason}")


def full_name(one: ContainerReport) -> str:
    """namespace/pod/container as far as known, else the cgroup path."""
    return "/".join(part for part in (one.namespace or one.pod_uid, one.pod, one.container) if part) or one.path or ""


def _problem(one: ContainerReport, ratio: float) -> str | None:
    """Reason why a container fails the check; None = it does not, or that is not known."""
    if one.verdict is not None and one.verdict.name in _NOT_OF_BYTES:
        return f"{one.verdict.name}: {one.verdict.reason}"
    if not _promised_nodes(one) or one.aligned_ratio is None or one.aligned_ratio >= ratio:
        return None
    return f"{one.aligned_ratio:.3f} of its bytes are on nodes it was promised"


def _doubt(one: ContainerReport) -> str | None:
    """Reason why it is not known whether it passes; None = it does, or nothing was promised to it."""
    if one.verdict is not None and one.verdict.name == "unmanaged":
        return None
    nodes = _promised_nodes(one)
    if nodes is None and one.kind == "container" and one.pod_uid is not None:
        return "what it was promised is not known"
    if not nodes:
        return None
    if one.judged_bytes is None:
        return "the nodes of its memory are not known"
    if one.verdict is not None and one.verdict.name == "unknown":
        return one.verdict.reason
    return None


def _promised_nodes(one: ContainerReport) -> NodeSet | None:
    return None if one.intended is None else one.intended.memory_nodes
