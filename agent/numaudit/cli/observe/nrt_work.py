"""The work of `numaudit nrt`: one tick, and the object of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import yaml

from numaudit.cli import options
from numaudit.engine.collectors.probes.calibration import latencies_here
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, Unavailable
from numaudit.evaluation.for_schedulers import topology_here
from numaudit.kernel.host import Host
from numaudit.kernel.origin import name_of_mounted, origin_of
from numaudit.kubelet.host_files import ON_A_NODE, node_on
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.nrt.apiserver import check_installed
from numaudit.nrt.resource_topology import Plain, node_resource_topology
from numaudit.nrt.topology import NodeTopology

NAMELESS = "unknown"
"""Name of a host that has none, such as a capture without a note."""
_SECONDS = 20.0
"""For each answer of the API server."""


def run(*, output: str, root: Path | None, apply: bool, own: bool) -> None:
    """Print or write what the options ask for. Raises InputError for options that do not fit, and Unavailable."""
    host = options.host(root)
    if apply:
        _apply(host, own=own)
        return
    if own:
        raise InputError("--own is about what --apply writes, and nothing is written without it: add --apply")
    name = node_name_of(host)
    found = node_resource_topology(topology_of_host(Engine(Observer.of(host)), host, name or NAMELESS))
    if name is None:
        click.echo(f"numaudit: the host's name is not known, so metadata.name is {NAMELESS!r}", err=True)
    sys.stdout.write(f"{json.dumps(found, indent=2)}\n" if output == "json" else _yaml(found))


def _apply(host: Host, *, own: bool) -> None:
    """Write what differs, and print what was written. Raises Unavailable, also where the whole object is another's."""
    if not host.is_live:
        raise InputError("--apply writes what this node is, and a capture is no node: leave out --apply or --root")
    check_installed("--apply")
    from numaudit.nrt.apiserver import client, publishing

    name = publishing.node_of(node_name_of(host))
    server = client.ApiServer(client.find_config(None), _SECONDS)
    try:
        topology = topology_of_host(Engine(Observer.of(host)), host, name)
        found = publishing.publish(server, name, lambda published: publishing.wanted_of(topology, published, own=own))
    finally:
        server.close()
    done = f"wrote {' and '.join(found.written)}" if found.written else "unchanged"
    click.echo(f"noderesourcetopology/{name}: {done}")
    if found.refusal is not None:
        raise found.refusal


def node_name_of(host: Host) -> str | None:
    """Name of this host's Node object: as a manifest passes it on, else the host's in lower case, as kubelets do.

    None = not known, as of some captures. A kubelet may have been given another name.
    """
    found = origin_of(host).host or name_of_mounted(host)
    return None if found is None else found.lower()


def topology_of_host(engine: Engine, host: Host, name: str) -> NodeTopology:
    """The node as it is now. Raises Unavailable with the reason where too little is known."""
    snapshot = engine.tick().snapshot
    found = topology_here(snapshot, name, latencies_here(host, snapshot.machine))
    if found is None:
        raise Unavailable(_why_not(host))
    return found


def _why_not(host: Host) -> str:
    """By asking once more."""
    try:
        node_on(host, AskedKubelet())
    except Unavailable as reason:
        return f"{reason}; {ON_A_NODE}"
    except InputError as error:
        return f"{error}; `numaudit state verify` says more"
    return (
        f"the kubelet's Memory Manager is static, but its memory_manager_state under {host.kubelet_root} is missing or "
        "damaged; run it as root; `numaudit state verify` says more"
    )


def _yaml(found: Plain) -> str:
    return yaml.safe_dump(found, sort_keys=False, width=2**31, allow_unicode=False)
