"""`numaudit help`: the help of a verb, or the glossary."""

from __future__ import annotations

import click

GLOSSARY = {
    "node": "A NUMA node: memory, and the CPUs near it. A list of nodes is written as 0-1,3. A machine of a cluster "
    "is called a host, or a Kubernetes node.",
    "container": "A Kubernetes container. On a host without Kubernetes, a systemd unit or a cgroup.",
    "promised": "Memory, CPUs and nodes that the kubelet's static managers, or `numaudit run`, gave to a container.",
    "allowed": "Nodes and CPUs that the container may use, according to the cpuset of its cgroup.",
    "resident": "Memory that is present in RAM, by the node that it is on.",
    "accessed": "Memory accesses, as the processor counts them.",
    "used remotely": "Memory that NUMA balancing saw used by a CPU of another node: which pages, not how often.",
    "remote": "Memory on another node than the CPU's. In a report: on nodes whose CPUs the container may not use.",
    "judged bytes": "Anonymous memory, shared memory and huge pages. Only these decide verdicts, not the page cache.",
    "verdict": "The one conclusion about a container, such as aligned or spilled.",
    "finding": "A problem in addition to the verdict, such as oom-risk. A container or a host may have several.",
    "group": "Nodes that the Memory Manager uses together, for containers that need more than one node.",
    "hint fault": "A page fault that NUMA balancing provokes, to learn which CPU uses a page.",
    "scan pass": "One walk of NUMA balancing through a process's memory. The scan period is the time between steps.",
    "tick": "One reading of everything. The agent makes one every 15 seconds.",
}
"""Word -> meaning. Fifteen words at most."""


@click.command(
    epilog="""\b
Examples:
  numaudit help
  numaudit help state verify
  numaudit help glossary

Exit codes: 0 fine, 2 usage.
"""
)
@click.argument("topic", nargs=-1, metavar="[VERB [COMMAND] | glossary]")
@click.pass_context
def command(ctx: click.Context, topic: tuple[str, ...]) -> None:
    """Print the help of a verb, or the glossary, which explains the words of the reports."""
    if topic == ("glossary",):
        formatter = ctx.make_formatter()
        formatter.write_dl(list(GLOSSARY.items()))
        click.echo(formatter.getvalue(), nl=False)
        return
    click.echo(_context_of(ctx.find_root(), topic).get_help())


def _context_of(found: click.Context, words: tuple[str, ...]) -> click.Context:
    for word in words:
        group = found.command
        names = group.list_commands(found) if isinstance(group, click.Group) else []
        below = group.get_command(found, word) if isinstance(group, click.Group) else None
        if below is None:
            known = ", ".join([*names, "glossary"]) if names else "no verbs"
            raise click.UsageError(f"no help for {word!r}: {found.command_path} has {known}")
        found = click.Context(below, info_name=word, parent=found)
    return found
