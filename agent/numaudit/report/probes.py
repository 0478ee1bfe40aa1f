"""The part of the report about the probes themselves. Every value goes out as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numaudit.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """One probe that was read, since it was loaded."""

    probe: str
    lost: Mapping[str, int]
    """Events that it did not count, by reason: map-full, busy, ring-full, no-address."""
    runs: int | None
    """Runs of its programs by the kernel's own count; null = kernel.bpf_stats_enabled is 0, or it has no program."""
    run_seconds: float | None
    """CPU time of these runs, the hook's own cost not included."""


def probe_reports(snapshot: Snapshot) -> tuple[ProbeReport, ...]:
    """None of a probe that rests or does not run."""
    return tuple(
        ProbeReport(name, account.lost, account.runs, account.run_seconds) for name, account in snapshot.probes.items()
    )
