"""What did the probes not count, and how often did their programs run?"""

from __future__ import annotations

from dataclasses import dataclass

from numaudit.collectors.base import Skipped
from numaudit.kernel.host import Host, read_text
from numaudit.probes.session import Session
from numaudit.snapshot import ProbeAccount

_REASONS = {
    "dropped": "map-full",
    "missed": "busy",
    "lost": "ring-full",
    "without_address": "no-address",
}
"""Field of a probe's read -> what it counts. `busy`: another BPF program was running on that CPU."""


@dataclass(frozen=True, slots=True)
class ProbeAccounts:
    """Looks at what each probe told of itself when it was last read."""

    host: Host
    session: Session

    def collect(self, _: Skipped) -> dict[str, ProbeAccount]:
        """By the probe's name, of those that were read in this look. Raises OSError."""
        runs = self.session.read_runs() if self._runs_are_counted() else {}
        accounts = {}
        for name, read in self.session.last_reads.items():
            lost = {reason: getattr(read, field) for field, reason in _REASONS.items() if hasattr(read, field)}
            count, seconds = runs.get(name, (None, None))
            accounts[name] = ProbeAccount(name, lost, count, seconds)
        return accounts

    def _runs_are_counted(self) -> bool:
        """kernel.bpf_stats_enabled; a kernel without it has no statistics."""
        try:
            return read_text(self.host.proc / "sys/kernel/bpf_stats_enabled").strip() == "1"
        except FileNotFoundError:
            return False
