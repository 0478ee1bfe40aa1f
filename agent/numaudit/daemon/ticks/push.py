"""The OTLP push of the agent."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from numaudit.config.settings import Settings
from numaudit.exporters.exposition import Exposition
from numaudit.exporters.facts import PushCounts
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.origin import node_name

if TYPE_CHECKING:
    from numaudit.exporters import otlp_push

_LAST_PUSH = 1.5
"""Seconds for the last push when the agent ends."""
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
_WITHOUT_EFFECT = re.compile(
    r"OTEL_EXPORTER_OTLP_\w+|(HTTP|HTTPS|ALL)_PROXY|(REQUESTS_CA|CURL_CA)_BUNDLE", re.IGNORECASE
)
_log = logging.getLogger(__name__)


class PushService:
    """A service: it pushes from the first tick on, if there is a receiver. What it needs is imported only then.

    Raises InputError for settings that are wrong.
    """

    name = "otlp"

    def __init__(
        self, settings: Settings, current: Callable[[], Sequence[Exposition]], counts: PushCounts, host: Host
    ) -> None:
        self.counts = counts
        self._first_tick = threading.Event()
        self._running = None
        if settings.otlp.endpoint:
            self._running = _build(settings, current, counts, self._first_tick, host)

    def start(self) -> None:
        if self._running is not None:
            self._running.start()

    def there_is_a_tick(self) -> None:
        """From now on there is something to push."""
        self._first_tick.set()

    def stop(self, seconds: float) -> None:
        if self._running is not None:
            self._running.stop(min(seconds, _LAST_PUSH))

    def has_died(self) -> bool:
        return self._running is not None and self._running.has_died()


def _build(
    settings: Settings,
    current: Callable[[], Sequence[Exposition]],
    counts: PushCounts,
    first_tick: threading.Event,
    host: Host,
) -> otlp_push.OtlpPusher:
    from numaudit.exporters import otel, otlp_delivery, otlp_push  # noqa: PLC0415 (10 MiB)

    of = settings.otlp
    receiver = otlp_delivery.Receiver(of.endpoint or "", of.timeout, of.compression, of.ca_file, dict(of.headers))
    ignored = without_effect(os.environ)
    if ignored:
        _log.info(
            "only the settings otlp.* configure the OTLP push; these variables have no effect on it: %s",
            ", ".join(ignored),
        )
    node = node_name(os.environ)
    instance = otel.instance_id(machine_id(host), node, settings.listen)
    resource = otel.resource(node, dict(of.resource), instance)
    return otlp_push.OtlpPusher(receiver, resource, current, of.interval, counts, first_tick)


def without_effect(environment: Mapping[str, str]) -> list[str]:
    """Variables by which other programs choose the receiver of a push, its proxy and the trusted authorities."""
    return sorted(name for name in environment if _WITHOUT_EFFECT.fullmatch(name))


def machine_id(host: Host) -> str | None:
    """systemd's name of this installation; None where there is none, as in most containers."""
    try:
        text = read_text(host.at("/etc/machine-id")).strip()
    except OSError:
        return None
    return text if _MACHINE_ID.fullmatch(text) else None
