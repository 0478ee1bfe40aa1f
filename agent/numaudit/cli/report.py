"""`numaudit report`: where memory was allowed and where it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from numaudit.agent import Observer
from numaudit.cli import options
from numaudit.errors import InputError
from numaudit.evaluation.report import ContainerReport, Report, build
from numaudit.reports import document


@click.command(
    epilog="""\b
Examples:
  numaudit report
  numaudit report mysql-0
  numaudit report prod/mysql-0/db -o json
  numaudit report --root ./captured -o wide
"""
)
@click.argument("which", required=False, metavar="[POD[/CONTAINER]]")
@options.output("table", "wide", "json")
@click.option(
    "--numa-maps-budget",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to spend on reading the processes' numa_maps (mapping kinds and memory policies); 0 leaves them out.",
)
@options.root
def command(which: str | None, output: str, numa_maps_budget: float, root: Path | None) -> None:
    """Report where the memory of every container on this host really is.

    Without Kubernetes, systemd units and plain cgroups take the containers' place. WHICH narrows
    the report to a pod, namespace/pod, pod/container, container id or cgroup path.
    """
    observer = Observer.of(options.host(root))
    report = narrow(build(observer.look(numa_maps_budget or None)), which)
    if output == "json":
        sys.stdout.buffer.write(document.encode("Report", report))
        return
    from numaudit.reports import terminal  # noqa: PLC0415 (rich is needed for tables only)

    terminal.print_report(report, terminal.console(), wide=output == "wide")


def narrow(report: Report, which: str | None) -> Report:
    """The report of some containers only. Raises InputError when none matches."""
    if which is None:
        return report
    found = tuple(one for one in report.containers if _matches(one, which))
    if not found:
        raise InputError(
            f"no container matches {which!r}; `numaudit report -o wide` lists all {len(report.containers)} of them"
        )
    return replace(report, containers=found)


def _matches(container: ContainerReport, which: str) -> bool:
    names = {container.path, container.path.lstrip("/"), container.path.rpartition("/")[2], container.pod_uid}
    if container.container_id and len(which) >= 12 and container.container_id.startswith(which):
        return True
    if container.pod is not None:
        pod, full = container.pod, f"{container.namespace}/{container.pod}"
        names |= {pod, full, f"{pod}/{container.container}", f"{full}/{container.container}"}
    elif container.pod_uid is not None:
        names.add(f"{container.pod_uid}/{container.container}")
    return which in names
