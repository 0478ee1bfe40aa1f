"""`numaudit fit`: would a kubelet admit this pod, and if not, what would let it in? Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.containermanager.versions import POD_LEVEL_GATE

_FILE = options.FilePath(exists=True, dir_okay=False, readable=False)
_POD_FILE = options.FilePath(exists=True, dir_okay=False, readable=False, allow_dash=True)


@click.command(
    epilog="""\b
Examples:
  numaudit fit -f pod.yaml
  numaudit fit -f pod.yaml --make-room
  kubectl get deployment web -o yaml | numaudit fit -f -
  numaudit fit -f pod.yaml -o json --root ./captured
  numaudit fit -f pod.yaml --machine machine.json --kubelet-config kubelet.yaml
  numaudit fit -f pod.yaml --scenario docs/examples/walk-through.yaml

Exit codes: 0 fine, 1 with --fail-on-reject if the pod is refused, 2 usage or a file is wrong, 3 too little is known
here, 5 with --fail-on-reject if the outcome is unknown, as where pods in the checkpoints may be gone.
"""
)
@click.option(
    "-f",
    "--file",
    "pod",
    type=_POD_FILE,
    required=True,
    metavar="FILE|-",
    help="File with v1 Pods or workloads, in YAML or JSON, as from `kubectl get -o yaml`; - reads standard input.",
)
@options.output("table", "json")
@click.option(
    "--scenario", type=_FILE, help="Scenario as for `numaudit simulate`; the pod is tried after its last step."
)
@click.option(
    "--machine", type=_FILE, help="Description of the machine, as in a scenario or from `numaudit topology -o json`."
)
@click.option(
    "--kubelet-config", "configuration", type=_FILE, help="The kubelet's configuration file (KubeletConfiguration)."
)
@click.option("--memory-state", type=_FILE, help="State file of the Memory Manager (memory_manager_state).")
@click.option("--cpu-state", type=_FILE, help="State file of the CPU Manager (cpu_manager_state).")
@click.option("--device-state", type=_FILE, help="State file of the Device Manager (kubelet_internal_checkpoint).")
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

    For a workload such as a Deployment or a Job, it answers for one pod of its template. A file may hold several
    documents and lists: it answers for each pod by itself, and ignores objects without pods.

    The node is this host, a captured host (--root), the node at the end of a --scenario, or one that files describe. A
    node from --machine has only the pods in its state files.
    """
    from numaudit.cli.manager.fit_work import run

    run(**given)
