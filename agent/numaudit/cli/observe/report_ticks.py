"""One report after another, for what is drawn until it is interrupted."""

from __future__ import annotations

from numaudit.cli import options
from numaudit.engine.collectors.base import DeviceRequest
from numaudit.engine.engine import Engine, Ticked
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.probes.session import Session
from numaudit.snapshot import ContainerId

_DEVICES_SECONDS = 0.2


class TickSource:
    """Each tick is judged by the one before it, as the agent does; the probes stay loaded."""

    def __init__(self, observer: Observer, session: Session) -> None:
        self._engine = Engine(observer, session, options.thresholds())

    def take(self, numa_maps_budget: float | None, processes_of: frozenset[ContainerId] | None = None) -> Ticked:
        """`processes_of`: containers whose mappings and processes are read, within the budget (seconds).

        Raises Unavailable where the cgroups cannot be read: an empty table would say that there are none.
        """
        devices = None if processes_of is None else DeviceRequest(_DEVICES_SECONDS, processes_of)
        ticked = self._engine.tick(
            numa_maps_budget, processes_of, with_processes=processes_of is not None, devices=devices
        )
        for one in ticked.report.sources:
            if one.source == "cgroups" and one.state not in ("ok", "partial"):
                raise Unavailable(f"no container could be read: {one.reason}")
        return ticked
