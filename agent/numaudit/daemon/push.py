"""The OTLP push of the agent."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from numaudit.config.settings import Settings
from numaudit.exporters.exposition import Exposition
from numaudit.exporters.facts import OtlpCounts
from numaudit.kernel.host import Host, read_text

if TYPE_CHECKING:
    from numaudit.exporters import otlp_push

_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
_WITHOUT_EFFECT = re.compile(
    r"OTEL_EXPORTER_OTLP_\w+|(HTTP|HTTPS|ALL)_PROXY|(REQUESTS_CA|CURL_CA)_BUNDLE", re.IGNORECASE
)
_log = logging.getLogger(__name__)


class Push:
    """Imported and started only when there is a receiver. Raises InputError for settings that are wrong."""

    def __init__(self, settings: Settings, current: Callable[[], Sequence[Exposition]], host: Host) -> None:
        self._running = _build(settings, current, host) if settings.otlp.endpoint else None
        self._started = False

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


def _build(settings: Settings, current: Callable[[], Sequence[Exposition]], host: Host) -> otlp_push.Push:
    from numaudit.exporters import otel, otlp_delivery, otlp_push  # noqa: PLC0415 (10 MiB)

    of = settings.otlp
    receiver = otlp_delivery.Receiver(of.endpoint or "", of.timeout, of.compression, of.ca_file, dict(of.headers))
    ignored = without_effect(os.environ)
    if ignored:
        _log.info("the OTLP push goes by the settings otlp.* alone: %s do nothing for it", ", ".join(ignored))
    instance = otel.instance_id(machine_id(host), otel.node_name(os.environ), settings.listen)
    resource = otel.resource(os.environ, dict(of.resource), instance)
    return otlp_push.Push(receiver, resource, current, of.interval)


def without_effect(environment: Mapping[str, str]) -> list[str]:
    """Variables by which other programs choose where to push, through whom, and whom to trust."""
    return sorted(name for name in environment if _WITHOUT_EFFECT.fullmatch(name))


def machine_id(host: Host) -> str | None:
    """What systemd calls this installation; None where there is none, as in most containers."""
    try:
        text = read_text(host.at("/etc/machine-id")).strip()
    except OSError:
        return None
    return text if _MACHINE_ID.fullmatch(text) else None
