"""A container's name, by the mounts of its processes. Pure: text in, values out.

The kubelet mounts each container's termination log from <root>/pods/UID/containers/NAME/, and the
runtimes mount /etc/hostname or /etc/resolv.conf from the folder of the pod's sandbox.
"""

from __future__ import annotations

import re

from msgspec import Struct

from numaudit.kernel.cgroup import unescape

_NAME = re.compile(r"/pods/([0-9a-f-]{32,36})/containers/([a-z0-9][a-z0-9.-]{0,252})/[^/]+", re.ASCII)
_SANDBOX = re.compile(r"/(?:sandboxes|overlay-containers|containers)/([0-9a-f]{64})/", re.ASCII)
_SANDBOX_FILES = ("/etc/hostname", "/etc/resolv.conf", "/etc/hosts")


class MountFacts(Struct, frozen=True):
    """Facts that were found. None = nothing, or more than one answer: it stays unknown rather than guessed."""

    container_name: str | None
    sandbox_id: str | None
    """Id of the pod's sandbox. The container with this id is the sandbox."""


def parse(text: str, pod_uid: str) -> MountFacts:
    """Read /proc/PID/mountinfo of a process in a container of this pod (UID as in its cgroup path)."""
    names: set[str] = set()
    sandboxes: set[str] = set()
    for line in text.splitlines():
        fields = line.split(" ", 5)
        if len(fields) < 6:
            continue
        root, point = unescape(fields[3]), unescape(fields[4])
        name = _NAME.search(root)
        if name is not None and name[1] == pod_uid:
            names.add(name[2])
        if point in _SANDBOX_FILES:
            sandbox = _SANDBOX.search(root)
            if sandbox is not None:
                sandboxes.add(sandbox[1])
    return MountFacts(_single(names), _single(sandboxes))


def _single(found: set[str]) -> str | None:
    return next(iter(found)) if len(found) == 1 else None
