"""The OTLP push of the agent."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from numaudit.config.settings import Settings
from numaudit.exporters.exposition import Exposition
from numaudit.exporters.facts import OtlpCounts

if TYPE_CHECKING:
    from numaudit.exporters import otel


class Push:
    """Imported and started only when there is a receiver."""

    def __init__(self, settings: Settings, current: Callable[[], Sequence[Exposition]], instance: str) -> None:
        self._settings, self._current, self._instance = settings.otlp, current, instance
        self._running = self._build() if settings.otlp.endpoint else None
        self._started = False

    def _build(self) -> otel.Push:
        from numaudit.exporters import otel  # noqa: PLC0415 (15 MiB)

        of = self._settings
        receiver = otel.Receiver(
            otel.endpoint_of(of.endpoint or ""),
            of.timeout,
            of.compression,
            None if of.ca_file is None else str(of.ca_file),
            dict(of.headers),
        )
        resource = otel.resource(os.environ, dict(of.resource), self._instance)
        return otel.Push(receiver, resource, self._current, of.interval)

    def start_once(self, there_is_a_tick: bool) -> None:
        if self._running is not None and there_is_a_tick and not self._started:
            self._started = True
            self._running.start()

    def stop(self, seconds: float) -> None:
        if self._running is not None and self._started:
            self._running.stop(seconds)

    def deliveries(self) -> int:
        return 0 if self._running is None else self._running.deliveries

    def counts(self) -> OtlpCounts | None:
        return None if self._running is None else self._running.counts()
