"""`numaudit nrt`: the NodeResourceTopology of this node. Its options."""

from __future__ import annotations

import click

from numaudit.cli import options


@click.command(
    epilog="""\b
Examples:
  numaudit nrt
  numaudit nrt -o json
  numaudit nrt --root ./captured
  KUBECONFIG=/etc/kubernetes/admin.conf numaudit nrt --apply

Exit codes: 0 fine, 2 usage, 3 too little is known of the kubelet, or nothing could be written.
"""
)
@options.output("yaml", "json")
@click.option(
    "--apply",
    is_flag=True,
    help="Write the annotations to this node's object in the cluster, where they differ, and print what was written. "
    "Credentials are those of $KUBECONFIG, a pod's service account, or ~/.kube/config. "
    "The agent does so all the time with the setting nrt.publish.",
)
@click.option(
    "--own",
    is_flag=True,
    help="Write zones and attributes, too, with --apply, and make the object where there is none. It is refused where "
    "another writer owns them.",
)
@options.root
def command(**given: options.Given) -> None:
    """Print what a NUMA-aware scheduler should know of this node, as a NodeResourceTopology.

    Zones and attributes are those of feature discovery's topology updater. Its annotations have what is in no zone: the
    groups of nodes and the pods that keep them, nodes that serve containers alone, the largest requests that would be
    admitted, the kubelet's policies, free CPUs, devices and measured free memory. Nothing is written to the cluster
    without --apply.
    """
    from numaudit.cli.observe.nrt_work import run

    run(**given)
