"""The service that publishes the node's NodeResourceTopology, where the settings ask for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from numaudit.config.settings import NrtSettings
from numaudit.errors import InputError
from numaudit.kernel.host import Host
from numaudit.kernel.origin import name_of_mounted, origin_of
from numaudit.nrt.apiserver import PublishCounts, check_installed

if TYPE_CHECKING:
    from numaudit.daemon.ticks.ticker import Newest
    from numaudit.nrt.apiserver.publisher import NrtPublisher

_STOP = 1.0
"""Seconds that a request under way has when the agent ends."""


class NrtService:
    """A service: it publishes from the first tick on, if it is to. What it needs is imported only then.

    Raises InputError for settings that do not fit.
    """

    name = "nrt"

    def __init__(
        self,
        settings: NrtSettings,
        newest: Newest,
        is_current: Callable[[], bool],
        counts: PublishCounts | None,
        host: Host,
    ) -> None:
        """`counts` None = nothing is published."""
        self._running = None
        if counts is not None:
            self._running = _build(settings, newest, is_current, counts, host)

    def start(self) -> None:
        if self._running is not None:
            self._running.start()

    def there_is_a_tick(self) -> None:
        """Something may have changed."""
        if self._running is not None:
            self._running.there_is_a_tick()

    def stop(self, seconds: float) -> None:
        if self._running is not None:
            self._running.stop(min(seconds, _STOP))

    def has_died(self) -> bool:
        return self._running is not None and self._running.has_died()


def _build(
    settings: NrtSettings, newest: Newest, is_current: Callable[[], bool], counts: PublishCounts, host: Host
) -> NrtPublisher:
    if not host.is_live:
        raise InputError("nrt.publish: a captured host is no node of a cluster; leave out --root, or set it to none")
    check_installed("nrt.publish")
    from numaudit.daemon.ticks.nrt_values import described  # noqa: PLC0415
    from numaudit.nrt.apiserver import client, failures, publisher, publishing  # noqa: PLC0415 (6 MiB)

    counts.failures.update(dict.fromkeys(failures.Reason, 0))

    def connect() -> client.ApiServer:
        return client.ApiServer(client.find_config(settings.kubeconfig), settings.timeout)

    def node() -> str:
        return publishing.node_of(origin_of(host).host or name_of_mounted(host))

    describe = partial(described, newest, is_current, host, own=settings.publish == "own")
    return publisher.NrtPublisher(connect, node, describe, counts, publisher.Pace(settings.interval))
