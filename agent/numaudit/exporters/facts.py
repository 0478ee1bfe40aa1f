"""Facts that the agent knows about itself. Values only; the agent fills them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from numaudit.evaluation.setup.facts import SetupLabels
from numaudit.exporters.rejections import RejectionCounts
from numaudit.exporters.selection import Omitted
from numaudit.nrt.apiserver import PublishCounts
from numaudit.report.values import ContainerReport, Report
from numaudit.snapshot import Check


class Feature(Struct, frozen=True):
    """One thing that this host lets the agent measure, or not."""

    name: str
    enabled: bool
    reason: str | None = None
    """Reason why it is off, or reduced: one word of a fixed vocabulary."""

    @classmethod
    def of(cls, check: Check) -> Feature:
        """As the doctor found it."""
        reason = None if check.state == "ok" else check.reason or check.state
        return cls(check.name.replace(" ", "_"), check.works, reason)


class ExportedTick(Struct, frozen=True):
    """One tick's result and what was found at start."""

    report: Report
    version: str
    python: str
    started_at: float
    """Of the agent, in seconds since the epoch."""
    booted_at: float | None = None
    """Of the host: since then the kernel counts. None = not known."""
    selected: Sequence[ContainerReport] = ()
    """The containers that the settings select for series, before labels and series are left out."""
    features: tuple[Feature, ...] = ()
    ended_containers: int = 0
    """Exported although they have ended, so that the next scrapes see their last values."""
    dropped_series: Mapping[str, int] = field(default_factory=dict)
    """Reason -> series left out since start, one count for each tick."""
    omitted: Omitted = Omitted()
    """Series that `max_series` left out of this tick."""
    setup: SetupLabels = SetupLabels()
    """How the node is set up."""
    rejections: RejectionCounts = RejectionCounts()
    """Pods that the kubelet refused since start."""


class OtlpCounts(Struct, frozen=True):
    """Deliveries as the agent itself counted them."""

    batches: Mapping[str, int]
    """delivered, failed -> batches."""
    points: Mapping[str, int]
    """delivered, rejected, failed -> data points."""
    last_success: float | None = None
    """Time when every point was delivered last, in seconds since the epoch; None = not yet."""


class PushCounts(Struct):
    """Results of the pushes so far. Written by the thread that pushes, read by others."""

    deliveries: int = 0
    """Pushes of which every part was delivered."""
    last_success: float | None = None
    """Time when that was last so, in seconds since the epoch."""
    batches: Counter[str] = field(default_factory=lambda: Counter(delivered=0, failed=0))
    points: Counter[str] = field(default_factory=lambda: Counter(delivered=0, rejected=0, failed=0))

    def now(self) -> OtlpCounts:
        """The counts so far."""
        return OtlpCounts(dict(self.batches), dict(self.points), self.last_success)


class Live(Struct, frozen=True):
    """Values that are true at the moment of asking, tick or no tick."""

    snapshot_age: float | None
    """Seconds since the newest snapshot was taken; None before the first."""
    ticks: int
    failed_ticks: int
    missed_ticks: int
    tick_seconds: float | None
    """Wall-clock time of the newest tick, rendering included."""
    tick_cpu_seconds: float | None
    """CPU time of the newest tick, rendering included, without other threads."""
    cpu_seconds: float
    resident_bytes: int | None
    virtual_bytes: int | None
    open_files: int
    most_files: int | None
    """None = there is no limit."""
    process_started_at: float
    """In seconds since the epoch."""
    threads: int
    requests: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Path and status code -> HTTP requests answered."""
    connections: int = 0
    evicted_connections: int = 0
    web_config_valid: bool | None = None
    """False: the file on disk is wrong and the one read before is in force. None = there is no file."""
    otlp: OtlpCounts | None = None
    nrt: PublishCounts | None = None
    """None = nothing is published."""
    suppressed_log_lines: int = 0
    reload_success: bool | None = None
    """False: the settings were wrong as they were read last. None = they are never read again."""
    reloaded_at: float | None = None
    """Time when the settings in force were read, in seconds since the epoch."""
