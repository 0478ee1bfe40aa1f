"""`numaudit fleet`: the whole cluster, from a Prometheus that scrapes the agents."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click

from numaudit.api.fleet_document import FleetForecast, FleetReport
from numaudit.cli import json_output, options
from numaudit.cli.exits import EXIT_FINDINGS
from numaudit.cli.verdict_list import VerdictList
from numaudit.config import yaml_document
from numaudit.errors import InputError, Unavailable
from numaudit.fleet.forecast import ask_maps, forecast
from numaudit.fleet.http_config import HttpConfig, read_http_config
from numaudit.fleet.prometheus import connected
from numaudit.fleet.report import ask_report
from numaudit.fleet.scope import DEFAULT_NODE_LABEL, Scope
from numaudit.fleet.sentences import what_is_missing
from numaudit.scenario.reading import read_manifest
from numaudit.value import Origin

_FILE = options.FilePath(exists=True, dir_okay=False, readable=False)


@click.command(
    epilog="""\b
Examples:
  numaudit fleet --prometheus http://prometheus.monitoring:9090
  numaudit fleet --prometheus https://mimir/prometheus --http.config.file http.yaml -n prod
  numaudit fleet --prometheus http://prometheus:9090 --fits pod.yaml --count 5
Exit codes: 0 fine, 1 findings under --fail-on or --fail-on-reject, 2 usage, 3 the server cannot answer.
"""
)
@click.option(
    "--prometheus", "url", required=True, metavar="URL", help="URL of Prometheus, Thanos, Mimir or VictoriaMetrics."
)
@options.output("table", "json")
@click.option(
    "--http.config.file",
    "settings",
    type=_FILE,
    help="Prometheus HTTP client file with credentials and TLS, as for promtool.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Restrict the report to this Kubernetes namespace.")
@click.option("--top", type=click.IntRange(1, 200), default=10, show_default=True, help="Number of the worst to show.")
@click.option(
    "--selector", default="", metavar="MATCHERS", help="""Restrict it to series that match, such as 'cluster="east"'."""
)
@click.option(
    "--node-label",
    default=DEFAULT_NODE_LABEL,
    show_default=True,
    metavar="LABEL",
    help="Label with the Kubernetes node's name; `instance` is used for series without it.",
)
@click.option(
    "--time-out",
    type=options.Number(0.1, 3600),
    default=30,
    show_default=True,
    help="Time limit in seconds for all queries.",
)
@click.option("--fits", "pod", type=_FILE, help="Show on which nodes this pod (v1 Pod) would be admitted now.")
@click.option(
    "--count", type=click.IntRange(1, 100_000), help="Number of such pods, with --fits; by default as many as fit."
)
@click.option(
    "--fail-on",
    type=VerdictList(),
    metavar="VERDICT[,VERDICT]",
    help="Exit with 1 when a container has one of these verdicts, and with 3 when not all are known.",
)
@click.option("--fail-on-reject", is_flag=True, help="Exit with 1 when not all pods of --fits are admitted.")
def command(
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
    fail_on: frozenset[str] | None,
    fail_on_reject: bool,
) -> None:
    """Show the cluster's worst containers and nodes, silent agents, refused pods and free room.

    It queries a Prometheus that scrapes the agents. With --fits it shows on which nodes a pod would be admitted, by the
    kubelets' own rules for memory.
    """
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
    manifest = read_manifest(yaml_document.read(pod, "the pod"))
    with connected(url, config, time_out) as prometheus:
        foreseen = forecast(prometheus, ask_maps(prometheus, scope), manifest, count, top)
    _print(foreseen, output, top)
    _exit_if(fail_on_reject and not foreseen.is_enough)


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
    from numaudit.views.terminal import fleet_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

    out = terminal.console()
    if isinstance(found, FleetReport):
        fleet_tables.print_fleet(found, top, out)
    else:
        fleet_tables.print_fits(found, out)


def _exit_if(is_finding: bool) -> None:
    if is_finding:
        click.get_current_context().exit(EXIT_FINDINGS)
