"""All kinds of probes, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.migrations import MIGRATIONS
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.pmu import PMU
from numaudit.probes.probe import ProbeKind

KINDS: tuple[ProbeKind[Any], ...] = (PAGE_ALLOC, CPU_TIME, PMU, HINT_FAULTS, MIGRATIONS)


def kinds_named(names: Collection[str]) -> tuple[ProbeKind[Any], ...]:
    """Those of these names."""
    return tuple(kind for kind in KINDS if kind.name in names)
