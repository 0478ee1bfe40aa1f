"""`numaudit fleet`: the whole cluster, from a Prometheus that scrapes the agents. Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.cli.progress import Duration
from numaudit.cli.verdict_list import VerdictList
from numaudit.fleet import DEFAULT_NODE_LABEL

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
@click.option(
    "--top",
    type=click.IntRange(1, 200),
    metavar="N",
    default=10,
    show_default=True,
    help="Number of containers and nodes to show, the worst first.",
)
@click.option(
    "--selector",
    default="",
    metavar="MATCHERS",
    help="""Restrict the report to series that match, such as 'cluster="east"'.""",
)
@click.option(
    "--node-label",
    default=DEFAULT_NODE_LABEL,
    show_default=True,
    metavar="LABEL",
    help="Label with the Kubernetes node's name. Series without it are named by `instance`.",
)
@click.option(
    "--timeout",
    "time_out",
    type=Duration(0.1, 3600),
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Time limit for all queries (500ms, 30s, 2m).",
)
@click.option(
    "--fits",
    "pod",
    type=options.FilePath(exists=True, dir_okay=False, readable=False, allow_dash=True),
    metavar="FILE|-",
    help="Show on which nodes this pod (v1 Pod, or a workload with a pod template) would be admitted now.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Number of pods for --fits. Default: a workload's replicas, or for a Pod as many as fit.",
)
@click.option(
    "--max-age",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="TIME",
    help="Maximum age of a node's values for --fits to answer for it (90s, 10m).",
)
@click.option(
    "--fail-on",
    type=VerdictList(),
    metavar="VERDICT[,VERDICT]",
    help="Exit with 1 when a container has one of these verdicts, and with 3 when some are unknown.",
)
@click.option("--fail-on-reject", is_flag=True, help="Exit with 1 when not all pods of --fits are admitted.")
def command(**given: options.Given) -> None:
    """Show a cluster's worst containers and nodes, silent agents, refused pods and free room.

    It queries a Prometheus that scrapes the agents. With --fits it shows on which nodes a pod would be admitted, by the
    kubelets' own rules for memory.
    """
    from numaudit.cli.service.fleet_work import run

    run(**given)
