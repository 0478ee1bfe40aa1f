"""`numaudit report`: where each container's memory was promised, and where it is. Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.cli.parameters import SORT_KEYS, ContainerName, Duration, NamespaceName, VerdictList


@click.command(
    epilog="""\b
Examples:
  numaudit report
  numaudit report --nodes
  numaudit report --duration 10s
  numaudit report --sort remote --top 20
  numaudit report --verdict drifted,spilled
  numaudit report mysql-0 --fail-below 95%
  numaudit report --fail-on misaligned
  numaudit report prod/mysql-0/db -o json
  numaudit report -n prod 'web-*'
  numaudit report system.slice
  numaudit report vllm-0 --processes
  numaudit report --root ./captured -o wide
  numaudit report -o html > report.html
  numaudit report --redact -o html > public.html

Exit codes: 0 fine, 1 as --fail-below or --fail-on asks, 2 usage, 3 this host cannot answer, 130 interrupted.
"""
)
@click.argument("which", required=False, type=ContainerName(), metavar="[NAME]")
@click.option(
    "-n", "--namespace", type=NamespaceName(), metavar="NAME", help="Restrict the report to this Kubernetes namespace."
)
@options.output("table", "wide", "json", "html")
@click.option(
    "--duration",
    type=Duration(),
    metavar="TIME",
    help="Measure with BPF for this long (10s, 1m): where containers run, allocate memory and use it.",
)
@click.option(
    "--nodes", is_flag=True, help="Show each node's memory too, and what the kubelet can still promise there."
)
@click.option(
    "--processes",
    is_flag=True,
    help="Show the processes of the containers that NAME or --namespace selects: CPUs, memory policy, memory and CPU "
    "time by node, and threads that differ. EXPECTED is then the sum over them.",
)
@click.option(
    "--fail-below",
    type=options.Share(),
    metavar="SHARE",
    help="Exit with 1 when a container has less than this share (95% or 0.95) of its judged bytes on its promised "
    "nodes, or is drifted, cpu-remote or remote-access; exit with 3 when that is unknown.",
)
@click.option(
    "--fail-on",
    type=VerdictList(of_ranks=True),
    metavar="VERDICT[,VERDICT]",
    help="Exit with 1 when a container has one of these verdicts, such as drifted,cpu-remote,unknown, or with "
    "--processes a rank has one, such as first-touch-before-bind; exit with 3 when that is unknown.",
)
@click.option(
    "--verdict",
    type=VerdictList(),
    metavar="VERDICT[,VERDICT]",
    help="Show only containers with one of these verdicts; --fail-below and --fail-on still judge all.",
)
@click.option(
    "--sort",
    type=click.Choice(SORT_KEYS),
    default=SORT_KEYS[0],
    show_default=True,
    help="Order of the rows: the most harm first, the largest amount first, or by name; cpu needs --duration or a "
    "capture of two readings.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show only the first N rows; --fail-below and --fail-on still judge all.",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Hide the names of namespaces, pods, containers, cgroups, processes, files and this host, for publishing the "
    "report. A name becomes the same word throughout one report, but another in the next.",
)
@options.root
def command(**given: options.Given) -> int:
    """Show where each container's memory is, and whether it was promised there.

    Without Kubernetes it shows systemd units and plain cgroups instead of containers. NAME restricts the report to a
    pod, namespace/pod, pod/container, container id (or its beginning), runtime, or cgroup with all below it. If nothing
    has that name, NAME is a pattern ('web-*') or the beginning of a name. With NAME the report also lists the processes
    that have memory on the wrong nodes.
    """
    from numaudit.cli.observe.report_work import ReportOptions, run

    return run(ReportOptions(**given))
