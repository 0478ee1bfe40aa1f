"""Owners of a node's CPUs: reserved for the system, exclusively a container's, or of the shared pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Literal

from msgspec import Struct

from numaudit.report.values import Report
from numaudit.report.words import display_name
from numaudit.topology.nodeset import CpuSet
from numaudit.views.page.markup import short

CpuKind = Literal["reserved", "exclusive", "shared", "any"]
"""`any`: no CPU Manager gives CPUs away here, or it is not known."""


class CpuRun(Struct, frozen=True):
    """CPUs of one owner, side by side in the node's list."""

    kind: CpuKind
    count: int
    owner: str | None = None
    """Name of the container that has them exclusively; None = nobody's, or not known."""


class CpuOwners(Struct, frozen=True):
    """Of the whole host."""

    shared: CpuSet | None
    reserved: CpuSet
    owners: Mapping[int, str]

    @classmethod
    def of(cls, report: Report) -> CpuOwners:
        kubelet = report.kubelet
        owners = {
            cpu: display_name(one)
            for one in report.containers
            if one.intended is not None and one.intended.cpus
            for cpu in one.intended.cpus
        }
        if kubelet is None:
            return cls(None, CpuSet(), owners)
        return cls(kubelet.shared_cpus, kubelet.reserved_cpus or CpuSet(), owners)

    def runs(self, cpus: CpuSet) -> Iterator[CpuRun]:
        """In the order of their ids."""
        for (kind, owner), members in groupby(map(self._owner, cpus)):
            yield CpuRun(kind, len(list(members)), None if owner is None else short(owner))

    def _owner(self, cpu: int) -> tuple[CpuKind, str | None]:
        owner = self.owners.get(cpu)
        if owner is not None:
            return "exclusive", owner
        if cpu in self.reserved:
            return "reserved", None
        if self.shared is None:
            return "any", None
        return ("shared" if cpu in self.shared else "exclusive"), None
