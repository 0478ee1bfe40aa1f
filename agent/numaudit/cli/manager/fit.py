"""`numaudit fit`: would a kubelet admit this pod, and if not, what would let it in? Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.containermanager.versions import POD_LEVEL_GATE

_POD_FILE = options.FilePath(exists=True, dir_okay=False, readable=False, allow_dash=True)


@click.command(
    epilog="""\b
Examples:
  numaudit fit pod.yaml
  numaudit fit pod.yaml --make-room
  kubectl get deployment web -o yaml | numaudit fit -
  numaudit fit pod.yaml -o json --root ./captured
  numaudit fit pod.yaml --node docs/examples/walk-through.yaml
  numaudit fit pod.yaml --node ./copy-of-var-lib-kubelet

Exit codes: 0 fine, 1 with --fail-on-reject if the pod is refused, 2 usage or a file is wrong, 3 too little is known
here, 5 with --fail-on-reject if the outcome is unknown, as where pods in the checkpoints may be gone.
"""
)
@click.argument("given", required=False, type=_POD_FILE, metavar="FILE|-")
@click.option("-f", "--file", "pod", type=_POD_FILE, metavar="FILE|-", help="FILE, as kubectl takes it.")
@options.output("table", "json")
@click.option(
    "--node",
    type=options.FilePath(exists=True, readable=False),
    metavar="FILE|DIR",
    help="Node instead of this host: the end of a scenario (FILE.yaml, as for `numaudit simulate`), a capture, or a "
    "folder with machine.json (from `numaudit topology -o json`) and copies of the kubelet's config.yaml and state "
    "files.",
)
@click.option(
    "--kubernetes-version",
    metavar="V",
    help="Version of the kubelet. Default: the host's, or the newest if that is unknown.",
)
@click.option("--feature-gates", metavar=f"{POD_LEVEL_GATE}=BOOL", help="Feature gates of the kubelet.")
@click.option(
    "--make-room",
    "with_room",
    is_flag=True,
    help="Name the smallest set of pods whose deletion would let it in. Nothing is deleted.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Number of such pods, one after the other. Default: the workload's replicas.",
)
@click.option(
    "--fail-on-reject",
    is_flag=True,
    help="Exit with 1 when the pod, or one of --count, is refused or the kubelet would not start again.",
)
@options.root
def command(**given: options.Given) -> None:
    """Show whether a kubelet would admit a pod, why not, and what would let it in.

    FILE has v1 Pods or workloads, in YAML or JSON, as from `kubectl get -o yaml`; - reads standard input. For a
    workload such as a Deployment or a Job, it answers for one pod of its template. A file may hold several documents
    and lists: it answers for each pod by itself, and ignores objects without pods.

    The node is this host, a captured host (--root), or what --node describes: of a folder it has only the pods in its
    state files.
    """
    from numaudit.cli.manager.fit_work import FitOptions, run

    run(FitOptions(**given))
