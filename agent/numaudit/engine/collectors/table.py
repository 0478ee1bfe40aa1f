"""All collectors, in the order of a tick."""

from __future__ import annotations

import importlib
from typing import Any, cast

from numaudit.engine.collectors.base import Collector
from numaudit.engine.collectors.containers.allowed import AllowedCollector
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.engine.collectors.containers.mappings import NumaMapsCollector, RootNumaMapsCollector
from numaudit.engine.collectors.containers.residency import ResidencyCollector
from numaudit.engine.collectors.node import NodeCollector
from numaudit.engine.collectors.numa_balancing import NumaBalancingCollector
from numaudit.engine.collectors.probes.probe_accounts import ProbeAccountsCollector
from numaudit.kubelet.kubelet_intent import KubeletIntent
from numaudit.probes.kinds import KINDS
from numaudit.probes.probe import Kind


def collectors(kubelet: KubeletIntent) -> tuple[Collector, ...]:
    """Those of one host."""
    return (
        NodeCollector(),
        ResidencyCollector(),
        IntentCollector(kubelet),
        AllowedCollector(),
        NumaBalancingCollector(),
        *map(_of_probe, KINDS),
        ProbeAccountsCollector(),
        NumaMapsCollector(),
        RootNumaMapsCollector(),
    )


def _of_probe(kind: Kind[Any]) -> Collector:
    """The module that says what a probe's answer means, and the class in it, have the probe's name."""
    module = importlib.import_module(f"numaudit.engine.collectors.probes.{kind.name}")
    return cast("Collector", getattr(module, kind.name.title().replace("_", "") + "Collector")())
