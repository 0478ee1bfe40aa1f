"""What did the kubelet promise to each container?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from numaudit.kernel.host import Host
from numaudit.kubelet.intent.intent_of import Collected, Steps, intent_of
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.kubelet.sources.readings import Readings
from numaudit.snapshot import Container


@dataclass(frozen=True, slots=True)
class KubeletIntent:
    """Polls the kubelet of one host, or a captured tree, and judges what it read."""

    poller: KubeletPoller
    _steps: Steps = field(default_factory=Steps)

    @classmethod
    def of(cls, host: Host) -> KubeletIntent:
        """The running kubelet of this host, or what a captured tree has of one."""
        return cls(KubeletPoller.of(host))

    def collect(self, containers: Sequence[Container]) -> Collected:
        """Poll every source once. Raises Unavailable where there is no kubelet at all."""
        here = tuple(containers)
        return intent_of(self.poller.poll(here), here, self._steps)

    @property
    def readings(self) -> Readings | None:
        """What the newest poll read; None = no kubelet was there to ask."""
        return self.poller.newest

    def close(self) -> None:
        """Close connections and files."""
        self.poller.close()
