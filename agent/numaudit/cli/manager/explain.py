"""`numaudit explain`: why a kubelet admits or refuses a pod, and the account of one that is here. Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.cli.names import ContainerName
from numaudit.cli.progress import Duration
from numaudit.containermanager.versions import POD_LEVEL_GATE

_FILE = options.FilePath(exists=True, dir_okay=False, readable=False)


@click.command(
    epilog="""\b
Examples:
  numaudit explain prod/mysql-0/db
  numaudit explain mysql-0 --duration 10s
  numaudit explain -f pod.yaml
  numaudit explain -f pod.yaml --make-room
  numaudit explain -f pod.yaml -o json --root ./captured
  numaudit explain -f pod.yaml --machine machine.json --config kubelet.yaml
  numaudit explain -f pod.yaml --scenario docs/examples/walk-through.yaml
Exit codes: 0 fine, 1 the pod is refused and --fail-on-reject is given, 2 a file is wrong, 3 too little is known here,
5 with --fail-on-reject when pods in the checkpoints may be gone, so the outcome is unknown.
"""
)
@click.argument("which", required=False, type=ContainerName(), metavar="[POD[/CONTAINER]]")
@click.option("-f", "--file", "pod", type=_FILE, help="File with the pod (v1 Pod), in YAML or JSON.")
@options.output("table", "json")
@click.option("--scenario", type=_FILE, help="Scenario at whose end the pod is admitted, as for `numaudit simulate`.")
@click.option(
    "--machine", type=_FILE, help="Description of the machine, as in a scenario or from `numaudit topology -o json`."
)
@click.option("--config", "configuration", type=_FILE, help="Configuration file of the kubelet (KubeletConfiguration).")
@click.option("--memory-state", type=_FILE, help="State file of the Memory Manager (memory_manager_state).")
@click.option("--cpu-state", type=_FILE, help="State file of the CPU Manager (cpu_manager_state).")
@click.option("--device-state", type=_FILE, help="State file of the Device Manager (kubelet_internal_checkpoint).")
@click.option(
    "--kubernetes-version", metavar="V", help="Version of the kubelet, by default the host's, else the newest."
)
@click.option("--feature-gates", metavar=f"{POD_LEVEL_GATE}=BOOL", help="Feature gates of the kubelet.")
@click.option(
    "--make-room",
    "with_room",
    is_flag=True,
    help="Name the smallest set of pods whose deletion would let it in. Nothing is deleted.",
)
@click.option(
    "--duration",
    type=Duration(),
    metavar="TIME",
    help="Measure for this long (10s, 1m), with BPF, from which nodes POD uses memory.",
)
@click.option("--fail-on-reject", is_flag=True, help="Exit with 1 when the pod is refused.")
@options.root
def command(**given: options.Given) -> None:
    """Explain why a kubelet admits or refuses a pod, or what a pod on this host was promised and got.

    With -f it says whether the pod would be admitted, and what would let it in. With POD it prints a page on each
    container of a pod of this host: its promise and the reason for it, its cpuset, its memory and accesses by node, the
    verdict, the cost, and what to do.

    The node is this host, a captured one (--root), the end of a --scenario, or described by files. A node from
    --machine has only the pods in its state files.
    """
    from numaudit.cli.manager.explain_work import run

    run(**given)
