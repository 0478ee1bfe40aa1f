"""The collector of the kubelet's promises to each container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.kubelet.sources import presence
from numaudit.snapshot import Container, Snapshot

if TYPE_CHECKING:
    from numaudit.kernel.host import Host
    from numaudit.kubelet.intent.intent_of import Collected, Steps
    from numaudit.kubelet.sources.poller import KubeletPoller
    from numaudit.kubelet.sources.readings import KubeletReadings


class IntentCollector(Collector):
    """Polls the kubelet of one host, or a captured tree, and judges what it read.

    On a host without a kubelet the first answer, the only one that most verbs need, loads no module for it.
    """

    name = "intent"

    def __init__(self, host: Host, poller: KubeletPoller | None = None) -> None:
        """None = the running kubelet of this host, or what a captured tree has of one."""
        self._host = host
        self._poller = poller
        self._steps: Steps | None = None
        self._is_first = True

    @classmethod
    def by(cls, poller: KubeletPoller) -> Self:
        """Of a kubelet that is asked in another way."""
        return cls(poller.host, poller)

    def collect(self, tick: TickInputs, snapshot: Snapshot, _: SkippedItems) -> Snapshot:
        """The intent, and the containers with the names that the pods give them. Raises Unavailable without a kubelet.

        Asked after the census: whatever had a cgroup then was promised its memory before.
        """
        found = self.ask(tick.census.containers)
        return replace(snapshot, intent=found.intent, containers=found.containers)

    def ask(self, containers: Sequence[Container]) -> Collected:
        """Poll every source once. Raises Unavailable where there is no kubelet at all."""
        if self._poller is None and self._is_first:
            self._is_first = False
            presence.require(self._host)
        from numaudit.kubelet.intent.intent_of import Steps, intent_of  # noqa: PLC0415 (takes long)

        self._steps = self._steps or Steps()
        here = tuple(containers)
        return intent_of(self.poller.poll(here), here, self._steps)

    @property
    def poller(self) -> KubeletPoller:
        """The one that asks."""
        if self._poller is None:
            from numaudit.kubelet.sources.poller import KubeletPoller  # noqa: PLC0415 (takes long)

            self._poller = KubeletPoller.of(self._host)
        return self._poller

    @property
    def readings(self) -> KubeletReadings | None:
        """Readings of the newest poll; None = no kubelet was there to ask."""
        return None if self._poller is None else self._poller.newest

    def close(self) -> None:
        """Close connections and files."""
        if self._poller is not None:
            self._poller.close()
