"""What did the kubelet promise?"""

from __future__ import annotations

from dataclasses import replace

from numaudit.engine.collectors.base import Skipped, Tick
from numaudit.snapshot import Snapshot


def collect(tick: Tick, snapshot: Snapshot, _: Skipped) -> Snapshot:
    """The intent, and the containers with the names that the pods give them. Raises Unavailable without a kubelet.

    Asked after the census: whatever had a cgroup then was promised its memory before.
    """
    found = tick.kubelet.collect(tick.census.containers)
    return replace(snapshot, intent=found.intent, containers=found.containers)
