"""The agent's metrics about itself at any moment."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Mapping

import psutil
from msgspec import Struct, field

from numaudit.daemon.logs import RateLimit
from numaudit.daemon.reload import Reload
from numaudit.daemon.ticks.health import HealthMonitor
from numaudit.daemon.ticks.schedule import Schedule
from numaudit.daemon.ticks.ticker import Newest
from numaudit.daemon.web.auth import AccessRules
from numaudit.daemon.web.connections import Connections
from numaudit.exporters.exposition import Exposition, evaluate_live
from numaudit.exporters.facts import Live, PushCounts
from numaudit.nrt.apiserver import PublishCounts


class LiveNumbers(Struct):
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
    _process: psutil.Process = field(default_factory=psutil.Process)

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
