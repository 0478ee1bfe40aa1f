"""`numaudit nrt`: the NodeResourceTopology of this node. Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.cli.parameters import Duration


@click.command(
    epilog="""\b
Examples:
  numaudit nrt
  numaudit nrt -o json --watch 30s
  numaudit nrt --root ./captured
  numaudit nrt --apply --kubeconfig /etc/kubernetes/admin.conf

Exit codes: 0 fine, 2 usage, 3 too little is known of the kubelet, or nothing could be written, 130 interrupted.
"""
)
@options.output("yaml", "json")
@click.option(
    "--watch",
    type=Duration(),
    is_flag=False,
    flag_value="15s",
    metavar="[TIME]",
    help="Look again every TIME (default 15s) until Ctrl-C, and print the object again when it has changed: YAML after "
    "a line of ---, JSON on one line.",
)
@click.option(
    "--apply",
    is_flag=True,
    help="Write the annotations to this node's object in the cluster, where they differ, and print what was written. "
    "The agent does so all the time with the setting nrt.publish.",
)
@click.option(
    "--own",
    is_flag=True,
    help="Write zones and attributes, too, with --apply, and make the object where there is none. It is refused where "
    "another writer owns them.",
)
@click.option(
    "--kubeconfig",
    type=options.FilePath(),
    metavar="FILE",
    help="With --apply: file with the cluster and the credentials; by default a pod's service account, $KUBECONFIG or "
    "~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="With --apply: context of the kubeconfig; by default its current one.")
@options.root
def command(**given: options.Given) -> int:
    """Print what a NUMA-aware scheduler should know of this node, as a NodeResourceTopology.

    Zones and attributes are those of feature discovery's topology updater. Its annotations have what is in no zone: the
    groups of nodes and the pods that keep them, nodes that serve containers alone, the largest requests that would be
    admitted, the kubelet's policies, free CPUs, devices and measured free memory. Nothing is written to the cluster
    without --apply.
    """
    from numaudit.cli.observe.nrt_work import run

    return run(**given)
