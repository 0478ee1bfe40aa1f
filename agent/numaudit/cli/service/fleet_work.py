"""Ask a Prometheus, and print a report or where a pod would fit, for `numaudit fleet`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from numaudit.api.fleet_document import FleetForecast, FleetReport
from numaudit.cli import json_output
from numaudit.cli.exits import EXIT_FINDINGS
from numaudit.config import yaml_document
from numaudit.errors import InputError, Unavailable
from numaudit.fleet.fits import Question
from numaudit.fleet.forecast import ask_maps, forecast
from numaudit.fleet.http_config import HttpConfig, read_http_config
from numaudit.fleet.prometheus import connected
from numaudit.fleet.report import ask_report
from numaudit.fleet.scope import Scope
from numaudit.fleet.sentences import what_is_missing
from numaudit.scenario.manifests import Manifest, read_manifests
from numaudit.value import Origin


def run(
    *,
    url: str,
    output: str,
    settings: Path | None,
    namespace: str | None,
    top: int,
    selector: str,
    node_label: str,
    time_out: float,
    pod: Path | None,
    count: int | None,
    max_age: float,
    fail_on: frozenset[str] | None,
    fail_on_reject: bool,
) -> None:
    """Print what the options ask for. Raises InputError for options that do not fit, and Unavailable."""
    scope = Scope(node_label, selector, namespace)
    config = HttpConfig() if settings is None else read_http_config(settings)
    if pod is None:
        if count is not None or fail_on_reject:
            raise InputError("--count and --fail-on-reject are about a pod: give it with --fits pod.yaml")
        verdicts = fail_on or frozenset()
        with connected(url, config, time_out) as prometheus:
            found = ask_report(prometheus, scope, top)
        if namespace is not None and not found.verdicts and not found.refused_workloads:
            _refuse_namespace(namespace, what_is_missing(found, prometheus.warnings))
        _print(found, output, top)
        _exit_if(any(found.verdicts.get(name) for name in verdicts))
        if verdicts and (missing := what_is_missing(found, prometheus.warnings)):
            raise Unavailable(f"--fail-on: no container has one of these verdicts, but not all are known: {missing}")
        return
    if fail_on is not None or namespace is not None:
        raise InputError("--fail-on and --namespace are about containers that run: leave them out with --fits")
    manifest = _only_one(read_manifests(yaml_document.read_all(pod, "the pod")))
    number = manifest.replicas if count is None else count
    with connected(url, config, time_out) as prometheus:
        foreseen = forecast(prometheus, ask_maps(prometheus, scope), Question(manifest.pod, number, top, max_age))
    _print(foreseen, output, top)
    _exit_if(fail_on_reject and not foreseen.is_enough)


def _only_one(manifests: Sequence[Manifest]) -> Manifest:
    if len(manifests) > 1:
        names = ", ".join(one.pod.full_name for one in manifests[:3])
        raise InputError(f"--fits takes one pod or workload, and the file has {len(manifests)}: {names}; give one")
    return manifests[0]


def _refuse_namespace(namespace: str, missing: str | None) -> NoReturn:
    """Raises InputError; Unavailable where it may be on a node that is not known."""
    said = f"no container is in namespace {namespace!r}"
    if missing is not None:
        raise Unavailable(f"{said}, but not all are known: {missing}")
    raise InputError(f"{said} on the nodes that report; `numaudit fleet` without -n shows all of them")


def _print(found: FleetReport | FleetForecast, output: str, top: int) -> None:
    if output == "json":
        json_output.write(type(found).__name__, found, Origin(None, found.taken_at))
        return
    from numaudit.views.terminal import fleet_tables, terminal

    out = terminal.console()
    if isinstance(found, FleetReport):
        fleet_tables.print_fleet(found, top, out)
    else:
        fleet_tables.print_fits(found, out)


def _exit_if(is_finding: bool) -> None:
    if is_finding:
        click.get_current_context().exit(EXIT_FINDINGS)
