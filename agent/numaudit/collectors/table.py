"""All collectors of a tick, in their order, and all kinds of probes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from numaudit.collectors import (
    allowed,
    cpu_time,
    first_touch,
    hint_faults,
    intent,
    mappings,
    migrations,
    node,
    numa_balancing,
    page_alloc,
    pmu,
    probe_accounts,
    residency,
)
from numaudit.collectors.base import Collector, Tick
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.first_touch import FIRST_TOUCH
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.migrations import MIGRATIONS
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.pmu import PMU
from numaudit.probes.probe import Kind


def _with_probes(tick: Tick) -> bool:
    return tick.readings is not None


def _with_a_budget(tick: Tick) -> bool:
    return tick.mappings_budget is not None


COLLECTORS = (
    Collector("node", node.collect),
    Collector("residency", residency.collect),
    Collector("intent", intent.collect),
    Collector("allowed", allowed.collect),
    Collector("numa_balancing", numa_balancing.collect),
    Collector("page_alloc", page_alloc.collect, probe=PAGE_ALLOC),
    Collector("cpu_time", cpu_time.collect, probe=CPU_TIME),
    Collector("pmu", pmu.collect, probe=PMU),
    Collector("hint_faults", hint_faults.collect, probe=HINT_FAULTS),
    Collector("migrations", migrations.collect, probe=MIGRATIONS),
    Collector("first_touch", first_touch.collect, probe=FIRST_TOUCH),
    Collector("bpf account", probe_accounts.collect, is_due=_with_probes),
    Collector("numa_maps", mappings.collect, is_due=_with_a_budget),
    Collector("numa_maps of the root cgroup", mappings.collect_root, is_due=_with_a_budget),
)
"""One whose answer comes from a probe is due when probes are asked, and that probe was asked for."""

KINDS: tuple[Kind[Any], ...] = tuple(one.probe for one in COLLECTORS if one.probe is not None)


def kinds_by_default() -> tuple[Kind[Any], ...]:
    """Those that a one-off report runs by default."""
    return tuple(kind for kind in KINDS if kind.by_default)


def kinds_named(names: Collection[str]) -> tuple[Kind[Any], ...]:
    """Those of these names."""
    return tuple(kind for kind in KINDS if kind.name in names)
