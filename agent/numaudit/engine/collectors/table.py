"""All collectors of a tick, in their order."""

from __future__ import annotations

import importlib
from typing import Any

from numaudit.engine.collectors import node, numa_balancing
from numaudit.engine.collectors.base import Collector, Tick
from numaudit.engine.collectors.containers import allowed, intent, mappings, residency
from numaudit.engine.collectors.probes import probe_accounts
from numaudit.probes.kinds import KINDS
from numaudit.probes.probe import Kind


def _with_probes(tick: Tick) -> bool:
    return tick.readings is not None


def _with_a_budget(tick: Tick) -> bool:
    return tick.mappings_budget is not None


def _of_probe(kind: Kind[Any]) -> Collector:
    """The module that says what a probe's answer means has the probe's name."""
    module = importlib.import_module(f"numaudit.engine.collectors.probes.{kind.name}")
    return Collector(kind.name, module.collect, probe=kind)


COLLECTORS = (
    Collector("node", node.collect),
    Collector("residency", residency.collect),
    Collector("intent", intent.collect),
    Collector("allowed", allowed.collect),
    Collector("numa_balancing", numa_balancing.collect),
    *map(_of_probe, KINDS),
    Collector("bpf account", probe_accounts.collect, is_due=_with_probes),
    Collector("numa_maps", mappings.collect, is_due=_with_a_budget),
    Collector("numa_maps of the root cgroup", mappings.collect_root, is_due=_with_a_budget),
)
"""One whose answer comes from a probe is due when probes are asked, and that probe was asked for."""
