"""Promises of the kubelet to the containers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numaudit.engine.collectors.base import Collector, Skipped, TickInputs
from numaudit.kubelet.kubelet_intent import KubeletIntent
from numaudit.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class IntentCollector(Collector):
    name = "intent"
    kubelet: KubeletIntent

    def collect(self, tick: TickInputs, snapshot: Snapshot, _: Skipped) -> Snapshot:
        """The intent, and the containers with the names that the pods give them. Raises Unavailable without a kubelet.

        Asked after the census: whatever had a cgroup then was promised its memory before.
        """
        found = self.kubelet.collect(tick.census.containers)
        return replace(snapshot, intent=found.intent, containers=found.containers)
