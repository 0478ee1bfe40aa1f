"""The ranks of a host as a document: each with where it runs, where its memory is, and the commands that would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from numaudit.encoding.value import Value
from numaudit.evaluation.ranks.judge import ranks_of, summary
from numaudit.evaluation.ranks.rank import RANK_VERDICTS, Rank
from numaudit.evaluation.ranks.remedies import commands
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.processes import BytesByNode, ProcessPlacement
from numaudit.topology.nodeset import NodeSet

R = TypeVar("R", bound=Rank)


class RankRow(Rank, frozen=True):
    """One rank of a host."""

    container: str
    """Its container as reports name it: namespace/pod/container, or the path of its cgroup."""
    allowed_cpu_nodes: NodeSet | None
    """Nodes of the CPUs that its main thread may run on; null = not known."""
    threads_by_node: Mapping[int, int] | None
    """Number of its threads by the node of the CPU that each ran on last; null = not known."""
    bytes_by_node: BytesByNode | None
    """Its memory without files of disks by node, shared memory included; null = not read."""
    commands: tuple[str, ...]
    """Commands that bring it to where it was bound; empty = none is needed, or it is not sure that one helps."""

    @property
    def title(self) -> str:
        """With its process id, for several jobs have a rank of the same number."""
        return super().title if self.rank is None else f"rank {self.rank} (PID {self.pid})"


class HostRanks(Value, frozen=True):
    """The processes of a host that declare a placement, or that their memory policy binds."""

    sentence: str
    """The answer in one sentence."""
    items: tuple[RankRow, ...]
    """The worst first, and those that do not count last."""
    processes: int
    """Number of processes that were looked at, or should have been."""
    not_read: int
    """Number of those of which something could not be read, so that ranks may be missing."""
    not_read_reason: str | None
    """Reason for the first of them; null = all were read."""


def host_ranks(
    snapshot: Snapshot,
    names: Mapping[ContainerId, str],
    read: tuple[int, int, str | None],
    is_meant: Callable[[Rank], bool] | None = None,
    nobody: str = "No process declares a placement",
) -> HostRanks:
    """Of the containers that `snapshot.watched` has. `read`: the last three fields of the document.

    `is_meant`: which ranks; None = all of the host. `nobody`: the beginning of the sentence where there is none.
    """
    rows = [
        rank_row(rank, process, names[id_])
        for id_, watched in snapshot.watched.items()
        for rank in ranks_of(id_, snapshot)
        for process in watched.processes.processes
        if process.pid == rank.pid and (is_meant is None or is_meant(rank))
    ]
    ordered = tuple(in_order(rows))
    return HostRanks(
        summary(ordered, "the only" if is_meant is None else "this") or _none(nobody, *read), ordered, *read
    )


def in_order(rows: list[R]) -> list[R]:
    """The worst first, and helpers last."""
    return sorted(rows, key=lambda one: (not one.counts, RANK_VERDICTS.index(one.verdict), one.pid))


def rank_row(rank: Rank, process: ProcessPlacement, container: str) -> RankRow:
    last_on: dict[int, int] = {}
    for group in process.thread_groups:
        for node, threads in group.last_on.items():
            last_on[node] = last_on.get(node, 0) + threads
    return RankRow(
        **{name: getattr(rank, name) for name in Rank.__struct_fields__},
        container=container,
        allowed_cpu_nodes=None if process.main is None else process.main.cpu_nodes,
        threads_by_node=last_on if process.thread_groups else None,
        bytes_by_node=process.judged,
        commands=commands(rank, process),
    )


def _none(nobody: str, processes: int, not_read: int, reason: str | None) -> str:
    if not_read:
        return f"{nobody}, as far as could be read: {of_unread(processes, not_read, reason)}."
    counted = "the only process" if processes == 1 else f"all {processes} processes"
    return f"{nobody}: numaudit read the command line, the environment and the memory policy of {counted}."


def of_unread(processes: int, not_read: int, reason: str | None) -> str:
    """3 of 40 processes could not be read whole: Permission denied; run as root"""
    return f"{not_read} of {processes} process{'' if processes == 1 else 'es'} could not be read whole: {reason}"
