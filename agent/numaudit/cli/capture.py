"""`numaudit capture`: a tree for --root."""

from __future__ import annotations

from pathlib import Path

import click

from numaudit.capture import capture
from numaudit.kernel.host import Host


@click.command(
    epilog="""\b
Examples:
  numaudit capture ./node-a
  numaudit capture node-a.tar.xz
"""
)
@click.argument("target", type=click.Path(path_type=Path), metavar="DIR|FILE.tar.xz")
def command(target: Path) -> None:
    """Copy what the readers read into a folder or an archive, for use with --root.

    It holds figures, cgroup paths, process names and mounts, but no memory content, environment
    or command line. Of a kubelet it holds the settings, and answers without the pods' commands
    and environments.
    """
    summary = capture(Host(), target)
    click.echo(
        f"{summary.files} files, {summary.bytes >> 10} KiB in {target}; {summary.skipped} could not be read", err=True
    )
