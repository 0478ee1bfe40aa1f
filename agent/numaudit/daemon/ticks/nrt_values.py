"""Values of the newest tick that are published."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numaudit.daemon.ticks.ticker import Newest
from numaudit.engine.collectors.probes.calibration import latencies_here
from numaudit.errors import Unavailable
from numaudit.evaluation.for_schedulers import topology_here
from numaudit.kernel.host import Host
from numaudit.nrt.apiserver.publishing import Wanted, wanted_of


def described(
    newest: Newest, is_current: Callable[[], bool], host: Host, published: Mapping[str, str], *, own: bool
) -> Wanted:
    """`published`: our annotations as they are there. Raises Unavailable while there is no tick or too little is known.

    Called by the thread that publishes; a tick's values never change.
    """
    tick = newest.published
    if tick is None or not is_current():
        raise Unavailable("there is no current tick")
    snapshot = tick.ticked.snapshot
    # The object's name is part of the request, not of what is published.
    topology = topology_here(snapshot, "", latencies_here(host, snapshot.machine))
    if topology is None:
        raise Unavailable("too little is known of the kubelet on this node; `numaudit nrt` says why")
    return wanted_of(topology, published, own=own)
