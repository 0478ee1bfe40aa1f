"""Do ticks come and succeed, and do all services work? And the agent's metrics about itself at any moment.

What was published is served only as long as ticks succeed.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import psutil

from numaudit.daemon.logs import RateLimit
from numaudit.daemon.reload import Reload
from numaudit.daemon.ticks.publisher import Newest
from numaudit.daemon.ticks.schedule import Schedule
from numaudit.daemon.web.auth import AccessRules
from numaudit.daemon.web.connections import Connections
from numaudit.daemon.web.pages import Health
from numaudit.exporters.exposition import Exposition, evaluate_live
from numaudit.exporters.facts import Live, PushCounts
from numaudit.nrt.apiserver import PublishCounts

_MOST = 3
"""This many failed ticks in a row, or intervals since the newest snapshot, and the agent is not healthy."""
_LEAST_SECONDS = 10.0
"""A snapshot may always be this old: ticks of a second may take longer now and then."""
_TO_BEGIN = 60.0
"""Seconds that the first tick may take, if three intervals are less."""


class _Success(NamedTuple):
    """A tick that gave a snapshot."""

    number: int
    observed_at: float
    ended_at: float


@dataclass(slots=True)
class HealthMonitor:
    """Record of the ticker's ticks, and the health that follows from it. Read by other threads."""

    interval: float
    died: Callable[[], Sequence[str]] = tuple
    """Names of services that ended by an error of theirs."""
    now: Callable[[], float] = time.monotonic
    note: Callable[[], str] = str
    """Of what goes on beside the ticks and leaves the agent healthy; "" = nothing."""
    failed: int = 0
    _begun: float = field(init=False)
    _newest: _Success | None = None
    """One value, so that other threads never see half of it."""
    _failed_in_a_row: int = 0

    def __post_init__(self) -> None:
        self._begun = self.now()

    def success(self, observed_at: float) -> None:
        """A tick has ended with a snapshot that was taken at this time, by the clock `now`."""
        self._newest = _Success(self.succeeded + 1, observed_at, self.now())
        self._failed_in_a_row = 0

    def failure(self) -> None:
        """A tick gave none."""
        self.failed += 1
        self._failed_in_a_row += 1

    @property
    def succeeded(self) -> int:
        """Ticks so far that gave a snapshot."""
        return 0 if self._newest is None else self._newest.number

    @property
    def age(self) -> float | None:
        """Seconds since the newest snapshot was taken; None before the first."""
        return None if self._newest is None else self.now() - self._newest.observed_at

    def is_current(self) -> bool:
        """Return True when the newest snapshot may still be served."""
        return self._newest is not None and self._of_ticks().good

    def health(self) -> Health:
        """Return the agent's health: whether it does its work, and a sentence."""
        ticks = self._of_ticks()
        if ticks.good and (died := self.died()):
            return Health(False, f"ended by an internal error: {', '.join(died)}; the log says why")
        note = self.note()
        return Health(True, f"{ticks.text}; {note}") if ticks.good and note else ticks

    def readiness(self) -> Health:
        """Return the agent's readiness: whether there is a snapshot to serve."""
        if self._newest is None:
            return Health(False, "no snapshot yet")
        return Health(True, "ready")

    def _of_ticks(self) -> Health:
        if self._failed_in_a_row >= _MOST:
            return Health(False, f"the newest {self._failed_in_a_row} ticks failed; the log says why")
        newest, limit = self._newest, max(_LEAST_SECONDS, _MOST * self.interval)
        if newest is None:
            silent = self.now() - self._begun
            good = silent < max(_TO_BEGIN, limit)
            return Health(good, "ok: the first tick is under way" if good else f"no tick has ended for {silent:.0f} s")
        age = self.now() - newest.observed_at
        if age > limit:
            return Health(False, f"the newest snapshot is {age:.0f} s old")
        return Health(True, f"ok: {newest.number} ticks, the newest ended {self.now() - newest.ended_at:.2f} s ago")


class LiveNumbers(msgspec.Struct):
    """Asks each part of the agent for its counts. Safe to use from many threads."""

    started_at: float
    """In seconds since the epoch."""
    newest: Newest
    schedule: Schedule
    health: HealthMonitor
    access: AccessRules
    connections: Connections
    requests: Mapping[tuple[str, str], int]
    """Path and status -> HTTP requests answered."""
    push_counts: PushCounts | None
    """None = there is no OTLP receiver."""
    nrt_counts: PublishCounts | None
    """None = no NodeResourceTopology is published."""
    log_limit: RateLimit
    reload: Reload | None
    """None = the settings stay as they are."""
    _process: psutil.Process = msgspec.field(default_factory=psutil.Process)

    def exposition(self) -> Exposition:
        """Metrics that are true at this moment."""
        return evaluate_live(self.now(), self.started_at)

    def with_newest_tick(self) -> list[Exposition]:
        """The newest tick, as long as it may be served, and what is true at this moment."""
        published = self.newest.published
        current = [published.exposition] if published is not None and self.health.is_current() else []
        return [*current, self.exposition()]

    def now(self) -> Live:
        """Values that are true at this moment."""
        resident, virtual = self._memory()
        return Live(
            snapshot_age=self.health.age,
            ticks=self.health.succeeded,
            failed_ticks=self.health.failed,
            missed_ticks=self.schedule.missed,
            tick_seconds=self.newest.tick_seconds,
            tick_cpu_seconds=self.newest.tick_cpu_seconds,
            cpu_seconds=time.process_time(),
            resident_bytes=resident,
            virtual_bytes=virtual,
            open_files=_open_files(),
            most_files=_most_files(),
            process_started_at=self._process.create_time(),
            threads=threading.active_count(),
            requests=dict(self.requests),
            connections=len(self.connections),
            evicted_connections=self.connections.evicted,
            web_config_valid=self.access.valid,
            otlp=None if self.push_counts is None else self.push_counts.now(),
            nrt=self.nrt_counts,
            suppressed_log_lines=self.log_limit.suppressed,
            reload_success=None if self.reload is None else self.reload.succeeded,
            reloaded_at=None if self.reload is None else self.reload.succeeded_at,
        )

    def _memory(self) -> tuple[int | None, int | None]:
        """Resident and virtual bytes."""
        try:
            memory = self._process.memory_info()
        except OSError:  # too many open files: what else is known is still said
            return None, None
        return memory.rss, memory.vms


def _open_files() -> int:
    """Some kernels (seen on 6.18) give the number as the folder's size; others give 0, and the list has to be read.

    Source: fs/proc/fd.c (proc_fd_getattr).
    """
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # noqa: PTH116, PTH208


def _most_files() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
