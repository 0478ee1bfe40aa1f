"""Names of containers, by the mounts of their processes, or by the state of Docker and Podman on disk. No daemon is
asked.

The kubelet mounts each container's termination log from <root>/pods/UID/containers/NAME/, and the runtimes mount
/etc/hostname or /etc/resolv.conf from the folder of the pod's sandbox. Source: moby: daemon/container (config.v2.json,
`Name` begins with a slash); containers/storage (containers.json).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from numaudit.kernel import files
from numaudit.kernel.cgroup import unescape
from numaudit.kernel.host import Host, read_bytes

_NAME = re.compile(r"/pods/([0-9a-f-]{32,36})/containers/([a-z0-9][a-z0-9.-]{0,252})/[^/]+", re.ASCII)
_SANDBOX = re.compile(r"/(?:sandboxes|overlay-containers|containers)/([0-9a-f]{64})/", re.ASCII)
_SANDBOX_FILES = ("/etc/hostname", "/etc/resolv.conf", "/etc/hosts")


class MountFacts(Struct, frozen=True):
    """Facts that were found. None = nothing, or more than one answer: it stays unknown rather than guessed."""

    container_name: str | None
    sandbox_id: str | None
    """Id of the pod's sandbox. The container with this id is the sandbox."""


def parse_mountinfo(text: str, pod_uid: str) -> MountFacts:
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


NAMED_BY = ("docker", "podman")
"""Runtimes that give names by themselves."""

_DOCKER = "/var/lib/docker/containers"
_PODMAN = "/var/lib/containers/storage/overlay-containers/containers.json"


class _OfDocker(msgspec.Struct):
    """Fields read from a config.v2.json. The file holds the container's environment, too."""

    name: str = msgspec.field(name="Name", default="")


class _OfPodman(msgspec.Struct):
    id: str = ""
    names: list[str] = []


@dataclass(slots=True)
class RuntimeNames:
    """The names at one time; each file is read once. What cannot be read has no names."""

    host: Host
    _podman: Mapping[str, str] | None = field(default=None, init=False)

    def name(self, runtime: str | None, container_id: str | None) -> str | None:
        """None = the runtime is another, keeps its state elsewhere or to itself, or the container has no name."""
        if container_id is None or not container_id.isalnum():
            return None
        if runtime == "docker":
            return _docker_name(self.host.at(f"{_DOCKER}/{container_id}/config.v2.json"))
        if runtime != "podman":
            return None
        if self._podman is None:
            self._podman = _podman_names(self.host.at(_PODMAN))
        return self._podman.get(container_id)


def sources(host: Host) -> Iterator[Path]:
    """The files that `RuntimeNames` reads. Raises OSError, when Docker's folder may not be listed."""
    yield host.at(_PODMAN)
    folder = host.at(_DOCKER)
    yield from (folder / name / "config.v2.json" for name in sorted(files.names(folder)))


def names_only(path: Path, content: bytes) -> bytes:
    """One of these files with nothing in it but names, for a captured tree. Raises ValueError."""
    if path.name == "containers.json":
        return msgspec.json.encode(msgspec.json.decode(content, type=list[_OfPodman]))
    return msgspec.json.encode(msgspec.json.decode(content, type=_OfDocker))


def _docker_name(path: Path) -> str | None:
    try:
        return msgspec.json.decode(read_bytes(path), type=_OfDocker).name.lstrip("/") or None
    except (OSError, msgspec.MsgspecError, ValueError):
        return None


def _podman_names(path: Path) -> dict[str, str]:
    try:
        found = msgspec.json.decode(read_bytes(path), type=list[_OfPodman])
    except (OSError, msgspec.MsgspecError, ValueError):
        return {}
    return {one.id: one.names[0] for one in found if one.names and one.names[0]}
