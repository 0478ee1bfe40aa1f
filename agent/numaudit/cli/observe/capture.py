"""`numaudit capture`: a tree for --root."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaudit.cli import messages
from numaudit.cli.options import FilePath, host
from numaudit.cli.parameters import Duration
from numaudit.errors import InputError, printable

if TYPE_CHECKING:
    from numaudit.capture.tree import CaptureSummary, Unread

_SHOWN = 20


@click.command(
    epilog="""\b
Examples:
  numaudit capture ./node-a
  numaudit capture node-a.tar.xz
  numaudit capture - > node-a.tar.xz
  numaudit capture --from root@server server.tar.xz

Exit codes: 0 fine, 2 usage, 3 this host cannot be read or there is no space, 130 interrupted.
"""
)
@click.argument("target", type=FilePath(allow_dash=True), metavar="DIR|FILE.tar.xz|-")
@click.option(
    "--from",
    "from_host",
    metavar="USER@HOST",
    help="Capture another host by ssh. It needs Python 3.6 or newer there, and nothing of numaudit.",
)
@click.option(
    "--duration",
    type=Duration(most=3600.0, or_none=True),
    default="10s",
    show_default=True,
    metavar="TIME",
    help="Time between two readings of counters, for rates and CPU time by node; 0 = one reading.",
)
def command(target: Path, from_host: str | None, duration: float) -> None:
    """Save this host's /proc, /sys, cgroup and kubelet state for offline analysis.

    It writes a folder, an archive, or an archive to standard output (-). The other verbs read the capture with --root.
    It holds figures, cgroup paths, mounts, and the names of processes, containers and mapped files, but no memory
    content, environment or command line. The kubelet's settings and answers are in it, without the commands and
    environments of pods. Only its owner may read it.
    """
    from numaudit.capture.tree import NOT_READ
    from numaudit.cli.signals import as_interrupts
    from numaudit.topology.quantity import plural

    with as_interrupts():
        summary, where = _capture(target, from_host, duration)
    click.echo(f"{plural(summary.files, 'file')}, {summary.bytes >> 10} KiB in {printable(where)}", err=True)
    lines = _by_name(summary.unread)
    if lines:
        click.echo(f"{len(summary.unread)} could not be read ({NOT_READ} in the capture lists all):", err=True)
        for line in lines[:_SHOWN]:
            click.echo(f"  {printable(line)}", err=True)
        if len(lines) > _SHOWN:
            click.echo(f"  and {len(lines) - _SHOWN} more", err=True)
        if os.geteuid() and any(one.reason == os.strerror(errno.EACCES) for one in summary.unread):
            click.echo("run as root to capture the files whose permission is denied", err=True)


def _capture(target: Path, from_host: str | None, seconds: float) -> tuple[CaptureSummary, str]:
    from numaudit.capture.tree import capture, capture_to

    if from_host is not None:
        from numaudit.capture.remote import capture_from

        return capture_from(from_host, target, seconds), str(target)
    pause = partial(messages.wait, seconds, "between two readings") if seconds else None
    if str(target) != "-":
        return capture(host(None), target, pause), str(target)
    output = sys.stdout.buffer
    if output.isatty():
        raise InputError("standard output is a terminal, and an archive is not text; add > host.tar.xz")
    return capture_to(host(None), output, pause), "standard output"


def _by_name(unread: Sequence[Unread]) -> list[str]:
    """A line for each reason and name of a file: hundreds of processes have one of the same name."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in unread:
        groups.setdefault((one.what.rpartition("/")[2], one.reason), []).append(one.what)
    return [
        f"{paths[0]}{f' and {len(paths) - 1} more of that name' if len(paths) > 1 else ''}: {reason}"
        for (_, reason), paths in groups.items()
    ]
