"""The work of `numaudit nrt`: one tick, or one after another, and the object of each that differs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import yaml

from numaudit.cli import options
from numaudit.cli.exits import EXIT_INTERRUPTED
from numaudit.daemon.ticks.schedule import Schedule
from numaudit.engine.collectors.probes.calibration import read_calibration
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, NumauditError, Unavailable
from numaudit.evaluation.room.for_schedulers import topology_here
from numaudit.kernel.host import Host, explain
from numaudit.kernel.origin import name_of_mounted, origin_of
from numaudit.kubelet.host_files import node_on
from numaudit.kubelet.questions.node_here import state_of
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.nrt.resource_topology import Plain, node_resource_topology
from numaudit.nrt.topology import NodeTopology
from numaudit.topology.machine import Machine

NAMELESS = "unknown"
"""Name of a host that has none, such as a capture without a note."""


def run(*, output: str, watch: float | None, root: Path | None) -> int:
    """Print what the options ask for. Raises InputError for options that do not fit, and Unavailable."""
    host = options.host(root)
    if watch is not None and not host.is_live:
        raise InputError("--watch looks for changes, and a capture has none: leave out --watch or --root")
    name, engine = node_name_of(host), Engine(Observer.of(host))
    if watch is not None:
        return print_changes(lambda: topology_of_host(engine, host, name or NAMELESS), output, watch)
    found = node_resource_topology(topology_of_host(engine, host, name or NAMELESS))
    if name is None:
        click.echo(f"numaudit: the host's name is not known, so metadata.name is {NAMELESS!r}", err=True)
    sys.stdout.write(_json(found, indent=2) if output == "json" else _yaml(found))
    return 0


def node_name_of(host: Host) -> str | None:
    """Name of this host's Node object: as a manifest passes it on, else the host's in lower case, as kubelets do.

    None = not known, as of some captures. A kubelet may have been given another name.
    """
    found = origin_of(host).host or name_of_mounted(host)
    return None if found is None else found.lower()


def topology_of_host(engine: Engine, host: Host, name: str) -> NodeTopology:
    """The node as it is now. Raises Unavailable with the reason where too little is known."""
    snapshot = engine.tick().snapshot
    found = topology_here(snapshot, name, _latencies(host, snapshot.machine))
    if found is None:
        raise Unavailable(_why_not(host))
    return found


def _latencies(host: Host, machine: Machine) -> dict[tuple[int, int], float] | None:
    try:
        return read_calibration(host, machine).latencies()
    except (Unavailable, OSError):  # `numaudit doctor` says why; the firmware's distances are there
        return None


def _why_not(host: Host) -> str:
    """By asking once more."""
    try:
        here = node_on(host, AskedKubelet())
        state_of(here.setup, here.files, here.pods, here.storage)
    except Unavailable as reason:
        return f"{reason}; run it on a node, as root, or give a captured one with --root"
    except InputError as error:
        return f"{error}; `numaudit state verify` says more"
    return (
        f"the kubelet's Memory Manager is static, but its memory_manager_state under {host.kubelet} is missing or "
        "damaged; run it as root; `numaudit state verify` says more"
    )


def print_changes(look: Callable[[], NodeTopology], output: str, seconds: float) -> int:
    """Print each object that differs from the one before, until Ctrl-C.

    Raises what the first look raises; what a later one raises is said once.
    """
    schedule = Schedule(seconds, time.monotonic())
    shown: Plain | None = None
    problem = ""
    try:
        while True:
            try:
                found = node_resource_topology(look(), shown)
                problem = ""
                if found != shown:
                    sys.stdout.write(_json(found) if output == "json" else f"---\n{_yaml(found)}")
                    sys.stdout.flush()
                    shown = found
            except (NumauditError, OSError) as error:
                if shown is None:
                    raise
                if explain(error) != problem:
                    problem = explain(error)
                    click.echo(f"numaudit: {problem}; still looking", err=True)
            time.sleep(max(0.0, schedule.next_due(time.monotonic()) - time.monotonic()))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _yaml(found: Plain) -> str:
    return yaml.safe_dump(found, sort_keys=False, width=2**31, allow_unicode=False)


def _json(found: Plain, indent: int | None = None) -> str:
    return json.dumps(found, indent=indent) + "\n"
