"""A cgroup for a command that is only measured: it may do what its caller may."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies, parse_process_cgroups
from numaudit.kernel.cgroup_writer import OwnCgroup, own_child
from numaudit.kernel.host import Host, explain, read_text


@contextmanager
def own_group(host: Host) -> Iterator[OwnCgroup]:
    """A child of our own cgroup, removed at the end unless the command left processes in it.

    A cgroup with processes cannot hand controllers down, the root alone can: elsewhere the child's memory is counted
    with its parent's. Raises Unavailable where cgroup version 2 does not count memory, or we may not make one.
    """
    hierarchies = find_hierarchies(host)
    if hierarchies.unified is None or not hierarchies.is_v2:
        raise Unavailable(
            f"cgroup {hierarchies.mode}: `numaudit` finds the processes of a command by its "
            "cgroup, which must be of version 2; "
            "boot with systemd.unified_cgroup_hierarchy=1"
        )
    try:
        own = parse_process_cgroups(read_text(host.proc / "self/cgroup")).get("", "/")
    except OSError as error:
        raise Unavailable(explain(error)) from None
    group = own_child(hierarchies.unified, own, f"numaudit-assert-{os.getpid()}", ("memory",) if own == "/" else ())
    try:
        yield group
    finally:
        with suppress(OSError):
            group.path.rmdir()
