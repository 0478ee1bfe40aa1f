"""All collectors, in the order of a tick."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.engine.collectors.base import Collector, TickInputs
from numaudit.engine.collectors.containers.allowed import AllowedCollector
from numaudit.engine.collectors.containers.declared import DeclaredCollector
from numaudit.engine.collectors.containers.devices import DevicesCollector
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.engine.collectors.containers.mappings import NumaMapsCollector, RootNumaMapsCollector
from numaudit.engine.collectors.containers.processes import ProcessesCollector
from numaudit.engine.collectors.containers.rank_watch import RankWatchCollector
from numaudit.engine.collectors.containers.residency import ResidencyCollector
from numaudit.engine.collectors.containers.two_readings import TwoReadingsCollector
from numaudit.engine.collectors.of_host import (
    NodeCollector,
    NumaBalancingCollector,
    SettingsCollector,
    SwapCollector,
    TiersCollector,
)
from numaudit.kernel.host import Host


class Collectors:
    """Those of one host. Modules of probes are imported in the first tick that has some."""

    def __init__(self, host: Host) -> None:
        self.kubelet = IntentCollector(host)
        self._first = (
            NodeCollector(),
            SwapCollector(),
            TiersCollector(),
            ResidencyCollector(),
            self.kubelet,
            AllowedCollector(),
            NumaBalancingCollector(),
            SettingsCollector(),
        )
        self.ranks = RankWatchCollector()
        self._probes: tuple[Collector, ...] = ()
        self._last = (
            TwoReadingsCollector(),
            NumaMapsCollector(),
            RootNumaMapsCollector(),
            ProcessesCollector(),
            DeclaredCollector(),
            DevicesCollector(),
            self.ranks,
        )

    def due(self, tick: TickInputs) -> Iterator[Collector]:
        """Those that are asked in this tick, in their order."""
        if tick.readings is not None and not self._probes:
            self._probes = of_probes()
        return (one for one in (*self._first, *self._probes, *self._last) if one.is_due(tick))


def of_probes() -> tuple[Collector, ...]:
    """Of all kinds of probes."""
    from numaudit.engine.collectors.probes import counts  # noqa: PLC0415 (takes long)
    from numaudit.engine.collectors.probes.hint_faults import HintFaultsCollector  # noqa: PLC0415

    return (
        counts.PageAllocCollector(),
        counts.CpuTimeCollector(),
        counts.PmuCollector(),
        HintFaultsCollector(),
        counts.MigrationsCollector(),
        counts.ProbeAccountsCollector(),
    )
