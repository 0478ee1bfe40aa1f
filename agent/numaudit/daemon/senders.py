"""What the agent sends by itself: the OTLP push, and the node's NodeResourceTopology. What one needs is imported only
where the settings ask for it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from numaudit.config.settings import NrtSettings, Settings
from numaudit.daemon.service import Service
from numaudit.errors import InputError, Unavailable
from numaudit.exporters.exposition import Exposition
from numaudit.exporters.facts import PushCounts
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.origin import name_of_mounted, node_name, origin_of
from numaudit.nrt.apiserver import PublishCounts, check_installed

if TYPE_CHECKING:
    from numaudit.daemon.ticks.publisher import Newest
    from numaudit.exporters.otlp_push import OtlpPusher
    from numaudit.nrt.apiserver.publisher import NrtPublisher
    from numaudit.nrt.apiserver.publishing import Wanted

_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
_WITHOUT_EFFECT = re.compile(
    r"OTEL_EXPORTER_OTLP_\w+|(HTTP|HTTPS|ALL)_PROXY|(REQUESTS_CA|CURL_CA)_BUNDLE", re.IGNORECASE
)
_log = logging.getLogger(__name__)


class Sender(Service, Protocol):
    """A service that waits for ticks."""

    def there_is_a_tick(self) -> None:
        """There is something to send, or it may have changed."""


def otlp_pusher(
    settings: Settings, current: Callable[[], Sequence[Exposition]], counts: PushCounts, host: Host
) -> OtlpPusher:
    """Pushes from the first tick on. Raises InputError for settings that are wrong."""
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
    return otlp_push.OtlpPusher(
        receiver, otel.resource(node, dict(of.resource), instance), current, of.interval, counts
    )


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


def nrt_publisher(
    settings: NrtSettings, newest: Newest, is_current: Callable[[], bool], counts: PublishCounts, host: Host
) -> NrtPublisher:
    """Publishes from the first tick on. Raises InputError for settings that do not fit."""
    if not host.is_live:
        raise InputError("nrt.publish: a captured host is no node of a cluster; leave out --root, or set it to none")
    check_installed("nrt.publish")
    from numaudit.nrt.apiserver import client, failures, publisher, publishing  # noqa: PLC0415 (6 MiB)

    counts.failures.update(dict.fromkeys(failures.Reason, 0))

    def connect() -> client.ApiServer:
        return client.ApiServer(client.find_config(settings.kubeconfig), settings.timeout)

    def node() -> str:
        return publishing.node_of(origin_of(host).host or name_of_mounted(host))

    describe = partial(described, newest, is_current, host, own=settings.publish == "own")
    return publisher.NrtPublisher(connect, node, describe, counts, publisher.Pace(settings.interval))


def described(
    newest: Newest, is_current: Callable[[], bool], host: Host, published: Mapping[str, str], *, own: bool
) -> Wanted:
    """`published`: our annotations as they are there. Raises Unavailable while there is no tick or too little is known.

    Called by the thread that publishes; a tick's values never change.
    """
    from numaudit.engine.collectors.probes.calibration import latencies_here  # noqa: PLC0415
    from numaudit.evaluation.for_schedulers import topology_here  # noqa: PLC0415
    from numaudit.nrt.apiserver.publishing import wanted_of  # noqa: PLC0415

    tick = newest.published
    if tick is None or not is_current():
        raise Unavailable("there is no current tick")
    snapshot = tick.ticked.snapshot
    # The object's name is part of the request, not of what is published.
    topology = topology_here(snapshot, "", latencies_here(host, snapshot.machine))
    if topology is None:
        raise Unavailable("too little is known of the kubelet on this node; `numaudit nrt` says why")
    return wanted_of(topology, published, own=own)
