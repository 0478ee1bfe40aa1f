"""One checkpoint file after it was examined, as `numaudit state` shows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaudit.kubelet.examination import Examined
from numaudit.kubelet.starting import Starting
from numaudit.memorymanager.checkpoint.file import Checkpoint
from numaudit.memorymanager.pod.names import PodName


@dataclass(frozen=True, slots=True)
class ExaminedFile:
    """One file of a host, or one that somebody named."""

    path: str
    examined: Examined
    starting: Starting
    """The kubelet that it was examined for."""
    with_machine: bool
    """Was it compared with the machine that it belongs to?"""
    machine_problem: str | None = None
    """Why it was not although it belongs to one."""
    pods: Mapping[str, PodName] = field(default_factory=dict)
    """UID -> who the pods of its entries are, as far as known."""
    topology_policy: str | None = None
    """The Topology Manager's, of the host's kubelet; None = not known, or the file stands alone."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        content = self.examined.decoded.content
        return None if content is None else content[0]

    @property
    def is_damaged(self) -> bool:
        """Is it there, but no checkpoint or no longer one?"""
        return self.examined.decoded.error is not None
